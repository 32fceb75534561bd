"""Parking, resuming and resizing, against doors that answer as a daemon does."""

import asyncio
import json
import os
import queue
import sys
import threading
import types
import unittest
import warnings
from unittest import mock

import berth
from berth import answers, caps, leasing, waking

from . import fakes
from . import PATIENCE
from .doors import Door, problem
from .test_caps import torch as caps_torch

PARKED = {
    "id": "mine", "fence": 7, "state": "parked", "parkable": True, "asked_mb": 4096,
    "parts": [{"gpu": "G", "memory_mb": 2048, "slots": 1}],
    "parking": {"since": "2026-11-16T04:00:00Z", "by": {"user": "ann"}, "host_mb": 1900, "times": 2, "moving_seconds": 3},
    "idle": {"since": "2026-11-16T03:00:00Z", "utilization_percent": 0, "memory_mb": 1900},
}  # fmt: skip

OPTIMIZATION = {
    "began": "2026-11-16T04:00:00Z", "took_seconds": 2.5,
    "rungs": [
        {"name": "trim", "freed_mb": 900, "took_seconds": 1, "done": [{"lease": "mine", "text": "gave back its caches",
         "before_mb": 2000, "after_mb": 1100}], "left": []},
        {"name": "move", "freed_mb": 0, "took_seconds": 0, "done": [{"lease": "mine", "text": "could move",
         "move": {"from": "A", "to": "B", "memory_mb": 1100, "for": "big", "restarts": True}}], "left": []},
    ],
    "devices": [{"gpu": "A", "used_before_mb": 5000, "used_after_mb": 4100}],
}  # fmt: skip


class Calls(unittest.TestCase):
    def asked(self, answer, call, *args, **options):
        """Makes a call, and its twin, and returns what both asked and got."""
        with Door(lambda *_: (200, answer)) as door:
            client = berth.Client(socket=door.path)
            got = getattr(berth, call)(*args, client=client, **options)
            self.assertEqual(asyncio.run(getattr(berth.aio, call)(*args, client=client, **options)), got)
        first, second = ((method, path, body) for method, path, body, _ in door.calls)
        self.assertEqual(first, second)
        return got, first

    def test_park(self):
        parked, asked = self.asked(PARKED, "park", "mine", reason="lunch", fence=7, user="ann")
        self.assertEqual(asked, ("POST", "/api/leases/mine/park?user=ann", {"reason": "lunch", "fence": 7}))
        self.assertEqual((parked.state, parked.parkable, parked.asked_mb), ("parked", True, 4096))
        self.assertEqual((parked.parking.host_mb, parked.parking.by.user, parked.parking.times), (1900, "ann", 2))
        self.assertEqual(parked.parking.since.hour, 4)
        self.assertEqual(parked.idle.utilization_percent, 0.0)

    def test_cancel(self):
        ended, asked = self.asked({"id": "mine", "lease": PARKED}, "cancel", "mine", reason="enough", fence=7, user="ann")
        self.assertEqual(asked, ("POST", "/api/leases/mine/cancel?user=ann", {"reason": "enough", "fence": 7}))
        self.assertEqual((ended.id, ended.lease.state), ("mine", "parked"))
        self.assertEqual(self.asked({"id": "mine"}, "release", "mine", keep_running=True)[1][1], "/api/leases/mine?keep_running=true")

    def test_resume(self):
        _, asked = self.asked(PARKED, "resume", "my lease", timeout=0)
        self.assertEqual(asked, ("POST", "/api/leases/my%20lease/resume", {"timeout_seconds": 0}))
        self.assertEqual(self.asked(PARKED, "resume", "mine")[1][2], {})

    def test_wake(self):
        self.assertEqual(self.asked(PARKED, "wake", "mine", fence=7)[1], ("POST", "/api/leases/mine/wake", {"fence": 7}))

    def test_resize(self):
        _, asked = self.asked(PARKED, "resize", "mine", "2GiB", timeout=60)
        self.assertEqual(asked, ("POST", "/api/leases/mine/resize", {"memory_mb": 2048, "timeout_seconds": 60}))
        self.assertEqual(self.asked(PARKED, "resize", "mine", 8)[1][2], {"memory_mb": 8})

    def test_optimize(self):
        done, asked = self.asked(OPTIMIZATION, "optimize", "embedder", dry_run=True)
        self.assertEqual(asked, ("POST", "/api/optimize", {"service": "embedder", "dry_run": True}))
        self.assertEqual([(rung.name, rung.freed_mb) for rung in done.rungs], [("trim", 900), ("move", 0)])
        self.assertEqual(done.rungs[0].done[0].after_mb, 1100)
        move = done.rungs[1].done[0].move
        self.assertEqual((move.from_, move.to, move.for_, move.restarts), ("A", "B", "big", True))
        self.assertEqual((done.freed_mb, done.took_seconds), (900, 2.5))
        self.assertEqual(self.asked(OPTIMIZATION, "optimize")[1][2], {})

    def test_allocate(self):
        _, asked = self.asked(PARKED, "allocate", "mine", 2048, parkable="unshared")
        self.assertEqual(asked[2], {"allocation_id": "mine", "memory_mb": 2048, "binding": "process", "parkable": True, "unshared": True})
        with self.assertRaises(ValueError):
            berth.allocate("mine", 2048, parkable="perhaps")
        _, asked = self.asked(PARKED, "allocate", "mine", 2048, parkable=True)
        self.assertEqual(asked[2], {"allocation_id": "mine", "memory_mb": 2048, "binding": "process", "parkable": True})

    def test_comment(self):
        _, asked = self.asked(PARKED, "allocate", "mine", 2048, comment="ask Ada")
        self.assertEqual(asked[2], {"allocation_id": "mine", "memory_mb": 2048, "binding": "process", "comment": "ask Ada"})
        for lease in (berth.lease, berth.aio.lease):
            self.assertEqual(lease(comment="ask Ada")._request["comment"], "ask Ada")
            self.assertNotIn("comment", lease()._request)
        self.assertEqual(answers.Allocation.read({"comment": "ask Ada"}).comment, "ask Ada")

    def test_a_refusal(self):
        with Door(lambda *_: problem(409, "not_active", "mine is parked already")) as door:
            with self.assertRaisesRegex(berth.Problem, "parked already"):
                berth.park("mine", client=berth.Client(socket=door.path))

    def test_words_of_python(self):
        waiting = answers.Waiting.read({"id": "w", "for": "resume"})
        self.assertEqual((waiting.for_, waiting.document["for"]), ("resume", "resume"))


