"""Runs of plans: under which lease, on which device, and what is measured."""

import functools
import gc
import threading
import types
import unittest
import weakref
from unittest import mock

import berth

from . import fakes
from . import PATIENCE
from .doors import Door, problem


def step(name, after=None, input="numpy", output="numpy", **more):
    return {"name": name, "after": after, "input": input, "output": output, "on_gpu": False, "memory_mb": 0, **more}


def planned(*steps, name="pipeline", memory_mb=0, slots=0, gpu="", **more):
    runs = [{"name": name, "gpu": gpu}]
    return {"name": name, "steps": list(steps), "runs": runs, "memory_mb": memory_mb, "slots": slots, **more}


class Executed(unittest.TestCase):
    """Against a door that plans and leases as it is told."""

    def setUp(self):
        self.leased, self.measured, self.full = [], [], ()
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
            keys = ("gpu", "where", "memory_mb", "slots", "binding", "timeout_seconds")
            self.leased.append({key: body.get(key) for key in keys})
            if body.get("gpu") in self.full:
                return problem(409, "insufficient_memory", "It is full.")
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

    def test_what_a_function_took_is_kept_under_its_name(self):
        steps = step("a", signature="microscopy.denoise"), step("b", ["a"], signature="pipeline/b")
        self.plan(planned(*steps), a=lambda x: x, b=lambda x: x).run(1)
        self.assertEqual(
            [(m["name"], m.get("step")) for m in self.measured], [("microscopy.denoise", None), ("pipeline", "b")]
        )

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
        there = {"gpu": "GPU-7", "where": None, "memory_mb": 64, "slots": 1, "binding": "ttl", "timeout_seconds": 0}
        anywhere = dict(there, gpu=None, where="name~H200,memory>=40GiB", timeout_seconds=30.0)
        with mock.patch.object(berth.Client, "local", False):
            done = self.plan(pipeline, a=lambda x: x).execute(1)
            self.assertEqual((done.gpu, done.moved), ("GPU-7", ""))
            self.assertEqual(self.leased, [there, "released"])
            self.leased, self.full = [], ["GPU-7"]
            done = self.plan(pipeline, a=lambda x: x).execute(1)
            self.assertEqual((done.gpu, done.moved), ("GPU-any", "It is full."))
            self.assertEqual(self.leased, [there, anywhere, "released"])
            with self.assertRaisesRegex(ValueError, "pipeline cannot run on GPU-any, .*: It is full."):
                self.plan(dict(pipeline, candidates=["GPU-7"]), a=lambda x: x).run(1)
            self.assertEqual(self.leased[-1], "released")

    def test_given_back_whatever_happens(self):
        plan = self.plan(planned(step("a"), memory_mb=64, slots=1, gpu="GPU-7"), a=lambda x: 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            plan.run(1)
        self.assertEqual(self.leased[-1], "released")
        self.assertIsNone(berth.current())

    def test_a_lease_that_is_held_is_used(self):
        pipeline = planned(step("a"), memory_mb=64, slots=1, gpu="GPU-7")
        plan = self.plan(pipeline, a=lambda x: x)
        with berth.lease(memory=128, gpu="GPU-7", client=plan.client):
            done = plan.execute(1)
            self.assertEqual((done.gpu, done.moved), ("GPU-7", ""))
        with berth.lease(memory=128, gpu="GPU-3", client=plan.client) as held:
            done = plan.execute(1)
            self.assertEqual(done.gpu, "GPU-3")
            self.assertEqual(done.moved, "lease %s, which it runs under, is for GPU-3" % held.id)
            with self.assertRaisesRegex(ValueError, "cannot run on GPU-3, .*: the plan has GPU-7, GPU-8 for it"):
                self.plan(dict(pipeline, candidates=["GPU-7", "GPU-8"]), a=lambda x: x).run(1)
        with berth.lease(memory="16MiB", gpu="GPU-7", client=plan.client):
            with self.assertRaisesRegex(ValueError, "needs 64 MiB, and lease .* has 16: lease as much"):
                plan.execute(1)
        with berth.lease(gpu="GPU-7", client=plan.client):  # of a slot: it promises no memory
            self.assertEqual(plan.execute(1).gpu, "GPU-7")
        self.assertEqual(len(self.leased), 8)

    def test_a_lease_of_several_devices_has_that_of_the_plan(self):
        plan = self.plan(planned(step("a"), memory_mb=64, slots=1, gpu="GPU-8"), a=lambda x: x)
        self.lease = lambda id, *_: {"id": id, "fence": 1, "binding": "process", "parts": [
            {"gpu": gpu, "memory_mb": 64, "slots": 1} for gpu in ("GPU-7", "GPU-8")]}  # fmt: skip
        with berth.lease(memory=64, gpus=2, client=plan.client):
            self.assertEqual((plan.execute(1).gpu, plan.execute(1).moved), ("GPU-8", ""))

    def test_every_thread_has_a_lease_of_its_own(self):
        together, apart = threading.Barrier(3, timeout=PATIENCE), threading.Barrier(3, timeout=PATIENCE)

        def work(x):
            together.wait()  # all three hold one
            seen = berth.current().id
            apart.wait()
            return seen

        plan, done = self.plan(planned(step("a"), memory_mb=64, slots=1, gpu="GPU-7"), a=work), {}

        def well(number):
            done[number] = plan.execute(number)

        threads = [threading.Thread(target=well, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len({run.value for run in done.values()}), 3)
        self.assertEqual([run.gpu for run in done.values()], ["GPU-7"] * 3)
        self.assertEqual(self.leased.count("released"), 3)

    def test_the_lease_of_another_thread_is_used_only_if_it_is_named(self):
        plan, done = self.plan(planned(step("a"), memory_mb=64, slots=1, gpu="GPU-7"), a=lambda x: x), []
        with berth.lease(memory=128, gpu="GPU-3", client=plan.client) as held:
            for under in (None, held):
                thread = threading.Thread(target=lambda: done.append(plan.execute(1, under=under).gpu))  # noqa: B023
                thread.start()
                thread.join()
        self.assertEqual(done, ["GPU-7", "GPU-3"])

    def test_which_run(self):
        pipeline = dict(planned(step("a"), memory_mb=64, slots=1), runs=[
            {"name": "well[0]", "gpu": "GPU-0"}, {"name": "well[1]", "gpu": "GPU-1"}])  # fmt: skip
        plan = self.plan(pipeline, a=lambda x: x)
        self.assertEqual([plan.execute(1, run=n).gpu for n in (0, 1)], ["GPU-0", "GPU-1"])
        self.assertEqual(plan.execute(1).gpu, "GPU-0")
        for wrong in (2, -1):
            with self.assertRaisesRegex(ValueError, "has no run %d: its runs are 0 to 1" % wrong):
                plan.execute(1, run=wrong)
        with self.assertRaisesRegex(ValueError, "its only run is 0"):
            self.plan(planned(step("a")), a=lambda x: x).execute(1, run=7)

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
        self.assertEqual([s.memory_mb for s in done.steps], [3, 3, 0])
        self.assertEqual(done.value.memory.values, [1, 2])

    def test_what_waits_for_later_steps_is_not_counted_again(self):
        torch, mib = fakes.torch(gpus=1), 1 << 18  # numbers of four bytes
        held = []  # every tensor that is alive

        def tensor(size):
            made = torch.made(types.SimpleNamespace(values=range(size), address=id(held) + len(held)), "float32", 0)
            held.append(weakref.ref(made))
            return made

        def in_use(_=None):
            gc.collect()
            return sum(4 * x.numel() for x in (ref() for ref in held) if x is not None)

        most = [0]
        torch.cuda.is_initialized, torch.cuda.synchronize = lambda: True, lambda i: None
        torch.cuda.reset_peak_memory_stats = lambda i: most.__setitem__(0, in_use())
        torch.cuda.max_memory_allocated = lambda i: most[0]
        torch.cuda.empty_cache, torch.cuda.memory_reserved = lambda: None, lambda i: 0

        def measured(*inputs, size):
            made = tensor(size * mib)
            most[0] = max(most[0], in_use())
            return made

        on = {"input": "torch", "output": "torch", "on_gpu": True}
        pipeline = planned(
            step("a", **on), step("b", ["a"], **on), step("c", ["b"], **on), step("d", ["a", "c"], **on),
            memory_mb=64, slots=1, gpu="GPU-aaaa",
        )  # fmt: skip
        sizes = {"a": 8, "b": 1, "c": 2, "d": 1}
        functions = {name: functools.partial(measured, size=size) for name, size in sizes.items()}
        with fakes.installed(torch), mock.patch.dict("os.environ", CUDA_VISIBLE_DEVICES="GPU-aaaa"):
            done = self.plan(pipeline, **functions).execute()
        # b takes a; c takes b, while a waits and is left out; d takes both.
        self.assertEqual([s.memory_mb for s in done.steps], [8, 9, 3, 11])

    def test_what_other_threads_use_is_not_learned(self):
        torch = fakes.torch(gpus=1)
        torch.cuda.is_initialized, torch.cuda.synchronize = lambda: True, lambda i: None
        torch.cuda.reset_peak_memory_stats, torch.cuda.max_memory_allocated = lambda i: None, lambda i: 5 << 20
        pipeline = planned(
            step("a", input="torch", output="torch", on_gpu=True), memory_mb=64, slots=1, gpu="GPU-aaaa"
        )
        together = threading.Barrier(2, timeout=PATIENCE)
        with fakes.installed(torch), mock.patch.dict("os.environ", CUDA_VISIBLE_DEVICES="GPU-aaaa"):
            plan = self.plan(pipeline, a=lambda x: together.wait())
            other = threading.Thread(target=plan.run)
            other.start()
            done = plan.execute()
            other.join()
            self.assertIsNone(done.steps[0].memory_mb)
            self.assertEqual(self.measured, [])
            self.assertEqual(self.plan(pipeline, a=lambda x: x).execute().steps[0].memory_mb, 5)
        self.assertEqual([m["memory_mb"] for m in self.measured], [5])

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
