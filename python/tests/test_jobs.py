"""Jobs against a live daemon, and against doors that break."""

import asyncio
import datetime
import inspect
import itertools
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import berth
from berth import client
from berth.submitting import submission

from . import PATIENCE
from .daemon import DaemonCase
from .doors import Door


class Requests(unittest.TestCase):
    """What submit asks for, without a daemon."""

    def asked(self, *args, **kwargs):
        request = next(submission(*args, **kwargs))
        self.assertEqual((request.method, request.path), ("POST", "/api/jobs"))
        return request.body

    def test_the_least(self):
        body = self.asked(["python", "train.py"])
        self.assertEqual(body["command"], ["python", "train.py"])
        self.assertEqual(body["lease"], {"gpus": 1})
        self.assertEqual(body["directory"], os.getcwd())
        self.assertIn("PATH=" + os.environ["PATH"], body["environment"])
        self.assertEqual(set(body), {"command", "lease", "directory", "environment", "umask"})

    def test_numbers_of_tasks(self):
        for array, want in (
            ("1-4%2", "1-4%2"), (range(20), "0-19:1"), (range(0, 100, 10), "0-90:10"), (range(9, 0, -2), "1-9:2"),
            (range(3, 4), "3"), ([1, 3, 7], "1,3,7"), ((5,), "5"), (iter([2, 1]), "2,1"),
        ):  # fmt: skip
            self.assertEqual(self.asked("x", array=array)["array"], want)

    def test_values_of_parameters(self):
        body = self.asked("x", params={"lr": 0.1, "name": "resnet", "seed": range(2), "deep": True})
        self.assertEqual(body["params"], [
            {"name": "lr", "values": ["0.1"]}, {"name": "name", "values": ["resnet"]},
            {"name": "seed", "values": ["0", "1"]}, {"name": "deep", "values": ["True"]},
        ])  # fmt: skip

    def test_everything(self):
        before = berth.Job(berth.answers.Job(id="prep-1"))
        body = self.asked(
            "python train.py {lr}", memory="2GiB", gpus=2, slots=1, name="train", service="s", gpu=1, where="name~H200",
            policy="pack", prefer="GPU-1", priority=3, timeout=60, time=3600, compute=50, isolation="cgroup",
            parkable="unshared", array="1-4%2", params={"lr": [0.1, "x"]}, after=[before, "a-2"], after_any=before,
            after_failed=["b-3"], begin=datetime.datetime(2026, 12, 24, tzinfo=datetime.timezone.utc), hold=True, retry=2,
            requeue=True, signal="USR1", signal_seconds=30, output="%j.out", error="e", directory="/", cpus=2,
            environment={"A": "1"}, host_memory="1GiB", comment="hi",
        )  # fmt: skip
        lease = body.pop("lease")
        umask = body.pop("umask")
        self.assertEqual(umask, os.umask(umask))
        self.assertEqual(lease, {
            "memory_mb": 2048, "gpus": 2, "slots": 1, "service": "s", "gpu": "1", "where": "name~H200", "policy": "pack",
            "prefer": "GPU-1", "priority": 3, "timeout_seconds": 60, "time_limit_seconds": 3600, "isolation": "cgroup",
            "parkable": True, "unshared": True, "comment": "hi",
        })  # fmt: skip
        self.assertEqual(body, {
            "command": ["/bin/sh", "-c", "python train.py {lr}"], "name": "train", "array": "1-4%2",
            "params": [{"name": "lr", "values": ["0.1", "x"]}], "after": ["prep-1", "a-2"], "after_any": ["prep-1"],
            "after_failed": ["b-3"], "begin": "2026-12-24T00:00:00Z", "hold": True, "retry": 2, "requeue": "machine",
            "signal": "USR1", "signal_seconds": 30, "output": "%j.out", "error": "e", "directory": "/", "cpus": 2,
            "environment": ["A=1"], "host_memory_mb": 1024, "compute_percent": 50,
        })  # fmt: skip

    def test_what_cannot_be_meant(self):
        for wrong in ({"requeue": "never"}, {"parkable": "sometimes"}, {"memory": "much"}):
            with self.subTest(wrong), self.assertRaises(ValueError):
                self.asked(["true"], **wrong)

    def test_the_job_that_it_runs_under_is_not_passed_on(self):
        os.environ.update(BERTH_JOB="outer-1", BERTH_PARAM_lr="3", BERTH_KEPT="yes")
        self.addCleanup(lambda: [os.environ.pop(name) for name in ("BERTH_JOB", "BERTH_PARAM_lr", "BERTH_KEPT")])
        environment = self.asked(["true"])["environment"]
        self.assertIn("BERTH_KEPT=yes", environment)
        self.assertEqual([v for v in environment if v.startswith(("BERTH_JOB=", "BERTH_PARAM_"))], [])

    def test_async_is_the_same(self):
        self.assertEqual(inspect.signature(berth.aio.submit), inspect.signature(berth.submit))
        for name, method in vars(berth.Job).items():
            if inspect.isfunction(method) and not name.startswith("_"):
                self.assertTrue(inspect.iscoroutinefunction(getattr(berth.aio.Job, name)), name)


