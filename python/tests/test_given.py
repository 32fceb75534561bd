"""Programs that berth plan --run starts: the plan and the lease are there already."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import berth
from berth.given import Given

from .daemon import BINARY, DaemonCase

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT.parent / "examples"


@berth.memory("numpy")
def load(path):
    return path


@berth.memory("torch")
def segment(x):
    return x


@berth.memory("numpy")
def measure(x):
    return x


def planned(*steps, name="image", runs=("image",)):
    described = [{"name": n, "input": i, "output": o, "after": after} for n, i, o, after in steps]
    return {"name": name, "steps": described, "runs": [{"name": run, "gpu": "GPU-1"} for run in runs],
            "memory_mb": 0, "slots": 0}  # fmt: skip


IMAGE = planned(("load", "numpy", "numpy", None), ("segment", "torch", "torch", ["load"]))


class Compiled(unittest.TestCase):
    """Without a daemon: nothing is to be asked."""

    def compile(self, *args, pipelines=(IMAGE,), pipeline="image", run="image", **options):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"file": "image.yaml", "pipelines": pipelines}, file)
            file.flush()
            told = {"BERTH_PLAN": file.name, "BERTH_PIPELINE": pipeline, "BERTH_RUN": run}
            with mock.patch.dict(os.environ, told):
                return berth.compile(*args, client=berth.Client(socket="/nowhere"), **options)

    def test_the_plan_is_taken_as_it_is(self):
        for options in ({}, {"name": "image"}):
            plan = self.compile([load, segment], **options)
            self.assertEqual(plan.document["file"], "image.yaml")
            self.assertEqual(plan.pipelines[0]["name"], "image")

    def test_other_steps_are_refused_with_all_that_differs(self):
        other = berth.Step(load, "segment", after=[])
        for steps, wrong in (
            ([load, measure], ["the plan has no step measure", "the program has no step segment"]),
            ([load, other], ["segment is planned as torch→torch, and is numpy→numpy",
                             "segment is planned to come after load, and comes after nothing"]),
        ):  # fmt: skip
            with self.assertRaises(ValueError) as caught:
                self.compile(steps)
            for text in wrong + ["pipeline image is not the one of image.yaml"]:
                self.assertIn(text, str(caught.exception))

    def test_a_pipeline_that_is_not_in_the_plan_is_planned(self):
        with self.assertRaises(berth.NoDaemon):
            self.compile([load], name="something else", python=sys.executable)

    def test_the_pipeline_and_the_run_are_those_that_were_started(self):
        plan = self.compile(
            {"image": [load], "well": [load]},
            pipelines=[planned(("load", "numpy", "numpy", None)),
                       planned(("load", "numpy", "numpy", None), name="well", runs=("well[0]", "well[1]"))],
            pipeline="well", run="well[1]",
        )  # fmt: skip
        self.assertEqual(plan.execute(7).pipeline, "well")
        self.assertEqual(plan._run(plan.pipelines[1], None)["name"], "well[1]")
        self.assertEqual(plan.execute(7, pipeline="image").pipeline, "image")

    def test_a_plan_that_cannot_be_read(self):
        for text in ("", "{", "[]", '{"pipelines": 3}'):
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(text)
                file.flush()
                with mock.patch.dict(os.environ, BERTH_PLAN=file.name, BERTH_PIPELINE="image"):
                    with self.subTest(text), self.assertRaisesRegex(ValueError, "BERTH_PLAN cannot be read: .*unset"):
                        berth.compile([load])


PROGRAM = """
import berth, os
@berth.memory("numpy", memory_mb=512)
def work(x): return berth.current().id
@berth.memory("numpy")
def other(x): return x
plan = berth.compile([work])
run = plan.execute(1)
assert run.value == os.environ["BERTH_LEASE"], run
assert run.gpu == os.environ["BERTH_GPUS"], run
assert run.moved == "", run
assert plan.pipelines[0]["name"] == os.environ["BERTH_PIPELINE"]
try: berth.compile([other])
except ValueError as why: print(why)
"""
FILE = """
pipelines:
- name: wells
  count: 2
  steps: [{name: work, input: numpy, output: numpy, memory_mb: 512, function: given.work}]
"""


class Started(DaemonCase):
    def test_under_berth_plan(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "wells.yaml").write_text(FILE)
            pathlib.Path(folder, "program.py").write_text(PROGRAM)
            done = subprocess.run(
                [str(BINARY), "plan", "wells.yaml", "--no-probe", "--run", "--", sys.executable, "program.py"],
                cwd=folder, env=dict(os.environ, PYTHONPATH=str(ROOT)), capture_output=True, text=True,
            )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("the plan has no step other; the program has no step work"), 2)
        self.assertEqual(self.daemon.leases()["leases"], [])
        known = self.daemon.client.call("GET", "/api/measurements", query={"name": "given.work"})
        self.assertEqual([m["runs"] for m in known["measurements"]], [2])

    def test_the_example_is_one_pipeline(self):
        spec = importlib.util.spec_from_file_location("image_pipeline", EXAMPLES / "python" / "image_pipeline.py")
        example = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(example)
        text = (EXAMPLES / "pipelines" / "image.yaml").read_text()
        from_file = self.daemon.client.call("POST", "/api/plans", {"name": "image.yaml", "text": text})
        steps = [example.load, example.denoise, example.segment, example.measure]
        pipeline = berth.Pipeline("image", steps)
        from_code = self.daemon.client.call("POST", "/api/plans", {"pipelines": [pipeline.document()]})
        self.assertEqual(from_file["pipelines"], from_code["pipelines"])
        Given(from_file, "image", "image").check("image", pipeline.shape())