class Daemon:
    """What a daemon says about one lease, and what it was asked."""

    def __init__(self, **lease):
        self.lease = dict(PARKED, binding="process", enforced_by="watchdog", state="active", **lease)
        self.stream = queue.Queue()  # events; None ends it
        self.deleted = threading.Event()
        self.refusals = {}  # by the last word of the path: one answer after the other

    def __call__(self, method, path, body):
        path, _, query = path.partition("?")
        word = path.rpartition("/")[2]
        if self.refusals.get(word if method == "POST" else method):
            return self.refusals[word if method == "POST" else method].pop(0)
        if path == "/api/events":
            return 200, self.follow if "follow=true" in query else lambda out: None
        if path == "/api/gpu/status":
            return 200, {"device": {"vendor": "nvidia", "memory_total_mb": 8192}}
        if path == "/api/gpu/config":
            return 200, {"context_mb": 0}
        if word == "wake" or word == "resume":
            self.lease["state"] = "active"
        if word == "park":
            self.lease["state"] = "parked"
        if word == "resize":
            self.lease["parts"] = [{"gpu": "G", "memory_mb": body["memory_mb"], "slots": 1}]
        if method == "DELETE":
            self.deleted.set()
            return 200, {"id": "mine"}
        return 200, self.lease

    def follow(self, out):
        for event in iter(self.stream.get, None):
            out.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            out.flush()


