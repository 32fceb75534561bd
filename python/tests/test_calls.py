"""The calls of the API against a live daemon."""

import datetime
import inspect
import json
import os
import subprocess
import sys
import typing
import unittest

import berth
from berth import answer, answers, calls

from .daemon import Daemon, DaemonCase
from .doors import Door

SETTINGS = """
services:
  embedding-service:
    min_memory_mb: 1024
    max_memory_mb: 4GiB
    quota: {memory_mb: 8GiB}
"""


class Reading(DaemonCase):
    def test_devices(self):
        found = berth.devices()
        self.assertEqual([d.index for d in found], [0, 1, 2, 3])
        self.assertEqual(found[0].uuid, "SIM-h200-0")
        self.assertGreater(found[0].memory_total_mb, 100000)
        self.assertEqual(found[0].links[0].kind, "nvlink")

    def test_status(self):
        first, other = berth.status(), berth.status("SIM-h200-2")
        self.assertEqual((first.device.index, other.device.index), (0, 2))
        self.assertEqual(berth.status(2).device, other.device)
        self.assertEqual((first.state, first.multiplier), ("OPTIMAL", 1.0))
        self.assertEqual(first.since.tzinfo, datetime.timezone.utc)
        self.assertEqual(first.sample.gpu, first.device.uuid)
        self.assertEqual(first.document["state"], "OPTIMAL")
        machine = berth.status_all()
        self.assertEqual((len(machine.gpus), machine.utilization.total_gpus), (4, 4))
        self.assertIn("SIM-h200-3", machine.utilization.per_gpu)
        self.assertTrue(machine.monitoring)

    def test_samples(self):
        self.assertEqual(len(berth.metrics()), 4)
        (sample,) = berth.metrics(1)
        self.assertIsInstance(sample.temperature_celsius, float)
        self.assertIsNone(sample.fan_percent)  # this model has none
        self.wait_until(lambda: len(berth.history(1)) > 1, "there are two samples")
        history = berth.history(1, limit=1)
        self.assertEqual([s.gpu for s in history], ["SIM-h200-1"])
        self.assertLessEqual(history[0].time, datetime.datetime.now(datetime.timezone.utc))
        self.assertEqual(len(berth.history(1, since=history[0].time + datetime.timedelta(days=1))), 0)
        self.assertGreater(len(berth.history(1, since=3600)), 0)
        self.assertGreater(len(berth.history(1, since="1h")), 0)
        with self.assertRaises(berth.Problem):
            berth.history(1, since="yesterday")

    def test_temperature(self):
        trend = berth.trend(0, minutes=2)
        self.assertEqual((trend.gpu, trend.minutes), ("SIM-h200-0", 2.0))
        self.assertIn(trend.direction, ("rising", "falling", "stable", "unknown"))
        throttle = berth.throttle(0)
        self.assertEqual((throttle.multiplier, throttle.should_throttle, throttle.should_stop), (1.0, False, False))
        self.assertIn("temp_optimal", throttle.reason)

    def test_an_unknown_device(self):
        for ask in (berth.status, berth.metrics, berth.history, berth.trend, berth.throttle):
            with self.subTest(ask.__name__), self.assertRaises(berth.Problem):
                ask(17)

    def test_the_rest(self):
        self.assertEqual(berth.ready().devices, 4)
        self.assertEqual(berth.orphans().foreign, [])
        self.assertEqual([d.index for d in berth.energy().gpus], [0, 1, 2, 3])
        me = berth.whoami()
        self.assertEqual((me.uid, me.role, me.door, len(me.why)), (os.getuid(), "admin", "socket", 1))
        self.assertEqual(berth.batches(), [])
        berth.measure("calls.work", "2GiB", 12.5)
        (known,) = berth.measurements("calls.work")
        self.assertEqual((known.peak_mb, known.runs), (2048, 1))


