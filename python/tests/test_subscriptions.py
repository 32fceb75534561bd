"""Callbacks for events, and leases that are asked to end."""

import os
import queue
import threading
import unittest
from unittest import mock

import berth
from berth import subscriptions
from berth.answers import Event
from berth.parknotices import BACK, ParkNotices
from berth.stoprequests import StopRequests

from . import PATIENCE
from .daemon import DaemonCase
from .doors import Door
from .test_leases import child

HOT = {"temp_optimal": 10, "temp_normal": 20, "temp_throttle": 30, "temp_critical": 35}  # a simulated GPU idles at 39


class Callbacks(DaemonCase):
    def setUp(self):
        self.heard = queue.Queue()

    def on(self, code, callback=None, **choice):
        subscription = berth.on(code, callback or self.heard.put, **choice)
        self.addCleanup(subscription.off)
        return subscription

    def next(self):
        return self.heard.get(timeout=PATIENCE)

    def heat(self, uuid):
        berth.config.set(devices={uuid: HOT})
        self.addCleanup(berth.config.set, devices={uuid: None})

    def switch(self):
        """Causes two events with the code monitoring."""
        berth.monitoring.stop()
        berth.monitoring.start()

    def test_critical(self):
        self.on("critical", gpu=1)
        self.heat("SIM-h200-0")
        self.heat("SIM-h200-1")
        event = self.next()
        self.assertIsInstance(event, berth.Event)
        self.assertEqual((event.code, event.gpu, event.severity), ("state_change", "SIM-h200-1", "critical"))
        self.assertIn("critical", event.also)

    def test_only_what_is_chosen_and_new(self):
        self.switch()
        self.on(["lease_granted", "monitoring"], lease="nobody")
        self.on(None, severity="critical")
        self.on("lease_granted")
        with berth.lease(memory="16MiB") as gpu:
            self.on("lease_released", lease=gpu)
            granted = gpu.id
        # Two callbacks have two threads, so their order is not promised.
        heard = sorted((event.code, event.lease) for event in (self.next(), self.next()))
        self.assertEqual(heard, [("lease_granted", granted), ("lease_released", granted)])
        self.assertTrue(self.heard.empty())

    def test_one_that_raises_gets_the_next_event(self):
        def fails(event):
            self.heard.put(event)
            raise ValueError("on purpose")

        self.on("monitoring", fails)
        with self.assertLogs("berth", "ERROR") as logged:
            self.switch()
            self.assertEqual([self.next().data["running"], self.next().data["running"]], [False, True])
            self.wait_until(lambda: len(logged.output) == 2, "both errors are logged")
        self.assertIn("fails raised an error at the event monitoring", logged.output[0])
        self.assertIn("on purpose", logged.output[0])

    def test_one_that_never_returns_does_not_stop_the_others(self):
        over, stuck = threading.Event(), queue.Queue()
        self.addCleanup(over.set)

        def waits(event):
            stuck.put(event)
            over.wait(PATIENCE)

        self.on("monitoring", waits)
        self.on("monitoring")
        self.switch()
        self.assertEqual([self.next().data["running"], self.next().data["running"]], [False, True])
        self.assertFalse(stuck.get(timeout=PATIENCE).data["running"])
        self.assertTrue(stuck.empty())

    def test_off(self):
        first, second = self.on("monitoring"), self.on("config")
        other = self.on("monitoring", lambda event: self.heard.put("other"))
        self.assertTrue(berth.off(second))
        self.assertTrue(berth.off(self.heard.put))
        self.assertFalse(berth.off(first))
        self.switch()
        self.assertEqual([self.next(), self.next()], ["other", "other"])
        berth.off(other)
        self.switch()
        self.on("monitoring")
        self.switch()
        self.assertFalse(self.next().data["running"])  # of the last switch

    def test_a_restart_of_the_daemon(self):
        self.on("monitoring")
        self.switch()
        before = [self.next(), self.next()]
        self.daemon.kill()
        self.daemon.start()
        self.switch()
        after = [self.next(), self.next()]
        self.assertGreater(after[0].id, before[1].id)
        self.assertTrue(self.heard.empty())

    def test_a_choice_that_the_daemon_refuses(self):
        for wrong in ({"code": "critcal"}, {"code": "critical", "gpu": 17}, {"code": None, "severity": "loud"}):
            with self.subTest(wrong), self.assertRaises(berth.Problem):
                berth.on(callback=print, **wrong)
        with self.assertRaises(TypeError):
            berth.on("critical", None)
        with self.assertRaises(berth.NoDaemon):
            berth.on("critical", print, client=berth.Client(socket=self.daemon.socket + ".none"))
        self.assertFalse(berth.off(print))

    def test_the_program_ends(self):
        program = child(
            "import threading\n"
            "called = threading.Event()\n"
            "def forever(event):\n"
            "    called.set()\n"
            "    threading.Event().wait()\n"
            "berth.on('config', forever)\n"
            "berth.config.set(history_size=300)\n"
            "print(called.wait(300))\n"
        )
        with program:
            self.assertEqual(program.stdout.read().strip(), "True")
        self.assertEqual(program.returncode, 0)
        berth.config.set(history_size=None)

    def test_a_forked_child_listens_for_itself(self):
        program = child(
            "import queue\n"
            "heard = queue.Queue()\n"
            "berth.on('config', heard.put)\n"
            "if os.fork() == 0:\n"
            "    mine = queue.Queue()\n"
            "    berth.on('config', mine.put)\n"
            "    berth.config.set(history_size=301)\n"
            "    mine.get(timeout=300)\n"
            "    os._exit(0 if heard.empty() else 1)\n"
            "status = os.wait()[1]\n"
            "heard.get(timeout=300)\n"
            "print(status)\n"
        )
        with program:
            self.assertEqual(program.stdout.read().strip(), "0")
        berth.config.set(history_size=None)

    def test_events(self):
        with berth.lease(memory="16MiB") as gpu:
            kept = list(berth.events(lease=gpu, follow=False))
            self.assertEqual([event.code for event in kept], ["lease_granted"])
            self.assertEqual(list(berth.events(lease=gpu.id, after=kept[0].id, follow=False)), [])
            self.assertEqual(next(berth.events("lease_granted", lease=[gpu], gpu=gpu.uuid)), kept[0])