class Case(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon()
        self.door = self.enter(Door(self.daemon))
        self.client = berth.Client(socket=self.door.path)
        self.addCleanup(self.daemon.stream.put, None)

    def enter(self, context):
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def asked(self, *words):
        """Returns the requests whose path ends in one of these words."""
        paths = [(method, path.partition("?")[0].rpartition("/")[2], body) for method, path, body, _ in self.door.calls]
        return [(word, body) for method, word, body in paths if word in words or method in words]


class Waking(Case):
    def test_nobody_is_asked_about_a_lease_that_is_not_parkable(self):
        self.daemon.lease["parkable"] = False
        with berth.lease(memory="1MiB", client=self.client) as gpu, gpu.use():
            self.assertFalse(gpu.parkable)
            with berth.lease(memory="1MiB", client=self.client):
                pass
        self.assertEqual(self.asked("wake", "mine"), [("mine", None)] * 2)  # the releases

    def test_the_request_says_so(self):
        with berth.lease(memory="1MiB", parkable=True, client=self.client) as gpu:
            self.assertEqual(gpu.env["BERTH_PARKABLE"], "1")
        self.assertTrue(self.door.calls[0][2]["parkable"])
        with berth.lease(memory="1MiB", client=self.client):
            pass
        self.assertNotIn("parkable", self.door.calls[-2][2])

    def test_use(self):
        with berth.lease(memory="1MiB", parkable=True, client=self.client) as gpu:
            with gpu.use() as same:
                self.assertIs(same, gpu)
            self.assertEqual(self.asked("wake"), [("wake", {"fence": 7})] * 2)  # it said so when it was granted too
            self.assertEqual(gpu.park("lunch").state, "parked")
            self.assertEqual(gpu.document["state"], "parked")
            self.assertEqual(gpu.resume(timeout=5).state, "active")
            gpu.wake()
        words = [("park", {"reason": "lunch", "fence": 7}), ("resume", {"timeout_seconds": 5, "fence": 7}), ("wake", {"fence": 7})]
        self.assertEqual(self.asked("park", "resume", "wake")[2:], words)

    def test_a_daemon_that_knows_no_waking(self):
        self.daemon.refusals["wake"] = [problem(409, "cannot_resume", "not now")]
        with berth.lease(memory="1MiB", parkable=True, client=self.client) as gpu:
            self.assertTrue(gpu.held)  # it is told again when the lease is used
            self.assertEqual(self.daemon.refusals["wake"], [])

    def test_who_is_interrupted_meanwhile_holds_nothing(self):
        def interrupted(*_):
            raise KeyboardInterrupt
            yield

        async def enter():
            await waited.__aenter__()

        held, waited = (module.lease(memory="1MiB", parkable=True, client=self.client) for module in (berth, berth.aio))
        for gpu, acquire in ((held, held.acquire), (waited, lambda: asyncio.run(enter()))):
            self.daemon.deleted.clear()
            with mock.patch.object(leasing, "waking", interrupted), self.assertRaises(KeyboardInterrupt):
                acquire()
            self.assertTrue(self.daemon.deleted.wait(PATIENCE))
            self.assertEqual((gpu.held, berth.current()), (False, None))

    def test_another_lease_wakes_what_the_process_has(self):
        with berth.lease(memory="1MiB", parkable=True, client=self.client):
            with berth.lease(memory="1MiB", client=self.client):
                pass
        self.assertEqual([word for word, _ in self.asked("leases", "wake", "mine")], ["leases", "wake", "wake", "leases", "wake", "mine", "mine"])

    def test_the_lease_that_the_program_was_started_under(self):
        started = {
            "BERTH_LEASE": "mine", "BERTH_FENCE": "7", "BERTH_GPUS": "G", "BERTH_MEMORY_MB": "2048",
            "BERTH_PARKABLE": "1", "BERTH_SOCKET": self.door.path,
        }  # fmt: skip
        with mock.patch.dict(os.environ, started):
            with berth.lease(memory="1MiB"):
                pass
            with berth.current() as gpu:
                self.assertEqual(gpu.id, "mine")
        self.assertEqual(self.asked("wake"), [("wake", {"fence": 7})] * 3)
        with mock.patch.dict(os.environ, dict(started, BERTH_PARKABLE="")), berth.current():
            pass
        self.assertEqual(len(self.asked("wake")), 3)

    def test_a_lease_that_does_not_want_to_wait(self):
        with berth.lease(memory="1MiB", parkable=True, client=self.client):
            with berth.lease(memory="1MiB", timeout=0, client=self.client):
                pass
            self.assertEqual(self.asked("resume"), [])  # it is not parked
            self.daemon.lease["state"] = "parked"
            self.daemon.refusals["resume"] = [problem(409, "insufficient_memory", "no room")]
            with self.assertRaisesRegex(berth.Problem, "no room"):
                berth.lease(memory="1MiB", timeout=PATIENCE, client=self.client).acquire()
            ((_, body),) = self.asked("resume")
            self.assertEqual((body["fence"], 0 < body["timeout_seconds"] <= PATIENCE), (7, True))

    def test_a_lease_that_is_being_parked(self):
        states = ["parking", "parking", "parked"]
        with mock.patch.object(waking, "LOOK", 0.001), berth.lease(memory="1MiB", parkable=True, client=self.client):
            self.daemon.refusals["GET"] = [(200, dict(self.daemon.lease, state=state)) for state in states]
            self.daemon.refusals["resume"] = [problem(409, "wrong_state", "it is active")]  # its turn came first
            with berth.lease(memory="1MiB", timeout=60, client=self.client):
                self.assertEqual(len(self.asked("resume")), 1)

    def test_errors(self):
        with berth.lease(memory="1MiB", parkable=True, client=self.client) as gpu:
            for refusal in (problem(404, "unknown_allocation"), problem(409, "stale_fence"), problem(409, "lease_ended")):
                self.daemon.refusals["wake"] = [refusal]
                with gpu.use():
                    self.assertEqual(self.daemon.refusals["wake"], [])
            self.daemon.refusals["wake"] = [problem(409, "cannot_resume", "the driver refused")]
            with self.assertRaisesRegex(berth.Problem, "the driver refused"), gpu.use():
                self.fail("it works on a device that it does not have")
            with mock.patch.object(waking, "AGAIN", (0.001, 0.002)):
                self.daemon.refusals["wake"] = [(200, lambda out: out.write(b"{")), problem(503, "stopping")]
                before = len(self.asked("wake"))
                with gpu.use():
                    self.assertEqual(len(self.asked("wake")) - before, 3)
                for last in (problem(503, "too_many_connections"), (200, lambda out: out.write(b"{"))):
                    self.daemon.refusals["wake"] = [problem(503, "stopping")] * 2 + [last]
                    with self.assertRaises(berth.BerthError), gpu.use():
                        self.fail("it works on a device that it may not have")
            gpu._client = berth.Client(socket=self.door.path + "-away")
            with gpu.use():
                self.assertTrue(gpu.held)  # it does not wait for a daemon that is away
            gpu._client = self.client

    def test_a_parked_lease_is_released_when_it_is_back(self):
        with berth.lease(memory="1MiB", parkable=True, client=self.client):
            self.daemon.refusals["DELETE"] = [problem(409, "parked", "is parked")] * 2
        self.assertTrue(self.daemon.deleted.wait(PATIENCE))
        self.assertEqual([word for word, _ in self.asked("wake", "DELETE")], ["wake", "mine", "mine", "wake", "mine"])


class Told(Case):
    def test_before_and_after(self):
        leaves, back = queue.Queue(), queue.Queue()
        with berth.lease(memory="1MiB", on_park=leaves.put, client=self.client) as gpu:
            gpu.on_resume(back.put)
            for number, code, data in (
                (1, "lease_parking", {"fence": 6}),  # of an earlier lease
                (2, "lease_parking", {"fence": 7, "at": "soon"}),
                (3, "lease_parked", {"fence": 7}),
                (4, "lease_resumed", {"fence": 7}),
                (5, "lease_parked", {"fence": 7, "failed": True, "why": "its memory does not leave"}),
                (6, "lease_parked", {"fence": 7, "failed": True, "why": "the driver refused"}),
            ):
                severity = "critical" if number == 5 else "warning"
                event = {"id": number, "code": code, "lease": "mine", "severity": severity, "data": data}
                self.daemon.stream.put(event)
            self.assertEqual(leaves.get(timeout=PATIENCE).data["at"], "soon")
            self.assertEqual(back.get(timeout=PATIENCE).code, "lease_resumed")
            self.assertEqual(back.get(timeout=PATIENCE).data["why"], "the driver refused")
            self.assertTrue(leaves.empty())


class Aio(Case):
    def test_the_same_in_a_loop(self):
        async def main():
            told = asyncio.Queue()
            async with berth.aio.lease(memory="1MiB", parkable=True, on_park=told.put, client=self.client) as gpu:
                self.daemon.stream.put({"id": 1, "code": "lease_parking", "lease": "mine", "data": {"fence": 7}})
                self.assertEqual((await asyncio.wait_for(told.get(), PATIENCE)).code, "lease_parking")
                async with gpu.use():
                    pass
                self.assertEqual((await gpu.park()).state, "parked")
                self.assertEqual((await gpu.resume()).state, "active")
                await gpu.wake()
                self.assertEqual(await gpu.resize("1GiB", timeout=3), {})
                self.assertEqual(gpu.memory_mb, 1024)
                await gpu.resize(8)
                self.assertEqual(gpu.memory_mb, 8)
                async with berth.aio.lease(memory="1MiB", client=self.client):
                    pass

        asyncio.run(main())
        want = ["wake", "wake", "park", "resume", "wake", "resize", "resize", "wake", "wake"]
        self.assertEqual([word for word, _ in self.asked("park", "resume", "wake", "resize")], want)


class Resizing(Case):
    def libraries(self):
        torch, cupy, self.limits, self.trims = caps_torch(initialized=True), fakes.cupy(gpus=1), [], []
        torch.cuda.memory_reserved = lambda i: 0
        torch.cuda.empty_cache = lambda: self.trims.append(dict(torch.told))
        pool = types.SimpleNamespace(set_limit=lambda size: self.limits.append(size >> 20), total_bytes=lambda: 0)
        cupy.get_default_memory_pool = lambda: pool
        cupy.get_default_pinned_memory_pool = mock.Mock()
        self.torch = torch
        return fakes.installed(torch, cupy, types.ModuleType("jax"))

    def test_limits_follow(self):
        with self.libraries(), mock.patch.object(caps, "_WATCH", caps._ImportWatch()), mock.patch.dict(os.environ):
            with warnings.catch_warnings(), mock.patch.object(leasing, "cuda_started", lambda: False):
                warnings.simplefilter("ignore")  # jax is not limited
                gpu = berth.lease(memory=2048, pin=True, client=self.client).acquire()
            self.addCleanup(sys.meta_path.remove, caps._WATCH)
            self.assertEqual((self.torch.told[0], self.limits[-1]), (2048 / 16384, 2048))
            done = gpu.resize("4GiB", timeout=9)
            self.assertEqual(self.asked("resize"), [("resize", {"memory_mb": 4096, "timeout_seconds": 9, "fence": 7})])
            self.assertEqual((gpu.memory_mb, self.torch.told[0], self.limits[-1]), (4096, 0.25, 4096))
            self.assertIn("limited to 4096 MiB", done["torch"])
            self.assertIn("limited to 4096 MiB", done["cupy"])
            self.assertIn("keeps the limit that it started with", done["jax"])
            self.assertEqual((os.environ["BERTH_MEMORY_MB"], os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"]), ("4096", "0.500000"))
            self.assertEqual(self.trims, [])

            gpu.resize("1GiB")
            self.assertEqual(self.trims, [{0: 0.0625, 1: 0.0625}])  # freed after the limit, before the daemon was asked
            self.daemon.refusals["resize"] = [problem(409, "wrong_state", "not now")]
            with self.assertRaises(berth.Problem):
                gpu.resize(512)
            self.assertEqual((gpu.memory_mb, self.torch.told[0], self.limits[-1]), (1024, 0.0625, 1024))
            gpu.release()
            self.assertNotIn("BERTH_MEMORY_MB", os.environ)

    def test_a_program_that_was_started_under_it(self):
        started = {
            "BERTH_LEASE": "mine", "BERTH_FENCE": "7", "BERTH_GPUS": "G", "BERTH_MEMORY_MB": "2048",
            "BERTH_CONTEXT_MB": "0", "BERTH_SOCKET": self.door.path,
        }  # fmt: skip
        with self.libraries(), mock.patch.object(caps, "_WATCH", caps._ImportWatch()), mock.patch.dict(os.environ, started):
            caps._WATCH.memory_mb = 2048
            gpu = berth.current()
            gpu.resize(4096)
            self.assertEqual((self.torch.told[0], os.environ["BERTH_MEMORY_MB"]), (0.25, "4096"))
            self.assertIs(berth.current(), gpu)

            self.daemon.lease.update(parts=[{"gpu": "G", "memory_mb": 1024, "slots": 1}], asked_mb=4096)  # berth shrinks it
            stop = berth.trim_on_request()
            self.addCleanup(stop.set)
            self.daemon.stream.put({"id": 9, "code": "lease_resized", "lease": "mine", "data": {"fence": 7}})
            self.daemon.stream.put({"id": 10, "code": "reclaim", "lease": "mine", "data": {"fence": 7}})
            for _ in range(6000):  # the trim is the second, so the limits have followed by then
                if len(self.trims) >= 2:
                    break
                stop.wait(0.01)
            self.assertEqual((self.torch.told[0], gpu.memory_mb, gpu.asked_mb), (0.0625, 1024, 4096))

    def test_libraries_that_are_not_limited_stay_so(self):
        with self.libraries(), berth.lease(memory=2048, client=self.client) as gpu:
            self.assertEqual(gpu.resize(1024), {})
            self.assertEqual((gpu.memory_mb, self.torch.told, self.limits), (1024, {}, []))

    def test_a_small_lease_gets_its_own_size_back(self):
        self.daemon.lease["asked_mb"] = 8
        with berth.lease(memory="8MiB", client=self.client) as gpu:
            gpu.resize(gpu.asked_mb)
            self.assertEqual(gpu.memory_mb, 8)
            with self.assertRaisesRegex(ValueError, 'write "8GiB" or "8MiB"'):
                gpu.resize("8")
