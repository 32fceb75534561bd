"""Calls that are made while the daemon is being replaced."""

import asyncio
import os
import select
import socket
import tempfile
import threading
import unittest
from unittest import mock

import berth
from berth import enduring, persisting
from berth.client import Request

from . import PATIENCE
from .daemon import DaemonCase


class Patience(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="berth-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "berth.sock")
        patch = mock.patch.dict(os.environ, {"BERTH_PATIENCE": ""})
        patch.start()
        self.addCleanup(patch.stop)

    def pauses(self, error, limit=float("inf"), client=None):
        """Returns the pauses of a request that never reaches a daemon."""
        clock, pauses = [0.0], []
        request = Request("POST", "/api/jobs", client=client or berth.Client(socket=self.path))
        with mock.patch("berth.enduring.time.monotonic", lambda: clock[0]):
            call = enduring.enduring(request, limit)
            with self.assertRaises(berth.NoDaemon):
                asked = next(call)
                while True:
                    self.assertIs(asked, request)
                    pause = call.throw(berth.NoDaemon([(self.path + ".other", FileNotFoundError()), (self.path, error)], ""))
                    pauses.append(pause)
                    clock[0] += pause
                    asked = call.send(None)
        return pauses

    def killed(self):
        """Leaves the socket of a daemon that was killed."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path)

    def stopped(self, ago=0.0):
        """Leaves the trace of a daemon that has ended."""
        trace = self.path + ".state"
        os.symlink("/", trace)
        when = os.lstat(trace).st_mtime - ago
        os.utime(trace, (when, when), follow_symlinks=False)

    def test_a_daemon_that_was_killed_is_waited_for(self):
        self.killed()
        with self.assertLogs("berth") as told:
            pauses = self.pauses(ConnectionRefusedError(111, "Connection refused"))
        self.assertEqual(pauses[:6], [0.05, 0.1, 0.2, 0.4, 0.8, 1.0])
        self.assertTrue(10 <= sum(pauses) < 11, pauses)
        self.assertEqual(len(told.output), 1)
        self.assertIn("Connection refused); ; waiting for it", told.output[0])

    def test_one_that_has_just_gone_is_waited_for(self):
        self.stopped()
        with self.assertLogs("berth"):
            self.assertTrue(self.pauses(FileNotFoundError()))

    def refused(self, refusal, first=None):
        """Returns the queries and the times of a request that waits and is always refused, and what
        was told."""
        request, asked = Request("POST", "/api/leases", {"timeout_seconds": 30}), []
        clock = [0.0]
        with mock.patch("berth.enduring.time.monotonic", lambda: clock[0]), self.assertLogs("berth") as told:
            call = persisting.persisting(request)
            step = next(call)
            with self.assertRaises(berth.Broken if first else berth.Problem):
                while True:
                    if isinstance(step, Request):
                        asked.append((step.query, clock[0]))
                        step = call.throw(refusal if asked[1:] else first or refusal)
                    else:
                        clock[0] += step
                        step = call.send(None)
        return [query for query, _ in asked], [at for _, at in asked], told.output

    def test_one_with_too_many_connections_is_asked_again(self):
        full = berth.Problem({"code": "too_many_connections", "detail": "You have too many."}, 503)
        queries, asked, told = self.refused(full)
        self.assertTrue(30 <= asked[-1] <= 31 and len(asked) < 45, asked)
        self.assertEqual(told, ["WARNING:berth:You have too many.; asking again"])
        self.assertFalse(any(queries), "it has read nothing, and is asked as if it had")

    def test_a_refusal_does_not_hide_that_an_earlier_answer_was_lost(self):
        full = berth.Problem({"code": "too_many_connections", "detail": "You have too many."}, 503)
        queries, asked, told = self.refused(full, first=berth.Broken("POST /api/leases", OSError("it dies")))
        self.assertTrue(30 <= asked[-1] <= 31, asked)
        self.assertEqual(queries, [None] + [{"repeated": "true"}] * (len(asked) - 1))
        self.assertIn("the daemon went away", told[0])

    def test_a_refusal_before_the_request_is_heard(self):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path)
            listener.listen()

            client = berth.Client(socket=self.path)
            connect = client._connect

            def connected(timeout):
                connection = connect(timeout)
                taken, _ = listener.accept()
                with taken:
                    taken.sendall(b'HTTP/1.1 503 \r\nContent-Type: application/problem+json\r\n\r\n{"code":"too_many_connections"}')
                return connection

            with mock.patch.object(client, "_connect", connected), self.assertRaises(berth.Problem) as refused:
                client.call("POST", "/api/jobs", {"command": ["x" * 1_000_000]})
        self.assertTrue(enduring.turned_away(refused.exception))

    def test_a_refusal_of_a_request_that_nobody_reads_is_heard(self):
        """Once the request is written, a reset follows the refusal, which says its length."""
        full = b'{"code":"too_many_connections"}'
        head = b"HTTP/1.1 503 \r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n" % len(full)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path)
            listener.listen()

            def refuse():
                taken, _ = listener.accept()
                with taken:
                    select.select([taken], [], [])
                    taken.sendall(head + full)

            refusing = threading.Thread(target=refuse)
            refusing.start()
            self.addCleanup(refusing.join)
            with self.assertRaises(berth.Problem) as refused:
                berth.Client(socket=self.path).call("POST", "/api/jobs", {"command": ["x"]})
        self.assertTrue(enduring.turned_away(refused.exception))

    def test_a_machine_without_a_daemon_is_told_at_once(self):
        self.assertEqual(self.pauses(FileNotFoundError()), [])
        self.stopped(ago=2 * enduring.REPLACED)
        self.assertEqual(self.pauses(FileNotFoundError()), [])

    def test_a_socket_from_before_the_machine_started_is_nobodys(self):
        self.killed()
        os.utime(self.path, (1, 1))
        self.assertEqual(self.pauses(ConnectionRefusedError()), [])

    def test_what_time_does_not_mend_is_told_at_once(self):
        self.killed(), self.stopped()
        self.assertEqual(self.pauses(PermissionError()), [])
        self.assertEqual(self.pauses(ConnectionRefusedError(), client=berth.Client(url="http://h:1")), [])

    def test_how_long(self):
        self.killed()
        for said, limit, want in (
            ("3", float("inf"), 3), ("3", 1, 1), ("20", float("inf"), 20), ("3", 0, 0),
            ("0", float("inf"), 10), ("-1", float("inf"), 10), ("2.5", float("inf"), 10), ("soon", float("inf"), 10),
        ):  # fmt: skip
            with self.subTest(said=said, limit=limit), mock.patch.dict(os.environ, {"BERTH_PATIENCE": said}):
                with mock.patch("berth.enduring.LOG"):
                    waited = sum(self.pauses(ConnectionRefusedError(), limit))
                self.assertTrue(want <= waited <= want + enduring.LONGEST, waited)


class Replaced(DaemonCase):
    """A daemon that is killed before each call, and started when the call has met none."""

    def setUp(self):
        patch = mock.patch.dict(os.environ, {"BERTH_PATIENCE": str(PATIENCE)})
        patch.start()
        self.addCleanup(patch.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def replaced(self, call):
        """Returns what a call returns that begins while there is no daemon."""
        met = threading.Event()

        def meets(why, looks=enduring.replaced):
            met.set()
            return looks(why)

        def start():
            self.assertTrue(met.wait(PATIENCE))
            self.daemon.start()

        self.daemon.kill()
        starter = threading.Thread(target=start)
        with mock.patch("berth.enduring.replaced", meets):
            starter.start()
            try:
                return call()
            finally:
                met.set()
                starter.join()

    def submitted(self):
        return {"command": ["true"], "memory": 64, "directory": self.folder, "output": os.path.join(self.folder, "log")}

    def test_submit(self):
        before = {job.id for job in berth.jobs()}
        job = self.replaced(lambda: berth.submit(**self.submitted()))
        self.assertEqual({job.id for job in berth.jobs()} - before, {job.id})
        self.assertEqual(job.wait(PATIENCE), 0)

        async def awaited():
            job = await berth.aio.submit(**self.submitted())
            return job.id

        found = self.replaced(lambda: asyncio.run(awaited()))
        self.assertEqual({job.id for job in berth.jobs()} - before, {job.id, found})

    def test_wait(self):
        job = berth.submit(**self.submitted())
        self.assertEqual(self.replaced(lambda: job.wait(PATIENCE)), 0)

    def test_allocate(self):
        granted = self.replaced(lambda: berth.allocate("model", "1GiB"))
        self.assertEqual([lease["id"] for lease in self.daemon.leases()["leases"]], [granted.id])
        berth.release(granted.id)

    def test_lease(self):
        gpu = self.replaced(berth.lease("1GiB").acquire)
        self.assertEqual([lease["id"] for lease in self.daemon.leases()["leases"]], [gpu.id])
        gpu.release()

        async def awaited():
            async with berth.aio.lease("1GiB") as gpu:
                return gpu.id, [lease["id"] for lease in self.daemon.leases()["leases"]]

        id, held = self.replaced(lambda: asyncio.run(awaited()))
        self.assertEqual(held, [id])

    def test_what_only_looks_is_told_at_once(self):
        self.daemon.kill()
        self.addCleanup(self.daemon.start)
        with mock.patch("berth.asking.time.sleep") as slept:
            self.assertFalse(berth.is_available())
            with self.assertRaises(berth.NoDaemon):
                berth.status()
            with self.assertRaises(berth.NoDaemon):
                berth.find_job("job-1")
        self.assertEqual(slept.call_count, 0)


if __name__ == "__main__":
    unittest.main()
