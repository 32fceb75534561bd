"""Every day of examples/days is played, and must end well. So must the Python blocks
of the pages for each kind of user."""

import json
import os
import pathlib
import re
import runpy
import shutil
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


@unittest.skipUnless(BINARY.exists(), "there is no %s: run make build, or name the binary in BERTH_BIN" % BINARY)
class Machines(unittest.TestCase):
    def day(self, act):
        environ = dict(os.environ, BERTH_BIN=str(BINARY), PYTHONPATH=str(DAYS), PYTHONDONTWRITEBYTECODE="1")
        script = "from machine import *\nwith Machine('sim:1') as machine:\n    print(machine.folder, flush=True)\n    %s" % act
        done = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=PATIENCE)
        return done, pathlib.Path(done.stdout.splitlines()[0])

    def test_the_folder_of_a_day_that_failed_is_kept(self):
        done, folder = self.day("fail('it rains')")
        self.addCleanup(shutil.rmtree, folder)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("the folder %s is kept" % folder, done.stdout)
        self.assertIn("berth is down", (folder / "log-0").read_text())

    def test_the_folder_of_a_day_that_went_well_is_not_kept(self):
        done, folder = self.day("pass")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(folder.exists())


class Work(unittest.TestCase):
    """The program of the jobs of the week."""

    def test_a_pid_that_a_process_of_another_user_had(self):
        sys.path.insert(0, str(DAYS))
        self.addCleanup(sys.path.remove, str(DAYS))
        work = runpy.run_path(str(DAYS / "week.py"))["WORK"]
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
        with tempfile.TemporaryDirectory() as name:
            folder, gpu = pathlib.Path(name), pathlib.Path(name, "guests", "GPU-a")
            folder.chmod(0o755)
            (folder / "work.py").write_text(work)
            for path in (folder / "starts", gpu):
                path.mkdir(parents=True)
                path.chmod(0o777)
            process = subprocess.Popen(
                ["/bin/sh", "-c", 'read go; exec "$@"', "sh", python, name + "/work.py", name, "0", "0", "1000"],
                env=dict(os.environ, BERTH_LEASE="fit-1", BERTH_GPUS="GPU-a"), cwd=name, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                user="nobody" if os.geteuid() == 0 else None,
            )
            (gpu / str(process.pid)).touch(0o444)
            said = process.communicate("go\n", timeout=PATIENCE)[0]
            self.assertEqual(process.returncode, 0, said)
            self.assertEqual(json.loads((gpu / str(process.pid)).read_text())["memory_mb"], 1000)


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
