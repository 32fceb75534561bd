"""Probes of real child processes, against libraries that behave badly."""

import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from berth import probing

LIBRARIES = {
    "good": "__version__ = '1.2'\nprint('rubbish')",
    "broken": "import nothing_like_it",
    "quits": "import sys; sys.exit(3)",
    "crashes": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "hangs": "import time; time.sleep(600)",
    "torch": "import types, os, signal\n__version__ = '9'\n"
    "cuda = types.SimpleNamespace(is_available=lambda: os.kill(os.getpid(), signal.SIGKILL))",
    "cupy": "import types\ndef count(): raise RuntimeError('no driver')\n"
    "cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(getDeviceCount=count, CUDARuntimeError=KeyError))",
    "jax": "import types\ndevices = lambda: [types.SimpleNamespace(platform='cpu')]",
}


class Probing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in LIBRARIES.items():
            pathlib.Path(folder.name, name + ".py").write_text(text)
        patch = mock.patch.dict(os.environ, PYTHONPATH=folder.name)
        patch.start()
        self.addCleanup(patch.stop)
        self.folder = folder.name

    def probe(self, *names, limit=60.0):
        return probing.probe(sys.executable, names, limit)

    def test_every_kind(self):
        found = self.probe("good", "broken", "quits", "crashes", "nowhere", "nowhere.deep")
        self.assertEqual(found["good"], {"status": "ok", "version": "1.2"})
        self.assertEqual(found["broken"]["status"], "broken")
        self.assertIn("nothing_like_it", found["broken"]["reason"])
        self.assertEqual(found["quits"]["status"], "broken")
        self.assertIn("killed by signal 11", found["crashes"]["reason"])
        self.assertEqual(found["nowhere"]["status"], "missing")
        self.assertEqual(found["nowhere.deep"]["status"], "missing")

    def test_one_that_hangs_is_ended(self):
        found = self.probe("hangs", limit=1.0)
        self.assertEqual(found["hangs"]["status"], "broken")
        self.assertIn("did not answer within 1 seconds", found["hangs"]["reason"])

    def test_one_that_dies_when_asked_for_gpus_is_importable(self):
        found = self.probe("torch", "cupy", "jax")
        self.assertEqual(found["torch"]["status"], "ok")
        self.assertIn("asked for its GPUs, it was killed by signal 9", found["torch"]["devices_unknown"])
        self.assertIn("no driver", found["cupy"]["devices_unknown"])
        self.assertEqual(found["jax"]["devices"], [])

    def test_good_answers_are_kept(self):
        self.probe("good", "broken")
        pathlib.Path(self.folder, "broken.py").write_text("")
        with mock.patch.object(probing, "_ask", wraps=probing._ask) as ask:
            found = self.probe("good", "broken")
        self.assertEqual([call.args[1] for call in ask.call_args_list], ["broken"])
        self.assertEqual(found["broken"]["status"], "ok")

    def test_no_interpreter(self):
        with self.assertRaisesRegex(OSError, "/no/python cannot be started: No such file"):
            probing.probe("/no/python", ["good"])