class Stops(DaemonCase):
    def setUp(self):
        self.heard = queue.Queue()

    def test_a_device_that_is_too_hot(self):
        wanted = berth.lease(memory="16MiB", gpu=3)
        wanted.on_stop(self.heard.put)  # before it is held
        with wanted as gpu, berth.lease(memory="16MiB", gpu=2) as other:
            self.assertEqual((gpu.stop_requested, gpu.stop_reason), (False, ""))
            berth.config.set(devices={gpu.uuid: HOT})
            self.addCleanup(berth.config.set, devices={gpu.uuid: None})
            event = self.heard.get(timeout=PATIENCE)
            self.assertEqual((event.code, event.lease), ("lease_stop", gpu.id))
            self.assertTrue(gpu.stop_requested)
            self.assertIn("should stop using GPU 3 now", gpu.stop_reason)
            gpu.on_stop(lambda event: self.heard.put("late"))
            self.assertEqual(self.heard.get(timeout=PATIENCE), "late")
            self.assertFalse(other.stop_requested)

    def test_a_lease_that_somebody_ends(self):
        with berth.lease(memory="16MiB") as gpu:
            berth.release(gpu.id)
            self.assertTrue(gpu.stop_requested)  # found among what was said before
            self.assertIn("was released", gpu.stop_reason)

    def test_giving_it_back_is_no_request(self):
        with berth.lease(memory="16MiB") as gpu:
            gpu.on_stop(self.heard.put)
            self.assertFalse(gpu.stop_requested)
        with gpu:
            self.assertFalse(gpu.stop_requested)
        self.assertFalse(gpu.stop_requested)
        self.assertTrue(self.heard.empty())
        with self.assertRaisesRegex(RuntimeError, "not held"):
            berth.lease(memory="16MiB").stop_requested

    def test_an_earlier_lease_of_the_same_id(self):
        berth.deallocate(berth.allocate("again", "16MiB").id)
        given = berth.allocate("again", "16MiB")
        self.addCleanup(berth.deallocate, "again")
        variables = {"BERTH_LEASE": "again", "BERTH_FENCE": str(given.fence), "BERTH_GPUS": given.gpu}
        with mock.patch.dict(os.environ, variables):
            self.assertIs(berth.current(), berth.current())
            self.assertFalse(berth.current().stop_requested)

    def test_many(self):
        held = [berth.lease(memory="1MiB", slots=0) for _ in range(70)]
        for lease in held:
            lease.on_stop(self.heard.put)
            lease.acquire()
            self.addCleanup(lease.release)
        readers = [t for t in threading.enumerate() if t.name == "berth-events"]
        self.assertEqual(len(readers), 1)
        berth.release(held[3].id)
        berth.release(held[69].id)
        heard = {self.heard.get(timeout=PATIENCE).lease for _ in range(2)}
        self.assertEqual(heard, {held[3].id, held[69].id})

    def test_a_daemon_that_is_away(self):
        with berth.lease(memory="16MiB") as gpu:
            self.daemon.kill()
            gpu.on_stop(self.heard.put)
            self.assertFalse(gpu.stop_requested)
            self.daemon.start()
            berth.release(gpu.id)
            self.assertEqual(self.heard.get(timeout=PATIENCE).code, "lease_released")


