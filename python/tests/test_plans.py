"""Plans: what is sent, what is run, and that everything is given back."""

import gc
import types
import unittest
import weakref
from unittest import mock

import berth
from berth import plans

from . import fakes
from .daemon import DaemonCase
from .doors import Door, problem


@berth.memory("numpy")
def load(path):
    return path


@berth.memory("numpy", memory_mb=512)
def work(x):
    return x


def step(name, after=None, input="numpy", output="numpy", **more):
    return {"name": name, "after": after, "input": input, "output": output, "on_gpu": False, "memory_mb": 0, **more}


def planned(*steps, name="pipeline", memory_mb=0, slots=0, gpu="", **more):
    runs = [{"name": name, "gpu": gpu}]
    return {"name": name, "steps": list(steps), "runs": runs, "memory_mb": memory_mb, "slots": slots, **more}


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
        self.assertEqual(pipeline["steps"][0], {"name": "load", "input": "numpy", "output": "numpy"})
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


class Executed(unittest.TestCase):
    """Against a door that plans and leases as it is told."""

    def setUp(self):
        self.leased, self.measured = [], []
        self.door = Door(self.answer)
        self.door.__enter__()
        self.addCleanup(self.door.__exit__, None, None, None)

    def answer(self, method, path, body):
        if path == "/api/measurements":
            self.measured.append(body)
            return 204, None
        if method == "DELETE":
            self.leased.append("released")
            return 200, {}
        if path == "/api/plans/run":
            (pipeline,) = body["plan"]["pipelines"]
            self.leased.append((pipeline["memory_mb"], body["timeout_seconds"], pipeline["runs"][0]["name"]))
            return self.grant(body["id"], pipeline["runs"][0]["gpu"], pipeline["memory_mb"])
        if path == "/api/leases":
            self.leased.append({key: body.get(key) for key in ("gpu", "where", "memory_mb", "slots", "binding")})
            return 201, self.lease(body["id"], body.get("gpu") or "GPU-any", body["memory_mb"])
        return problem(404, "unknown_path")

    def lease(self, id, gpu, memory):
        part = {"gpu": gpu, "memory_mb": memory, "slots": 1}
        return {"id": id, "fence": 1, "binding": "process", "parts": [part]}

    def grant(self, id, gpu, memory):
        return 201, {"runs": [{"placement": "confirmed", "lease": self.lease(id, gpu, memory)}]}

    def plan(self, *pipelines, **functions):
        named = {p["name"]: functions for p in pipelines}
        return berth.Plan({"pipelines": list(pipelines)}, named, berth.Client(socket=self.door.path))

    def test_without_a_gpu_nothing_is_leased(self):
        plan = self.plan(planned(step("a"), step("b", ["a"])), a=lambda x: x + 1, b=lambda x: x * 10)
        self.assertEqual(plan.run(1), 20)
        self.assertEqual(self.leased, [])
        measured = [(m["name"], m["step"], m["memory_mb"]) for m in self.measured]
        self.assertEqual(measured, [("pipeline", "a", 0), ("pipeline", "b", 0)])

    def test_under_a_lease_on_the_planned_device(self):
        plan = self.plan(planned(step("a"), memory_mb=1012, slots=1, gpu="GPU-7"), a=lambda x: berth.current().uuid)
        done = plan.execute(1)
        self.assertEqual((done.value, done.gpu, done.moved), ("GPU-7", "GPU-7", ""))
        self.assertEqual(self.leased, [(1012, 30.0, "pipeline"), "released"])

    def test_another_device_when_the_world_has_changed(self):
        why = "GPU 7: it is full"
        self.grant = lambda id, *_: (201, {"runs": [{"reason": why, "lease": self.lease(id, "GPU-8", 64)}]})
        done = self.plan(planned(step("a"), memory_mb=64, slots=1, gpu="GPU-7"), a=lambda x: x).execute(1, timeout=5)
        self.assertEqual((done.gpu, done.moved), ("GPU-8", why))
        self.assertEqual(self.leased[0][1], 5)

    def test_no_room_at_all(self):
        self.grant = lambda *_: problem(409, "insufficient_memory", "No.")
        with self.assertRaises(berth.Problem):
            self.plan(planned(step("a"), memory_mb=64, slots=1, gpu="GPU-7"), a=lambda x: x).run(1)

    def test_a_daemon_that_is_far_away(self):
        pipeline = dict(planned(step("a"), memory_mb=64, slots=1, gpu="GPU-7"), gpu="name~H200,memory>=40GiB")
        with mock.patch.object(berth.Client, "local", False):
            self.plan(pipeline, a=lambda x: x).run(1)
        wanted = {"gpu": None, "where": "name~H200,memory>=40GiB", "memory_mb": 64, "slots": 1, "binding": "ttl"}
        self.assertEqual(self.leased, [wanted, "released"])

    def test_given_back_whatever_happens(self):
        plan = self.plan(planned(step("a"), memory_mb=64, slots=1, gpu="GPU-7"), a=lambda x: 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            plan.run(1)
        self.assertEqual(self.leased[-1], "released")
        self.assertIsNone(berth.current())

    def test_a_lease_that_is_held_is_used(self):
        plan = self.plan(planned(step("a"), memory_mb=64, slots=1, gpu="GPU-7"), a=lambda x: x)
        with berth.lease(memory=128, gpu="GPU-3", client=plan.client):
            self.assertEqual(plan.execute(1).gpu, "GPU-3")
        self.assertEqual(len(self.leased), 2)

    def test_results_are_let_go_when_nobody_needs_them(self):
        class Big:
            pass

        seen = []

        def make(_):
            made = Big()
            seen.append(weakref.ref(made))
            return made

        def last(_):
            gc.collect()
            return seen[0]() is None

        plan = self.plan(planned(step("a"), step("b", ["a"]), step("c", ["b"])), a=make, b=lambda x: 1, c=last)
        self.assertTrue(plan.run(None))

    def test_branches_and_several_ends(self):
        steps = [step("a"), step("left", ["a"]), step("right", ["a"]), step("both", ["left", "right"])]
        plan = self.plan(
            planned(*steps, step("extra", ["a"])), a=lambda x: x, left=lambda x: x + 1, right=lambda x: x + 2,
            both=lambda x, y: (x, y), extra=lambda x: "e",
        )  # fmt: skip
        self.assertEqual(plan.run(10), {"both": (11, 12), "extra": "e"})

    def test_which_pipeline(self):
        plan = self.plan(planned(step("a"), name="x"), planned(step("a"), name="y"), a=lambda x: x)
        self.assertEqual(plan.run(3, pipeline="y"), 3)
        with self.assertRaisesRegex(ValueError, "say which pipeline: x, y"):
            plan.run(3)
        with self.assertRaisesRegex(ValueError, "there is no pipeline 'z'"):
            plan.run(3, pipeline="z")

    def test_conversions_on_the_leased_device(self):
        numpy, cupy, torch = fakes.numpy(), fakes.cupy(gpus=2), fakes.torch(gpus=2)
        torch.cuda.is_initialized = lambda: False
        torch.cuda.synchronize = lambda i: None
        cupy.cuda.MemoryHook = type("MemoryHook", (), {"__enter__": lambda s: s, "__exit__": lambda *_: None})
        pool = types.SimpleNamespace(used_bytes=lambda: 3 << 20, total_bytes=lambda: 0)
        cupy.get_default_memory_pool = lambda: pool
        cupy.get_default_pinned_memory_pool = mock.Mock()
        pipeline = planned(
            step("a", output="cupy", input="cupy", on_gpu=True), step("b", ["a"], "torch", "torch", on_gpu=True),
            step("c", ["b"]), memory_mb=64, slots=1, gpu="GPU-aaaa1111",
        )  # fmt: skip
        plan = self.plan(pipeline, a=lambda x: x, b=lambda x: x, c=lambda x: x)
        visible = mock.patch.dict("os.environ", CUDA_VISIBLE_DEVICES="GPU-bbbb,GPU-aaaa1111")
        with fakes.installed(numpy, cupy, torch), visible:
            done = plan.execute(numpy.made(fakes.Memory([1, 2])))
        made = [c for s in done.steps for c in s.conversions]
        self.assertEqual([(c.source, c.target, c.device, c.cost) for c in made], [
            ("numpy", "cupy", "gpu:1", "host_copy"), ("cupy", "torch", "gpu:1", "zero_copy"),
            ("torch", "numpy", "cpu", "host_copy"),
        ])  # fmt: skip
        self.assertEqual([s.memory_mb for s in done.steps], [3, 3, 3])
        self.assertEqual(done.value.memory.values, [1, 2])

    def test_a_step_that_does_not_keep_its_word(self):
        numpy, torch = fakes.numpy(), fakes.torch()
        with fakes.installed(numpy, torch):
            plan = self.plan(planned(step("a")), a=lambda x: torch.made(fakes.Memory([1])))
            with self.assertRaisesRegex(TypeError, "step a says that it gives numpy, and gave torch"):
                plan.run(1)

    def test_a_daemon_that_takes_no_measurements_is_no_error(self):
        plan = self.plan(planned(step("a")), a=lambda x: x)
        with mock.patch.object(plan.client, "call", side_effect=berth.BerthError("away")):
            self.assertEqual(plan.run(1), 1)

    def test_table(self):
        pipeline = planned(
            step("load"), step("denoise", ["load"], "cupy", "cupy", on_gpu=True, memory_from="declared",
                               conversions=[{"from": "numpy", "cost": "host_copy"}]),
            name="image", memory_mb=2548, slots=1, gpu="GPU-7", notes=["a guess"],
        )  # fmt: skip
        pipeline["steps"][1]["memory_mb"] = 2048
        self.assertEqual(str(self.plan(pipeline)), """\
pipeline image: 1 run on GPU-7, 2548 MiB and 1 slot each
  STEP     ON   IN → OUT       CONVERTED FROM     MEMORY    FROM
  load     CPU  numpy → numpy  -                  -         -
  denoise  GPU  cupy → cupy    numpy (host copy)  2048 MiB  declared
  note: a guess""")


class Live(DaemonCase):
    def setUp(self):
        self.served("/api/plans")
        patch = mock.patch.object(plans, "probe_libraries", everything_installed)
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_pipeline_runs_under_its_plan(self):
        plan = berth.compile([load, work], name="live")
        self.assertIn("pipeline live: 1 run on SIM-", str(plan))
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
        other.acquire()
        self.addCleanup(other.release)
        with mock.patch.object(plans, "current", return_value=None):
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
        measured = {"name": "known", "step": "work", "memory_mb": 700, "seconds": 2.0}
        self.daemon.client.call("POST", "/api/measurements", measured)
        (pipeline,) = berth.compile([work], name="known").pipelines
        self.assertEqual(pipeline["steps"][0].get("measured"), 1)