# The routes that have no call in the package, and why.
WITHOUT = {
    "GET /healthz": "ready says more",
    "GET /metrics": "for Prometheus",
    "GET /api/version": "status_all says it",
    "GET /": "for browsers",
    "GET /favicon.svg": "for browsers",
    "GET /assets/{file}": "for browsers",
    "GET /help": "for people",
    "GET /help/{page}": "for people",
    "GET /help/pictures/{file}": "for people",
    "GET /docs": "for people",
    "GET /api/report": "for people, on the page; berth report writes it, too",
    "GET /openapi.json": "for tools",
    "GET /api/quota": "for berth quota",
    "GET /api/users": "for people, on the page",
    "POST /api/services/{name}/operations": "operation",
    "PUT /api/batches/{id}": "for berth run",
    "POST /api/jobs/minder": "for the minders of jobs",
    "GET /api/front/orders": "for the front",
    "POST /api/front/reports": "for the front",
    "POST /api/front/bring": "for the front",
    "POST /api/front/caller": "for the front",
    "POST /api/leases/id": "for berth exec; a lease of the package has an id of its own",
    "POST /api/leases/stream": "for clients that take thousands of leases a second",
    "POST /api/leases/{id}/scope": "for operators who place containers",
    "GET /api/audit": "for administrators, with berth audit",
    "POST /api/backup": "for administrators, with berth backup",
    "GET /api/events": "events and on",
    "GET /api/hooks": "for administrators, who use berth hooks",
    "POST /api/hooks/{name}/test": "for administrators, who use berth hooks test",
    "POST /api/plans": "compile",
    "GET /api/tokens": "for administrators, who use berth token",
    "POST /api/tokens": "for administrators, who use berth token",
    "DELETE /api/tokens/{name}": "for administrators, who use berth token",
    "POST /api/plans/run": "Plan.run",
    "POST /api/v1/query": "query",
    "POST /api/v1/query_range": "query_range",
    "GET /api/v1/query_exemplars": "for Grafana",
    "POST /api/v1/query_exemplars": "for Grafana",
    "GET /api/v1/series": "for Grafana",
    "POST /api/v1/series": "for Grafana",
    "GET /api/v1/labels": "for Grafana",
    "POST /api/v1/labels": "for Grafana",
    "GET /api/v1/label/{name}/values": "for Grafana",
    "GET /api/v1/metadata": "for Grafana",
    "GET /api/v1/rules": "for Grafana",
    "GET /api/v1/alerts": "for Grafana",
    "GET /api/v1/status/buildinfo": "for Grafana",
    "POST /api/session": "for browsers; a library shows a token, or the kernel says who it is",
    "DELETE /api/session": "for browsers; a library shows a token, or the kernel says who it is",
    "POST /api/session/link": "for browsers; a library shows a token, or the kernel says who it is",
    "GET /api/sessions": "for browsers; a library shows a token, or the kernel says who it is",
    "DELETE /api/sessions/{id}": "for browsers; a library shows a token, or the kernel says who it is",
}


class Routes(DaemonCase):
    def called(self):
        """Returns the routes of all calls, as they are asked."""
        arguments = {"str": "x", "int": 1, "Amount": 64, "float": 1.0, "Union[int, str]": 1}
        arguments["Sequence[Share]"] = [("x", 1, 1)]
        arguments["Mapping[str, Any]"] = arguments["Mapping[str, Mapping[str, int]]"] = {}
        found = set()
        for name, call in vars(calls).items():
            if not inspect.isgeneratorfunction(call) or name.startswith("_") or inspect.getmodule(call) is not calls:
                continue
            needed = [p for p in inspect.signature(call).parameters.values() if p.default is p.empty]
            asked = call(*(arguments[p.annotation] for p in needed if p.kind is not p.VAR_KEYWORD))
            try:
                request = next(asked)
                while True:
                    path = request.path.replace("/leases/x", "/leases/{id}")
                    path = path.replace("/alerts/x", "/alerts/{fingerprint}").replace("/jobs/x", "/jobs/{id}").replace("/services/x", "/services/{name}")
                    found.add("%s %s" % (request.method, path))
                    request = asked.send({})
            except StopIteration:
                pass
        return found

    def test_every_route_has_a_call(self):
        paths = self.daemon.client.call("GET", "/openapi.json")["paths"]
        served = {"%s %s" % (method.upper(), path) for path, methods in paths.items() for method in methods}
        self.assertEqual(served - self.called() - set(WITHOUT), set())
        self.assertEqual(set(WITHOUT) - served, set())


