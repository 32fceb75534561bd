"""Every day of examples/days is played, and must end well."""

import os
import pathlib
import subprocess
import sys
import unittest

from tests.daemon import BINARY

DAYS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "days"


@unittest.skipUnless(BINARY.exists(), "there is no %s: run make build, or name the binary in BERTH_BIN" % BINARY)
class Days(unittest.TestCase):
    def play(self, script):
        environ = dict(os.environ, BERTH_BIN=str(BINARY), PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run([sys.executable, str(DAYS / script)], env=environ, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, "%s:\n%s%s" % (script, done.stdout, done.stderr))

    def test_application(self):
        self.play("application.py")

    def test_notebook(self):
        self.play("notebook.py")

    def test_services(self):
        self.play("services.py")

    def test_every_day_has_a_test(self):
        days = {script.stem for script in DAYS.glob("*.py")} - {"machine"}
        tested = {name[len("test_") :] for name in dir(self)}
        self.assertLessEqual(days, tested)


if __name__ == "__main__":
    unittest.main()
