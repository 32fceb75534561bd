"""Parking, resuming and resizing, against doors that answer as a daemon does."""

import asyncio
import unittest

import berth
from berth import answers

from .doors import Door, problem

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

    def test_resume(self):
        _, asked = self.asked(PARKED, "resume", "my lease", timeout=0)
        self.assertEqual(asked, ("POST", "/api/leases/my%20lease/resume", {"timeout_seconds": 0}))
        self.assertEqual(self.asked(PARKED, "resume", "mine")[1][2], {})

    def test_wake(self):
        self.assertEqual(self.asked(PARKED, "wake", "mine", fence=7)[1], ("POST", "/api/leases/mine/wake", {"fence": 7}))

    def test_resize(self):
        _, asked = self.asked(PARKED, "resize", "mine", "2GiB", timeout=60)
        self.assertEqual(asked, ("POST", "/api/leases/mine/resize", {"memory_mb": 2048, "timeout_seconds": 60}))

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
        _, asked = self.asked(PARKED, "allocate", "mine", 2048, parkable=True)
        self.assertEqual(asked[2], {"allocation_id": "mine", "memory_mb": 2048, "parkable": True})

    def test_a_refusal(self):
        with Door(lambda *_: problem(409, "not_active", "mine is parked already")) as door:
            with self.assertRaisesRegex(berth.Problem, "parked already"):
                berth.park("mine", client=berth.Client(socket=door.path))

    def test_words_of_python(self):
        waiting = answers.Waiting.read({"id": "w", "for": "resume"})
        self.assertEqual((waiting.for_, waiting.document["for"]), ("resume", "resume"))