class Pages(unittest.TestCase):
    """Calls ask for as many pages as there are. No daemon here has 10,000 leases."""

    def answered(self, call, *pages):
        """Makes a call, and returns its result and the queries that it asked."""
        asked, pages = [], list(pages)
        try:
            request = next(call)
            while True:
                asked.append(dict(request.query or {}))
                request = call.send(pages.pop(0))
        except StopIteration as end:
            return end.value, asked

    def test_leases(self):
        ann, bob = {"user": "ann", "uid": 1, "pid": 5}, {"user": "bob", "uid": 2}
        found, asked = self.answered(
            calls.leases(),
            {"leases": [{"id": "a", "holder": ann}], "waiting": [], "next": "x", "note": "more"},
            {
                "waiting": [{"id": "b", "position": 2, "holder": ann}, {"id": "c", "position": 3, "holder": bob}],
                "next": "y",
            },
            {"leases": [{"id": "b", "holder": ann}], "waiting": [{"id": "d", "position": 1, "holder": ann}]},
        )
        self.assertEqual(asked, [{}, {"after": "x"}, {"after": "y"}])
        self.assertEqual([held.id for held in found.leases], ["a", "b"])
        self.assertEqual([waiting.id for waiting in found.waiting], ["d", "c"])  # b was granted meanwhile
        self.assertNotIn("next", found.document)

    def test_other_lists(self):
        found, asked = self.answered(
            calls.measurements("m"),
            {"measurements": [{"name": "m", "step": "1"}], "next": "x"},
            {"measurements": [{"name": "m", "step": "2"}], "next": "x"},  # a daemon that never ends
        )
        self.assertEqual([one.step for one in found], ["1", "2"])
        self.assertEqual(asked, [{"name": "m"}, {"name": "m", "after": "x"}])
        found, _ = self.answered(calls.batches(), {"batches": [{"id": "b"}], "next": "x"}, {"batches": [{"id": "c"}]})
        self.assertEqual([one.id for one in found], ["b", "c"])
        found, _ = self.answered(calls.orphans(), {"orphans": [{"pid": 1}], "next": "x"}, {"foreign": [{"pid": 2}]})
        self.assertEqual((found.orphans[0].pid, found.foreign[0].pid), (1, 2))
        with self.assertRaises(berth.BerthError):
            self.answered(calls.leases(), [])


class Deciding(DaemonCase):
    def test_whether_there_is_a_gpu(self):
        self.assertIs(berth.is_available(), True)
        self.assertIs(berth.is_available(client=berth.Client(socket="/nowhere/berth.sock")), False)
        self.assertIs(berth.is_available(client=berth.Client(url="http://127.0.0.1:9")), False)
        with Daemon("sim:0") as empty:
            self.assertIs(berth.is_available(client=empty.client), False)

    def test_the_machine_beside_the_gpu(self):
        for found in (berth.status().machine, berth.status_all().machine):
            self.assertGreaterEqual(found.load, 0)
            self.assertGreaterEqual(found.cpus, 1)
            self.assertGreater(found.memory_total_mb, found.memory_available_mb)
            self.assertGreater(found.memory_available_mb, 0)
            self.assertAlmostEqual(found.load_percent, 100 * found.load / found.cpus, delta=0.06)

    def test_memory_of_a_status(self):
        berth.allocate("one", 64, gpu=0)
        self.addCleanup(berth.deallocate, "one")
        berth.allocate("two", "36MiB", gpu=0)
        self.addCleanup(berth.deallocate, "two")
        memory = berth.status(0).memory
        self.assertEqual(
            memory.allocation_stats,
            {"allocation_count": 2, "total_allocated_mb": 100, "allocations": {"one": 64, "two": 36}},
        )
        self.assertEqual(memory.total_mb, berth.devices()[0].memory_total_mb)
        self.assertIn("100 MiB allocated", repr(memory))
        self.assertEqual(berth.status(1).memory.allocation_stats["allocations"], {})

    def test_answers_are_gone_through(self):
        berth.allocate("one", 64, gpu=0)
        self.addCleanup(berth.deallocate, "one")
        self.assertEqual([lease.id for lease in berth.leases()], ["one"])
        self.assertEqual((len(berth.leases()), berth.leases()[0].id), (1, "one"))
        self.assertEqual([status.device.index for status in berth.status_all()], [0, 1, 2, 3])
        self.assertEqual((list(berth.orphans()), len(berth.orphans())), ([], 0))
        self.assertEqual(list(berth.alerts()), berth.alerts().alerts)

    def test_an_answer_is_true_also_where_its_first_list_is_empty(self):
        made = berth.answers
        strays = made.Strays(foreign=[made.Stray(pid=1)])
        for answer in (made.Leases(waiting=[made.Waiting(id="a")]), strays, made.Alerts(), made.StatusAll()):
            with self.subTest(type(answer).__name__):
                self.assertIs(bool(answer), True)
                self.assertEqual(len(answer), 0)
        self.assertIs(bool(berth.answers.History()), False)

    def test_answers_are_json(self):
        berth.allocate("one", 64, gpu=0)
        self.addCleanup(berth.deallocate, "one")
        told = json.loads(json.dumps(berth.status(0).json()))
        self.assertEqual(told["device"]["index"], 0)
        self.assertEqual(told["allocation_stats"], {"allocation_count": 1, "total_allocated_mb": 64})
        for answer in (berth.status_all(), berth.leases(), berth.config.get(), *berth.devices(), *berth.services.all()):
            json.dumps(answer.json())
        made = berth.answers.Service(name="a", leases=[berth.answers.Allocation(id="x", granted=datetime.datetime(2026, 1, 2))])
        told = json.loads(json.dumps(made.json()))
        self.assertEqual((told["name"], told["leases"][0]["granted"]), ("a", "2026-01-02T00:00:00"))

    def test_sums_of_leases_count_a_pool_once(self):
        with berth.pool("1GiB", gpu=0) as pool, pool.lease("256MiB"):
            stats = berth.status(0).memory.allocation_stats
            self.assertEqual((stats["allocation_count"], stats["total_allocated_mb"]), (2, 1024))

    def test_sections_of_the_configuration(self):
        found = berth.config.get()
        self.assertGreater(found.optimization.interval, 0)
        self.assertEqual(found.services, {})


