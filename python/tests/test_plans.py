"""Plans: what is sent, and what a live daemon makes of it."""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import types
import unittest
from unittest import mock

import berth
from berth import execution, plans

from .daemon import DaemonCase
from .doors import Door, problem

ROOT = pathlib.Path(__file__).resolve().parent.parent


@berth.memory("numpy")
def load(path):
    return path


@berth.memory("numpy", memory_mb=512)
def work(x):
    return x


@berth.memory("numpy", memory_mb=512)
def remembered(x):
    return x


def everything_installed(python, names):
    return {name: {"status": "ok", "version": "1"} for name in names}


class Sent(unittest.TestCase):
    def compile(self, *args, answer=None, **options):
        with Door(lambda *_: answer or (200, {"pipelines": []})) as door:
            with mock.patch.object(plans, "probe_libraries", everything_installed):
                plan = berth.compile(*args, client=berth.Client(socket=door.path), **options)
            (method, path, body, _), = door.calls
        self.assertEqual((method, path), ("POST", "/api/plans"))
        return plan, body

    def test_functions(self):
        @berth.memory("torch", "cupy", memory_mb="2GiB", output_mb=64, libraries=["skimage"])
        def segment(x):
            return x

        _, body = self.compile([load, segment, segment], name="image", gpu=0)
        (pipeline,) = body["pipelines"]
        self.assertEqual((pipeline["name"], pipeline["gpu"]), ("image", "0"))
        self.assertEqual([s["name"] for s in pipeline["steps"]], ["load", "segment", "segment-2"])
        self.assertEqual(
            pipeline["steps"][0],
            {"name": "load", "input": "numpy", "output": "numpy", "function": "tests.test_plans.load"},
        )
        self.assertEqual(pipeline["steps"][1], {
            "name": "segment", "input": "torch", "output": "cupy", "memory_mb": 2048, "output_mb": 64,
            "libraries": ["skimage"],
        })  # fmt: skip
        self.assertEqual(sorted(body["libraries"]), ["cupy", "numpy", "skimage", "torch"])

    def test_pipelines(self):
        well = berth.Pipeline("plate", [berth.Step(work, "a"), berth.Step(work, "b", after=[])], count=96, priority=0)
        _, body = self.compile([well, berth.Pipeline("other", [load])])
        self.assertEqual([p["name"] for p in body["pipelines"]], ["plate", "other"])
        self.assertEqual((body["pipelines"][0]["count"], body["pipelines"][0]["priority"]), (96, 0))
        self.assertEqual(body["pipelines"][0]["steps"][1]["after"], [])
        _, body = self.compile({"a": [load], "b": [work]})
        self.assertEqual([p["name"] for p in body["pipelines"]], ["a", "b"])

    def test_functions_are_named_where_they_are_found_again(self):
        class Callable:
            def __call__(self, x):
                return x

        made = berth.memory("numpy")
        _, body = self.compile([load, berth.Step(load, "other"), made(lambda x: x), berth.Step(made(Callable()), "c")])
        named = [step.get("function") for step in body["pipelines"][0]["steps"]]
        self.assertEqual(named, ["tests.test_plans.load"] * 2 + [None, None])

    def test_a_program_is_named_as_others_would_import_it(self):
        code = (
            "import berth.plans as plans\n"
            "def step(x): pass\n"
            "print(plans._script(), plans._place(step))\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "wells.py").write_text(code)
            for arguments, want in ((["wells.py"], "wells wells.step"), (["-m", "wells"], "wells wells.step"),
                                    (["-c", code], "None")):  # fmt: skip
                done = subprocess.run(
                    [sys.executable] + arguments, cwd=folder, env=dict(os.environ, PYTHONPATH=str(ROOT)),
                    capture_output=True, text=True, check=True,
                )  # fmt: skip
                self.assertEqual(done.stdout.strip(), want)

    def test_unrelated_programs_do_not_share_a_name(self):
        for script, want in (("wells", "wells"), ("", "pipeline")):
            with mock.patch.object(plans, "_script", return_value=script):
                self.assertEqual(self.compile([load])[1]["pipelines"][0]["name"], want)

    def test_an_interpreter_that_cannot_be_asked_is_a_problem_of_the_plan(self):
        for python in ("/bin/false", "/no/such/python"):
            with Door(lambda *_: (200, {"pipelines": []})) as door:
                berth.compile([load], python=python, client=berth.Client(socket=door.path))
            body = door.calls[0][2]
            self.assertNotIn("libraries", body)
            self.assertIn(python, body["probe_error"])

    def test_libraries_that_nobody_asks_for(self):
        with mock.patch.object(plans, "probe_libraries", side_effect=AssertionError("it was asked")):
            with Door(lambda *_: (200, {"pipelines": []})) as door:
                berth.compile([load], probe=False, client=berth.Client(socket=door.path))
        self.assertEqual(sorted(door.calls[0][2]), ["interpreter", "pipelines"])

    def test_refused(self):
        answer = problem(422, "plan_refused", "compile: 1 problem")
        with self.assertRaises(berth.Problem):
            self.compile([load], answer=answer)

    def test_misuse(self):
        for steps, error, text in (
            ([], ValueError, "there are no steps"),
            ([lambda x: x], TypeError, "step <lambda> does not say what it takes and gives"),
            ([load, berth.Pipeline("p", [load])], TypeError, "not both"),
            ([berth.Step(load, "a"), berth.Step(work, "a")], ValueError, "two steps called a"),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                berth.compile(steps, client=berth.Client(socket="/nowhere"))


class Live(DaemonCase):
    def setUp(self):
        self.served("/api/plans")
        patch = mock.patch.object(plans, "probe_libraries", everything_installed)
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_pipeline_runs_under_its_plan(self):
        plan = berth.compile([load, work], name="live")
        self.assertIn("pipeline live: 1 run on GPU 0, 1 slot and ", str(plan))
        inside = []
        plan.functions["live"]["work"] = lambda x: inside.append(len(self.daemon.leases()["leases"])) or x * 2
        self.assertEqual(plan.run(21), 42)
        self.assertEqual(inside, [1])
        self.assertEqual(self.daemon.leases()["leases"], [])

    def test_another_device_if_that_of_the_plan_is_full(self):
        plan = berth.compile([work], name="moved")
        planned_on = plan.pipelines[0]["runs"][0]["gpu"]
        room = self.daemon.client.call("GET", "/api/gpu/memory/available")["gpus"]
        (full,) = [g["available_mb"] for g in room if g["gpu"] == planned_on]
        other = berth.lease(memory=full, gpu=planned_on)
        thread = threading.Thread(target=other.acquire)  # so that it is not the lease of this one
        thread.start()
        thread.join()
        self.addCleanup(other.release)
        done = plan.execute(1)
        self.assertNotEqual(done.gpu, planned_on)
        self.assertNotEqual(done.moved, "")

    def test_all_errors_at_once(self):
        @berth.memory("numpy", memory_mb="900TiB")
        def greedy(x):
            return x

        with self.assertRaises(berth.Problem) as caught:
            berth.compile({"a": [greedy], "b": [greedy]})
        self.assertEqual(caught.exception.code, "plan_refused")
        self.assertEqual([field for field, _ in caught.exception.fields], ["a/greedy", "b/greedy"])

    def test_what_was_measured_is_remembered(self):
        self.served("/api/measurements")
        first = berth.compile([remembered], name="first")
        with mock.patch.object(execution, "Meter", lambda *_: Measured(700)):
            first.run(1)
        (step,) = berth.compile([remembered], name="second").pipelines[0]["steps"]
        self.assertEqual((step["memory_from"], step["memory_mb"], step["measured"]), ("learned", 770, 1))
        lonely = berth.Step(berth.memory("numpy", memory_mb=64)(lambda x: x), "lonely")
        with mock.patch.object(execution, "Meter", lambda *_: Measured(300)):
            berth.compile([lonely], name="first").run(1)
        found = [berth.compile([lonely], name=name).pipelines[0]["steps"][0] for name in ("first", "second")]
        self.assertEqual([s["memory_from"] for s in found], ["learned", "declared"])


class LiveInterpreters(DaemonCase):
    def test_one_that_is_none(self):
        for python, why in (("/bin/false", "it ended with status 1"), ("/no/such/python", "cannot be started")):
            with self.assertRaises(berth.Problem) as caught:
                berth.compile([load], python=python)
            self.assertEqual(caught.exception.code, "plan_refused")
            self.assertIn(why, str(caught.exception))
            self.assertNotIn("numpy", str(caught.exception))


@contextlib.contextmanager
def Measured(memory_mb):
    """A meter that says what it is told to."""
    yield types.SimpleNamespace(seconds=1.0, memory_mb=memory_mb)