class Waiting(unittest.TestCase):
    def waited(self, answers, timeout=None):
        """Plays a wait, and returns its result and the pauses in it. An answer is a
        state, or an error."""
        call, pauses, answers = berth.Job(berth.answers.Job(id="job-1"))._waiting(timeout), [], list(answers)
        try:
            request = next(call)
            while True:
                if not isinstance(request, client.Request):
                    pauses.append(request)
                    request = call.send(None)
                    continue
                answer = answers.pop(0)
                request = call.throw(answer) if isinstance(answer, Exception) else call.send({"id": "job-1", "state": answer})
        except StopIteration as end:
            return end.value.state, pauses

    def test_it_outlasts_a_restart(self):
        gone = berth.NoDaemon([], "")
        self.assertEqual(self.waited(["done"]), ("done", []))
        state, pauses = self.waited(["running", gone, gone, "waiting", gone, "failed"])
        self.assertEqual((state, pauses), ("failed", [1.0, 0.1, 0.2, 1.0, 0.1]))
        self.assertEqual(self.waited([berth.Broken("GET", OSError()), gone, "done"]), ("done", [0.1, 0.2]))  # one was there
        stopping, busy = berth.Problem({"code": "stopping"}, 503), berth.Problem({"code": "no_turn"}, 429)
        self.assertEqual(self.waited(["running", stopping, gone, busy, "done"]), ("done", [1.0, 0.1, 0.2, 0.4]))

    def test_the_daemon_ends_before_it_has_answered(self):
        cut, gone = berth.Broken("GET /api/jobs/job-1", EOFError()), berth.NoDaemon([], "")
        self.assertEqual(self.waited([cut, gone, "done"]), ("done", [0.1, 0.2]))
        self.assertEqual(self.waited([berth.Problem({"code": "stopping"}, 503), gone, "done"]), ("done", [0.1, 0.2]))

    def test_a_daemon_that_does_not_come_back(self):
        with self.assertRaisesRegex(TimeoutError, "job-1 has not ended within 0 s, as far as is known"):
            self.waited([berth.Broken("GET /api/jobs/job-1", EOFError())], timeout=0)

    def test_it_gives_up(self):
        with self.assertRaises(berth.NoDaemon):
            self.waited([berth.NoDaemon([], "")])
        with self.assertRaises(berth.Problem):
            self.waited([berth.Problem({"code": "over_budget"}, 503)])
        with self.assertRaises(berth.Problem):
            self.waited(["running", berth.Problem({"code": "unknown_job"}, 404)])
        with self.assertRaisesRegex(TimeoutError, "job-1 has not ended within 0 s; it is running"):
            self.waited(["running"], timeout=0)
        with mock.patch("berth.submitting.clock") as clock:
            clock.monotonic.side_effect = itertools.count()
            with self.assertRaisesRegex(TimeoutError, "job-1 has not ended within 9 s, as far as is known: no daemon answers"):
                self.waited(["running"] + 100 * [berth.NoDaemon([], "")], timeout=9)


