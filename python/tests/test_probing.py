"""Probes of real child processes, against libraries that behave badly."""

import os
import pathlib
import select
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from berth import probing

from . import PATIENCE

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
        patch = mock.patch.dict(os.environ, PYTHONPATH=folder.name, PYTHONDONTWRITEBYTECODE="")  # as for most people
        patch.start()
        self.addCleanup(patch.stop)
        self.folder = folder.name

    def probe(self, *names, limit=float(PATIENCE)):
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
        self.assertEqual([call.args[1] for call in ask.call_args_list], ["", "broken"])
        self.assertEqual(found["broken"]["status"], "ok")

    def test_what_is_no_interpreter_says_nothing_about_libraries(self):
        for python, why in (
            ("/no/python", "/no/python cannot be started: No such file"),
            ("/bin/false", "/bin/false gave no answer: it ended with status 1; name a Python 3"),
            ("no-such-python", "no-such-python is in no folder of PATH"),
        ):
            with self.subTest(python), self.assertRaisesRegex(probing.NoInterpreter, why):
                probing.probe(python, ["good"])

    def test_an_interpreter_is_found_by_name_and_by_a_relative_path(self):
        link = pathlib.Path(self.folder, "my-python")
        link.symlink_to(sys.executable)
        with mock.patch.dict(os.environ, PATH=self.folder + os.pathsep + os.environ["PATH"]):
            self.assertEqual(probing.probe("my-python", ["good"])["good"]["status"], "ok")
        self.assertEqual(probing.probe(os.path.relpath(link), ["good"])["good"]["status"], "ok")

    def test_what_a_library_started_ends_with_it(self):
        ends = os.pipe()
        os.set_inheritable(ends[1], True)
        pathlib.Path(self.folder, "leaves.py").write_text(
            "import os, subprocess\nsubprocess.Popen(['sleep', '600'], close_fds=False)"
        )
        child = subprocess.Popen
        with mock.patch.object(subprocess, "Popen", lambda *a, **k: child(*a, **dict(k, close_fds=False))):
            found = self.probe("leaves")
        os.close(ends[1])
        with open(ends[0], "rb") as alive:
            ended, _, _ = select.select([alive], [], [], PATIENCE)  # it can be read when nobody holds the other end
            self.assertTrue(ended)
        self.assertEqual(found["leaves"]["status"], "ok")

    def test_gpus_are_never_known_by_their_number(self):
        for name in ("tensorflow", "tensorflow/python", "tensorflow/python/client"):
            pathlib.Path(self.folder, name).mkdir()
            pathlib.Path(self.folder, name, "__init__.py").write_text("")
        pathlib.Path(self.folder, "tensorflow", "__init__.py").write_text(
            "class config: list_physical_devices = staticmethod(lambda kind: ['one'])"
        )
        pathlib.Path(self.folder, "tensorflow", "python", "client", "device_lib.py").write_text(
            "class GPU: device_type, physical_device_desc = 'GPU', 'name: NVIDIA L4, pci bus id: 0000:1b:00.0'\n"
            "list_local_devices = lambda: [GPU]"
        )
        found = self.probe("tensorflow")["tensorflow"]
        self.assertEqual(found["devices"], [{"name": "NVIDIA L4", "pci_bus_id": "0000:1b:00.0"}])