class Asking(unittest.TestCase):
    def test_which_events_ask_for_the_end(self):
        for event, asks in (
            (Event(code="lease_stop"), True),
            (Event(code="lease_stop", data={"fence": 7}), True),
            (Event(code="lease_stop", data={"fence": 6}), False),  # that of another user
            (Event(code="lease_revoked", data={"fence": 7}), True),
            (Event(code="lease_revoked", data={"fence": 6}), False),  # an earlier lease of that id
            (Event(code="lease_expired"), True),
            (Event(code="lease_over_limit", data={"policy": "warn"}), False),
            (Event(code="lease_over_limit", data={"policy": "stop"}), True),
            (Event(code="lease_over_limit", data={"policy": "revoke"}), True),
            (Event(code="lease_granted", data={"fence": 7}), False),
        ):
            heard = []
            requests = StopRequests(berth.Client(socket="/none"), "x", 7)
            requests.add(heard.append)
            requests.tell(event)
            requests.tell(Event(code="lease_renewed"))
            self.assertEqual(heard, [event] if asks else [], event)
            requests.tell(Event(code="lease_stop"))
            self.assertEqual(len(heard), 1)  # only the first counts

    def test_what_ends_before_it_begins(self):
        def answer(*_):
            watched.close()  # while it asks what was said before
            return 200, lambda out: None

        with Door(answer) as door:
            client = berth.Client(socket=door.path)
            parks = ParkNotices(client, "x", 7)
            parks.add(BACK, self.fail)
            for watched in (StopRequests(client, "x", 7), parks):
                watched.watch()
                self.assertEqual(subscriptions._listener(client).subscriptions(), [])
        self.assertEqual(len(door.calls), 2)


class Choosing(unittest.TestCase):
    def test_matches(self):
        choose = subscriptions.Choice
        event = Event(code="critical", gpu="G", lease="L", user="ada", severity="warning")
        for choice, want in (
            (choose(), True),
            (choose(frozenset(["critical"])), True),
            (choose(frozenset(["overheat"])), False),
            (choose(gpus=frozenset(["H"])), False),
            (choose(leases=frozenset(["L", "M"])), True),
            (choose(leases=frozenset(["ada/L"])), True),
            (choose(leases=frozenset(["bob/L"])), False),
            (choose(severity="warning"), True),
            (choose(severity="critical"), False),
        ):
            self.assertEqual(choice.matches(event), want, choice)
        with_it = Event(code="state_change", also=["throttle", "critical"])
        self.assertTrue(choose(frozenset(["critical"])).matches(with_it))
        self.assertFalse(choose(frozenset(["overheat"])).matches(with_it))
        gap = Event(code="gap", severity="warning")
        self.assertTrue(choose(gpus=frozenset(["G"]), severity="critical").matches(gap))
        self.assertFalse(choose(frozenset(["critical"])).matches(gap))

    def test_what_the_daemon_sends_is_enough_for_all(self):
        choose = subscriptions.Choice
        narrow = choose(frozenset(["a"]), frozenset(["G"]), severity="critical")
        other = choose(frozenset(["b"]), frozenset(["H"]), severity="warning")
        both = subscriptions._either([narrow, other]).parameters()
        self.assertEqual(both, {"code": ["a", "b"], "gpu": ["G", "H"], "lease": [], "severity": ["warning"]})
        self.assertEqual(subscriptions._either([narrow, choose()]).parameters()["code"], [])
        many = choose(leases=frozenset(str(i) for i in range(65)))
        self.assertEqual(many.parameters()["lease"], [])

    def test_ids_that_begin_again_lower(self):
        streams = [
            b'data: {"id": 900, "code": "a"}\n\n',  # kept
            b'data: {"id": 901, "code": "a"}\n\n',
            b'data: {"id": 10, "code": "gap"}\n\ndata: {"id": 11, "code": "a"}\n\n',
        ]

        def answer(*_):
            text = streams.pop(0) if streams else b""
            return 200, lambda out: out.write(text)

        heard = queue.Queue()
        with Door(answer) as door:
            subscription = berth.on("a", heard.put, client=berth.Client(socket=door.path))
            self.assertEqual([heard.get(timeout=PATIENCE).id for _ in range(2)], [901, 11])
            subscription.off()

    def test_a_callback_that_is_behind_misses_the_oldest(self):
        over, began, heard = threading.Event(), threading.Event(), queue.Queue()

        def slow(event):
            began.set()
            over.wait(PATIENCE)
            heard.put(event.id)

        courier = subscriptions.Courier(slow)
        courier(Event(id=0))
        self.assertTrue(began.wait(PATIENCE))
        with self.assertLogs("berth", "WARNING") as logged:
            for id in range(1, subscriptions.MOST_WAITING + 4):
                courier(Event(id=id))
        self.assertEqual(len(logged.output), 1)
        over.set()
        self.assertEqual([heard.get(timeout=PATIENCE), heard.get(timeout=PATIENCE)], [0, 4])
