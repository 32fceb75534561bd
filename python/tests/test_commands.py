"""The commands that README and docs show are run, and so are the programs of
examples/. A block of commands begins with ```sh run, or with ```sh skip: and the
reason why no test runs it."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from tests import PATIENCE
from tests.daemon import BINARY, Daemon

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(\$ |bin/berth |berth |make |curl |go |python3? |pip |systemctl )")


class Marks(unittest.TestCase):
    def test_every_block_is_run_or_says_why_not(self):
        for page in PAGES:
            for info, text in BLOCK.findall(page.read_text()):
                if info.startswith("sh"):
                    self.assertRegex(info, r"^sh (run|skip: \w.*)$", page.name)
                elif not info:
                    self.assertIsNone(COMMAND.match(text), "%s: mark the commands\n%s" % (page.name, text))


@unittest.skipUnless(BINARY.exists(), "there is no %s: run make build, or name the binary in BERTH_BIN" % BINARY)
class Commands(unittest.TestCase):
    def test_blocks(self):
        for page in PAGES:
            blocks = [text for info, text in BLOCK.findall(page.read_text()) if info == "sh run"]
            if blocks:
                with self.subTest(page=page.name):
                    self.run_page(blocks)

    def run_page(self, blocks):
        """Runs the blocks of a page one after the other, with a daemon of their own."""
        daemon = Daemon(devices="sim:8")
        self.addCleanup(daemon.close)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "examples", pathlib.Path(folder, "examples"))
            pathlib.Path(folder, "bin").symlink_to(BINARY.parent)
            environ = {k: v for k, v in os.environ.items() if not k.startswith("BERTH_")}
            environ.update(BERTH_SOCKET=daemon.socket, PYTHONPATH=str(ROOT / "python"), HOME=folder)
            environ["PATH"] = "%s:%s" % (BINARY.parent, environ["PATH"])
            for block in blocks:
                for command, fails in commands(block):
                    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environ, capture_output=True, text=True, timeout=2 * PATIENCE)
                    told = "%s\n%s%s" % (command, done.stdout, done.stderr)
                    self.assertEqual(done.returncode != 0, fails, told)


# How each program of examples/python is run. What is not here says why.
EXAMPLES = {
    "lease.py": "python3 examples/python/lease.py 4GiB true",
    "map.py": "python3 examples/python/map.py 200",
    "sweep.py": "python3 examples/python/sweep.py 6",
    "throttle.py": "python3 examples/python/throttle.py",
    "worker.py": "python3 examples/batch/records.py 100 >in.jsonl && berth run --input in.jsonl --output out.jsonl -- python3 examples/python/worker.py",
}
WITHOUT = {"image_pipeline.py": "it needs a GPU and three array libraries; test_given compiles its plan, and test/bench/gpu/plan.sh runs it"}


@unittest.skipUnless(BINARY.exists(), "there is no %s: run make build, or name the binary in BERTH_BIN" % BINARY)
class Examples(Commands):
    def test_every_example_is_run_or_says_why_not(self):
        programs = {path.name for path in (ROOT / "examples" / "python").glob("*.py")}
        self.assertEqual(programs, set(EXAMPLES) | set(WITHOUT))

    def test_blocks(self):
        self.run_page(list(EXAMPLES.values()))


def commands(block):
    """Lists the commands of a block, and whether each fails. Where a block shows
    answers, commands have a prompt, and one that fails is answered by "berth: "."""
    lines = block.rstrip("\n").split("\n")
    if not lines[0].startswith("$ "):
        return [(block, False)]
    found = []
    for number, line in enumerate(lines):
        if line.startswith("$ "):
            answer = lines[number + 1] if number + 1 < len(lines) else ""
            found.append((line[2:], answer.startswith("berth: ")))
    return found