class Allocating(DaemonCase):
    def test_allocate(self):
        before = berth.available()[1]
        given = berth.allocate("embedder", "4GiB", gpu=1)
        self.assertEqual((given.id, given.gpu, given.memory_mb), ("embedder", "SIM-h200-1", 4096))
        self.assertEqual(berth.available()[1].available_mb, before.available_mb - 4096)
        with self.assertRaises(berth.Problem):
            berth.allocate("embedder", "1MiB")
        self.assertEqual(berth.find_lease("embedder").fence, given.fence)
        self.assertIsNone(berth.find_lease("embedder").launch)
        launch = berth.find_lease("embedder", launch=True, caps=["cupy", "jax"]).launch
        self.assertIn("BERTH_LEASE=embedder", launch.environment)
        self.assertIn("BERTH_FENCE=%d" % given.fence, launch.environment)
        self.assertIn("4 GiB", launch.receipt)
        with self.assertRaises(berth.Problem) as caught:
            berth.find_lease("embedder", launch=True, caps=["numpy"])
        self.assertEqual(caught.exception.code, "invalid_request")
        self.assertEqual(berth.deallocate("embedder").lease.id, "embedder")
        with self.assertRaises(berth.Problem):
            berth.deallocate("embedder")
        past = berth.past_leases(gpu=1, limit=1)[0]
        self.assertEqual((past.id, past.how, past.parts[0].memory_mb), ("embedder", "released", 4096))
        self.assertEqual(berth.past_leases("nobody"), [])
        with self.assertRaises(berth.Problem) as caught:
            berth.allocate("too-much", "900GiB")
        self.assertEqual(caught.exception.code, "insufficient_memory")
        with self.assertRaises(ValueError):
            berth.allocate("apples", "4 apples")

    def test_an_application_that_is_killed_while_it_starts_leaves_nothing(self):
        program = "import berth, sys; print(berth.allocate('assistant', '2GiB').binding, flush=True); sys.stdin.read()"
        for _ in range(2):  # the second finds the id free
            app = subprocess.Popen(
                [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            with app:
                self.assertEqual(app.stdout.readline(), "process\n")
                app.kill()
            self.wait_until(lambda: not berth.leases().leases, "the lease ends")

    def test_ids_are_per_user(self):
        given = berth.allocate("train", 64, ttl=60)
        self.assertTrue(given.user)
        self.assertEqual([(held.id, held.user) for held in berth.leases().leases], [("train", given.user)])
        uid = str(os.getuid())
        for user in (given.user, uid):
            self.assertEqual(berth.find_lease("train", user=user).fence, given.fence)
            self.assertEqual(berth.renew("train", given.fence, user=user).fence, given.fence)
            self.assertEqual(berth.resize("train", 128, user=user).memory_mb, 128)
            self.assertEqual(berth.ask_to_trim("train", user=user).fence, given.fence)
            self.assertTrue(berth.explain_waiting("train", user=user).fits)
        for call in (berth.find_lease, berth.release, berth.deallocate, berth.ask_to_trim, berth.explain_waiting):
            with self.assertRaises(berth.Problem, msg=call) as caught:
                call("train", user="nobody")
            self.assertIn(caught.exception.code, ("unknown_allocation", "not_yours"))
        self.assertEqual(berth.deallocate("train", user=uid).id, "train")

    def test_admit(self):
        parts = [("SIM-h200-0", "8GiB", 1), ("SIM-h200-2", 512, 0)]
        want = [("SIM-h200-0", 8192, 1), ("SIM-h200-2", 512, 0)]
        one, two = ("pod0d9f7e4c-4f3e-4b0f-9d77-00000000000" + n for n in "12")
        given = berth.admit("claim", parts, scope=[one])
        self.assertEqual([(p.gpu, p.memory_mb, p.slots) for p in given.parts], want)
        self.assertEqual((given.binding, given.stood), ("named", False))
        again = berth.admit("claim", parts[::-1], scope=[two])
        self.assertEqual((again.fence, again.stood, again.document["scope"]), (given.fence, True, [one, two]))
        with self.assertRaises(berth.Problem) as caught:
            berth.admit("claim", parts[:1])
        self.assertEqual(caught.exception.code, "duplicate_allocation")
        self.assertIn("it has 512 MiB and 0 slots on SIM-h200-2", caught.exception.detail)
        with self.assertRaises(berth.Problem) as caught:
            berth.admit("other", [("SIM-h200-0", 1, 1), ("SIM-h200-1", "900GiB", 1)])
        self.assertEqual(caught.exception.code, "insufficient_memory")
        self.assertEqual([held.id for held in berth.leases().leases], ["claim"])
        self.assertEqual(berth.release("claim", fence=given.fence).id, "claim")

    def test_a_ttl_is_renewed(self):
        given = berth.allocate("renewed", 64, ttl=60)
        self.assertEqual((given.binding, given.ttl_seconds), ("ttl", 60.0))
        again = berth.renew("renewed", given.fence, ttl=120)
        self.assertEqual(again.ttl_seconds, 120.0)
        self.assertEqual(berth.release("renewed", fence=given.fence).id, "renewed")

    def test_leases(self):
        with berth.lease(memory=512, service="shared") as gpu:
            (seen,) = [x for x in berth.leases().leases if x.id == gpu.id]
            self.assertEqual((seen.holder.pid, seen.memory_mb), (os.getpid(), 512))
            self.assertEqual(berth.services.get("shared").memory_mb, 512)
            self.assertEqual(berth.ask_to_trim(gpu.id).id, gpu.id)
        self.assertEqual(berth.services.get("shared").leases, [])

    def test_explain(self):
        self.assertTrue(berth.explain("1GiB").fits)
        refused = berth.explain("900GiB", gpu=0)
        self.assertFalse(refused.possible)
        self.assertGreater(refused.largest_ever_mb, 1000)
        with self.assertRaises(berth.Problem):
            berth.explain_waiting("nobody")


class Settings(DaemonCase):
    configuration = SETTINGS

    def test_config(self):
        before = berth.config.get()
        self.assertEqual((before.temp_throttle, before.memory_limit_mb), (85.0, None))
        self.assertEqual(berth.config.set(temp_throttle=80, memory_limit_mb=4096).memory_limit_mb, 4096)
        sources = {s.field: s for s in berth.config.sources()}
        self.assertEqual(sources["gpu.temp_throttle"].value, "80")
        self.assertEqual(berth.config.set({"temp_throttle": None}, memory_limit_mb=None), before)
        with self.assertRaises(berth.Problem) as caught:
            berth.config.set(temp_throttle=80, temp_optimal=500)
        self.assertTrue(caught.exception.fields)
        self.assertEqual(berth.config.get(), before)

    def test_reload(self):
        self.served("/api/gpu/config/reload")
        self.assertIsInstance(berth.config.reload(), dict)

    def test_monitoring(self):
        stopped = berth.monitoring.stop()
        self.assertEqual((stopped.running, stopped.changed), (False, True))
        self.assertFalse(berth.status_all().monitoring)
        self.assertTrue(berth.monitoring.start().running)

    def test_alerts(self):
        self.assertEqual(berth.alerts().note, "")
        with self.assertRaises(berth.Problem) as caught:
            berth.acknowledge("0123456789abcdef", hours=1, comment="mine")
        self.assertEqual(caught.exception.code, "unknown_alert")
        with self.assertRaises(berth.Problem) as caught:
            berth.unacknowledge("0123456789abcdef")
        self.assertEqual(caught.exception.code, "unknown_alert")

    def test_check(self):
        found = berth.check(1)
        self.assertEqual((found.index, found.kind), (1, "quick"))
        self.assertIn(found.verdict, ("passed", "could_not_be_asked"))
        with self.assertRaises(berth.Problem) as refused:
            berth.check(1, kind="thorough")
        self.assertEqual(refused.exception.code, "invalid_request")

    def test_drain(self):
        until = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) + datetime.timedelta(hours=1)
        drained = berth.drain(1, until=until, reason="new fan")
        self.assertEqual((drained.index, drained.changed, drained.leases), (1, True, []))
        drain = berth.status(1).drain
        assert drain is not None
        self.assertEqual((drain.until, drain.reason), (until, "new fan"))
        self.assertTrue(berth.undrain(1).changed)
        self.assertFalse(berth.undrain(1).changed)
        self.assertIsNone(berth.status(1).drain)

    def test_services(self):
        (service,) = berth.services.all()
        self.assertEqual(service.name, "embedding-service")
        self.assertEqual(service.settings["max_memory_mb"], "4096")
        self.assertEqual(service.settings["quota.memory_mb"], "8192")
        raised = berth.allocate("small", "16MiB", service="embedding-service")
        self.assertEqual(raised.memory_mb, 1024)
        self.assertEqual(berth.services.get("embedding-service").memory_mb, 1024)
        berth.deallocate("small")
        with self.assertRaises(berth.Problem):
            berth.allocate("large", "5GiB", service="embedding-service")


class Answers(unittest.TestCase):
    def test_what_is_not_known_stays_in_the_document(self):
        sample = answers.Sample.read(
            {"gpu": "G", "time": "2026-11-15T07:00:01.123456789Z", "smell": "burnt", "temperature_celsius": 71,
             "processes": [{"pid": 7, "evidence": "descent"}], "process_utilization_percent": {"7": 3}},
        )  # fmt: skip
        self.assertEqual(sample.document["smell"], "burnt")
        self.assertEqual(sample.processes[0].document["evidence"], "descent")
        self.assertEqual(sample.process_utilization_percent, {7: 3.0})
        self.assertEqual(sample.time.microsecond, 123456)
        self.assertIsNone(sample.power_watts)

    def test_what_is_of_another_kind_is_kept(self):
        strange = answers.Status.read({"since": "a while ago", "device": "GPU 0", "slots": None, "multiplier": "half"})
        self.assertEqual((strange.since, strange.device, strange.multiplier), ("a while ago", "GPU 0", "half"))
        self.assertEqual(strange.slots, answers.Slots())
        with self.assertRaisesRegex(berth.BerthError, "an object was expected"):
            answers.Status.read([])

    def test_times(self):
        for text, want in (
            ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00+00:00"),
            ("2026-01-31T12:00:00.5+02:00", "2026-01-31T12:00:00.500000+02:00"),
        ):
            self.assertEqual(answer.parse_time(text).isoformat(), want)

    def test_a_call_that_waits_has_time_to(self):
        with Door(lambda *_: (201, {"id": "a"})) as door:
            client = berth.Client(socket=door.path)
            berth.allocate("a", "5MiB", timeout=2, prefer=1, binding="named", client=client)
        self.assertEqual(
            door.calls[0][2],
            {"allocation_id": "a", "memory_mb": 5, "timeout_seconds": 2, "prefer": "1", "binding": "named"},
        )

    def test_functions_are_typed(self):
        for ask in (berth.status, berth.allocate, berth.config.get, berth.services.all):
            hints = typing.get_type_hints(ask)
            self.assertNotIn("Generator", str(hints["return"]))
        self.assertIs(typing.get_type_hints(berth.status)["return"], answers.Status)
        self.assertEqual(berth.config.get.__name__, "get")