class Logs(unittest.TestCase):
    def test_a_log_is_a_text(self):
        with Door(lambda *_: (200, lambda out: out.write(b"epoch \xff\n"))) as door:
            job = berth.Job(berth.answers.Job(id="a/b"), berth.Client(socket=door.path))
            self.assertEqual(job.log(errors=True, lines=3), "epoch \ufffd\n")
            self.assertEqual(door.calls[0][:2], ("GET", "/api/jobs/a%2Fb/log?errors=true&lines=3"))

    def test_a_refusal_is_one(self):
        with Door(lambda *_: (403, {"code": "not_yours", "detail": "No."})) as door:
            with self.assertRaises(berth.Problem) as caught:
                berth.Job(berth.answers.Job(id="a"), berth.Client(socket=door.path)).log()
            self.assertEqual(caught.exception.code, "not_yours")


class Jobs(DaemonCase):
    def setUp(self):
        self.served("/api/jobs")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_a_job(self):
        job = berth.submit(["sh", "-c", "echo $GREETING; exit 3"], memory="1GiB", name="greet", directory=self.folder, environment={"GREETING": "hello", "PATH": os.environ["PATH"]})
        self.assertRegex(job.id, r"^greet-\d+$")
        self.assertEqual(job.wait(PATIENCE), 3)
        self.assertEqual((job.state, job.over, job.exit_code), ("failed", True, 3))
        self.assertEqual(job.log(), "hello\n")
        self.assertEqual(pathlib.Path(self.folder, "berth-%s.log" % job.id).read_text(), "hello\n")
        self.assertIn(job.id, [known.id for known in berth.jobs(state=["failed", "done"])])
        self.assertEqual(berth.find_job(job.id).exit_code, 3)
        again = job.redo()
        self.assertNotEqual(again.id, job.id)
        self.assertEqual(again.wait(PATIENCE), 3)

    def test_tasks(self):
        job = berth.submit("test {n} != 2", params={"n": [1, 2, 3]}, memory="1GiB", directory=self.folder)
        job.wait(PATIENCE)
        tasks = job.refresh().tasks
        self.assertEqual([(task.answer.params["n"], task.state) for task in tasks], [("1", "done"), ("2", "failed"), ("3", "done")])
        again = job.redo(failed=True)
        again.wait(PATIENCE)
        self.assertEqual([task.answer.params["n"] for task in again.refresh().tasks], ["2"])

    def test_changes(self):
        tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
        job = berth.submit(["true"], hold=True, begin=tomorrow, directory=self.folder)
        self.assertEqual(job.state, "held")
        with self.assertRaises(TimeoutError):
            job.wait(0)
        behind = berth.submit(["true"], after=[job], directory=self.folder)
        self.assertEqual(job.prioritize(-3).answer.priority, -3)
        self.assertEqual(job.unhold().hold().state, "held")
        self.assertEqual(job.cancel().state, "cancelled")
        self.assertIsNone(job.wait(PATIENCE))
        behind.wait(PATIENCE)
        self.assertEqual(behind.state, "cancelled")
        self.assertIn(job.id, behind.cause)

    def test_what_is_refused(self):
        with self.assertRaises(berth.Problem):
            berth.submit([])
        with self.assertRaises(berth.Problem):
            berth.submit(["true"], array="9-1")
        with self.assertRaises(berth.Problem) as caught:
            berth.find_job("nosuch-999999")
        self.assertEqual(caught.exception.status, 404)

    def test_async(self):
        async def play():
            job = await berth.aio.submit(["sh", "-c", "echo async"], memory="1GiB", directory=self.folder)
            self.assertEqual(await job.wait(PATIENCE), 0)
            self.assertEqual(await job.log(), "async\n")
            self.assertEqual((await (await berth.aio.find_job(job.id)).refresh()).state, "done")
            held = await berth.aio.submit(["true"], hold=True, directory=self.folder)
            self.assertEqual((await (await held.cancel()).refresh()).state, "cancelled")

        asyncio.run(asyncio.wait_for(play(), PATIENCE))


if __name__ == "__main__":
    unittest.main()
