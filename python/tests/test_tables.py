"""Plans for people: the same as on the command line."""

import os
import pathlib
import subprocess
import tempfile

import berth

from .daemon import BINARY, DaemonCase

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "pipelines"


class Tables(DaemonCase):
    def both(self, text):
        """What the command line prints, and what the package does."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "file.yaml")
            path.write_text(text)
            command = [str(BINARY), "plan", str(path), "--no-probe"]
            done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            plan = self.daemon.client.call("POST", "/api/plans", {"name": str(path), "text": text})
            return done.stdout.rstrip("\n"), str(berth.Plan(plan, {}, self.daemon.client))

    def test_the_examples(self):
        for path in sorted(EXAMPLES.glob("*.yaml")):
            with self.subTest(path.name):
                printed, shown = self.both(path.read_text())
                self.assertEqual(shown, printed)
                self.assertIn("on GPU 0, 1 slot and " if path.name == "image.yaml" else "1 slot and ", shown)
                self.assertIn("PEAK", shown)

    def test_what_was_learned(self):
        measured = {"name": "tables.guess", "memory_mb": 3000, "seconds": 100}
        self.daemon.client.call("POST", "/api/measurements", measured)
        step = "{name: a, input: cupy, output: cupy, function: tables.guess}"
        printed, shown = self.both("pipelines: [{name: p, count: 2, steps: [%s]}]" % step)
        self.assertIn("learned (1)", shown)
        self.assertEqual(shown, printed)
