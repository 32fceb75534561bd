"""Every day of examples/days is played, and must end well. So must the Python blocks
of the pages for each kind of user."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from tests import PATIENCE
from tests.daemon import BINARY, DaemonCase

ROOT = pathlib.Path(__file__).resolve().parents[2]
DAYS = ROOT / "examples" / "days"


@unittest.skipUnless(BINARY.exists(), "there is no %s: run make build, or name the binary in BERTH_BIN" % BINARY)
class Days(unittest.TestCase):
    def play(self, script):
        environ = dict(os.environ, BERTH_BIN=str(BINARY), PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run([sys.executable, str(DAYS / script)], env=environ, capture_output=True, text=True, timeout=2 * PATIENCE)
        self.assertEqual(done.returncode, 0, "%s:\n%s%s" % (script, done.stdout, done.stderr))

    def test_application(self):
        self.play("application.py")

    def test_models(self):
        self.play("models.py")

    def test_notebook(self):
        self.play("notebook.py")

    def test_pipelines(self):
        self.play("pipelines.py")

    def test_services(self):
        self.play("services.py")

    def test_shared(self):
        self.play("shared.py")

    def test_every_day_has_a_test(self):
        days = {script.stem for script in DAYS.glob("*.py")} - {"machine", "week"}  # make week plays the week
        tested = {name[len("test_") :] for name in dir(self)}
        self.assertLessEqual(days, tested)


class Pages(DaemonCase):
    devices = "sim:rtx-4060"

    def test_blocks(self):
        for page in sorted((ROOT / "docs" / "start").glob("*.md")):
            blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
            for number, block in enumerate(blocks, 1):
                if block.startswith("# needs "):
                    continue  # the comment says why
                with self.subTest(page=page.name, block=number):
                    self.run_block(block)

    def run_block(self, block):
        """Runs a block as a script: functions of a script have a source."""
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "block.py")
            script.write_text(block)
            environ = dict(os.environ, BERTH_BIN=str(BINARY), XDG_STATE_HOME=folder, PYTHONPATH=str(ROOT / "python"))
            done = subprocess.run(
                [sys.executable, str(script)], env=environ, cwd=ROOT, capture_output=True, text=True, timeout=2 * PATIENCE
            )
        self.assertEqual(done.returncode, 0, block + done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
