import unittest
from unittest import mock

import berth
from berth import pacing

from .daemon import DaemonCase
from .doors import Door, problem


class Clock:
    """Time that passes only when somebody works or sleeps."""

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(round(seconds, 6))
        self.now += seconds


class Paced(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        for name, stand_in in (("time", self.clock), ("_ANSWERS", pacing._Answers())):
            patch = mock.patch.object(pacing, name, stand_in)
            patch.start()
            self.addCleanup(patch.stop)
        self.multipliers = [1.0]
        door = Door(self.answer)
        door.__enter__()
        self.addCleanup(door.__exit__, None, None, None)
        self.door = door
        patch = mock.patch.dict("os.environ", {"BERTH_SOCKET": door.path})
        patch.start()
        self.addCleanup(patch.stop)

    def answer(self, method, path, body):
        last = self.multipliers.pop(0) if len(self.multipliers) > 1 else self.multipliers[0]
        return 200, {"multiplier": abs(last), "should_stop": last < 0, "reason": "97 °C is above temp_critical 90 °C"}

    def work(self, seconds):
        self.clock.now += seconds

    def test_asked_once_a_second(self):
        for _ in range(5):
            self.assertEqual(berth.speed(gpu=0), 1.0)
        self.assertEqual(len(self.door.calls), 1)
        self.work(1.0)
        self.multipliers = [0.5]
        self.assertEqual(berth.speed(gpu=0), 0.5)
        self.assertEqual(self.door.calls[-1][1], "/api/gpu/throttle/status?gpu=0")

    def test_stop_is_stop(self):
        self.multipliers = [-0.5]
        self.assertEqual(berth.speed(gpu=0), 0.0)

    def test_full_speed_does_not_sleep(self):
        with berth.pace(gpu=0):
            self.work(3.0)
        self.assertEqual(self.clock.slept, [])

    def test_slower(self):
        for share, sleeps in ((0.5, 4.0), (0.8, 1.0)):
            self.multipliers, self.clock.slept = [share], []
            self.work(10)
            with berth.pace(gpu=0):
                self.work(4.0)
            self.assertEqual(self.clock.slept, [sleeps])

    def test_zero_waits(self):
        self.multipliers = [0.0, 0.0, 1.0]
        with berth.pace(gpu=0) as pace:
            self.assertEqual(self.clock.slept, [1.0, 1.0])
        self.assertEqual(pace.slept, 2.0)

    def test_a_long_wait_says_why(self):
        with self.assertLogs("berth") as told:
            for waits in 9, 30:  # the first is no long one
                self.multipliers, self.clock.slept = [0.0] * waits + [1.0], []
                self.work(1.0)
                with berth.pace(gpu=0):
                    self.assertEqual(len(self.clock.slept), waits)
        self.assertEqual([one.getMessage() for one in told.records], ["pace waits until work may go on: GPU 0: 97 °C is above temp_critical 90 °C"])

    def test_a_loop(self):
        self.multipliers = [0.5]
        seen = []
        for item in berth.pace("abc", gpu=0):
            seen.append(item)
            self.work(2.0)
        self.assertEqual((seen, self.clock.slept), (list("abc"), [2.0, 2.0, 2.0]))

    def test_an_error_is_not_slept_on(self):
        self.multipliers = [0.5]
        with self.assertRaises(KeyError), berth.pace(gpu=0):
            self.work(5.0)
            raise KeyError
        self.assertEqual(self.clock.slept, [])

    def test_a_daemon_that_restarts_is_not_noticed(self):
        self.multipliers = [0.8]
        self.assertEqual(berth.speed(gpu=0), 0.8)
        self.work(5.0)
        with mock.patch.dict("os.environ", {"BERTH_SOCKET": "/nowhere"}):
            self.assertEqual(berth.speed(gpu=0), 0.8)
            with self.assertRaises(berth.NoDaemon):
                berth.speed(gpu=1)

    def test_a_daemon_that_is_busy_is_not_noticed(self):
        self.multipliers = [0.8]
        self.assertEqual(berth.speed(gpu=0), 0.8)
        self.work(5.0)
        self.door._answer = lambda *_: problem(503, "too_many_connections", "You have too many connections open.")
        self.assertEqual(berth.speed(gpu=0), 0.8)
        with self.assertRaises(berth.Problem):
            berth.speed(gpu=1)

    def test_an_error_is_not_hidden(self):
        with self.assertRaises(KeyError), berth.pace(gpu=0):
            self.work(5.0)
            self.door._answer = lambda *_: problem(404, "unknown_device", "There is no device 0 here.")
            raise KeyError

    def test_misuse(self):
        with self.assertRaisesRegex(RuntimeError, "no lease"):
            berth.speed()
        with self.assertRaisesRegex(TypeError, "something to go through"):
            iter(berth.pace(gpu=0)).__next__()

    def test_refused(self):
        self.door._answer = lambda *_: problem(404, "unknown_device", "There is no device 9 here.")
        with self.assertRaises(berth.Problem):
            berth.speed(gpu=9)


class Live(DaemonCase):
    def test_speed_of_a_lease(self):
        with berth.lease(memory=64, gpus=2) as gpu:
            self.assertEqual(berth.speed(), 1.0)
            self.assertEqual(berth.speed(gpu), 1.0)
            with berth.pace():
                pass
