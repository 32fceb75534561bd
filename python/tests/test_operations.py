import asyncio
import logging
import os
import re
import subprocess
import sys
import threading
import unittest
import unittest.mock

import berth
from berth import operations

from . import PATIENCE
from .daemon import DaemonCase
from .doors import Door, problem

PATH = "/api/services/embedder/operations"


class Reporting(unittest.TestCase):
    def setUp(self):
        self.refusal = None
        self.arrived = threading.Event()
        self.door = Door(self.answer).__enter__()
        self.addCleanup(self.door.__exit__)
        self.client = berth.Client(socket=self.door.path)
        quick = unittest.mock.patch.multiple(operations, INTERVAL=0.01, PATIENCE=0.02)
        quick.start()
        self.addCleanup(quick.stop)
        operations._forget()  # the thread of the last test had another door
        self.addCleanup(operations._forget)

    def answer(self, method, path, body):
        self.arrived.set()
        return self.refusal or (200, {"service": "embedder", "count": 1})

    def reported(self):
        """Sends what is pending and returns all reports so far."""
        self.assertTrue(operations._REPORTER.flush(PATIENCE))
        return [(path, body) for _, path, body, _ in self.door.calls]

    def counted(self):
        return sum(body.get("count", 0) + len(body.get("latencies", [])) for _, body in self.reported())

    def operation(self, **more):
        return berth.operation(service="embedder", client=self.client, **more)

    def test_by_itself(self):
        with self.operation(gpu=0):
            pass
        self.assertTrue(self.arrived.wait(PATIENCE))
        path, body = self.reported()[0]
        self.assertEqual(path, PATH)
        self.assertEqual(body["gpu"], "0")
        self.assertEqual(len(body["latencies"]), 1)
        self.assertGreaterEqual(body["latencies"][0], 0)

    def test_counts(self):
        with self.operation(count=3):
            pass
        with self.operation() as several:
            several.count = 4
        with self.operation(count=0):
            pass
        self.assertEqual(self.counted(), 7)

    def test_a_block_that_raises_does_not_count(self):
        with self.assertRaises(KeyError), self.operation():
            raise KeyError("x")
        self.assertEqual(self.counted(), 0)

    def test_decorator(self):
        @self.operation()
        def square(n):
            return n * n if n == 0 else square(n - 1) + n

        threads = [threading.Thread(target=square, args=(4,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.counted(), 15)

    def test_async_functions_are_refused(self):
        with self.assertRaises(TypeError):

            @self.operation()
            async def answer():
                pass

        async def works():
            with self.operation():
                await asyncio.sleep(0)

        asyncio.run(works())
        self.assertEqual(self.counted(), 1)

    def test_many_operations_become_an_average(self):
        waits = operations.Pending()
        for _ in range(30):
            waits.add(1000, 0.5)
        first, second = waits.reports()
        self.assertEqual(len(first["latencies"]), 10_000)
        self.assertEqual(second, {"count": 20_000, "seconds": 10_000.0})

    def test_a_refusal_is_logged_once(self):
        self.refusal = problem(403, "user_not_allowed", "No.")
        with self.assertLogs("berth", logging.WARNING) as logs:
            for _ in range(3):
                with self.operation():
                    pass
                self.reported()
        self.assertEqual(len(logs.output), 1)
        self.refusal = None
        before = len(self.door.calls)
        self.reported()
        self.assertEqual(len(self.door.calls), before)  # what was refused is dropped

    def test_bad_counts(self):
        with self.assertRaises(ValueError):
            berth.operation(count=-1)

    def test_without_a_daemon(self):
        gone = berth.Client(socket=self.door.path + ".gone")
        with berth.operation(service="embedder", client=gone):
            pass
        self.assertFalse(operations._REPORTER.flush(1))
        os.symlink(self.door.path, self.door.path + ".gone")  # here it comes
        self.addCleanup(os.unlink, self.door.path + ".gone")
        self.assertEqual(self.counted(), 1)

    def test_without_a_service(self):
        with self.assertLogs("berth", logging.WARNING) as logs:
            with berth.operation(client=self.client):
                pass
            self.assertEqual(self.reported(), [])
        self.assertIn("name it", logs.output[0])

    def test_the_device_of_a_lease_that_has_ended(self):
        for gpus in (["G-1"], ["G-1", "G-2"]):
            parts = [{"gpu": gpu, "memory_mb": 64, "slots": 1} for gpu in gpus]
            self.refusal = 201, {"id": "x", "fence": 7, "binding": "process", "holder": {"service": "embedder"}, "parts": parts}
            with berth.lease(memory=64, client=self.client), berth.operation(client=self.client):
                pass
            (*_, body) = [body for path, body in self.reported() if path == PATH]
            self.assertEqual(body.get("gpu"), "G-1" if len(gpus) == 1 else None)


class WithADaemon(DaemonCase):
    devices = "sim:2"
    configuration = "services:\n  embedder: {max_memory_mb: 8192}\n"

    def total(self, service):
        """What the metrics say that a service has done, by device."""
        connection = self.daemon.client._connect(10)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        found = re.findall(r'^gpu_throughput_ops_total\{.*index="(\d*)".*service="%s"\} (\d+)' % service, text, re.M)
        return dict(found)

    def test_program_under_a_lease(self):
        code = "import berth\nfor _ in range(5):\n    with berth.operation(): pass\n"
        with berth.lease(memory="1GiB", service="embedder", gpu=1, client=self.daemon.client) as held:
            env = dict(held.environ(), PYTHONPATH=os.path.dirname(os.path.dirname(berth.__file__)))
            done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=2 * PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.total("embedder"), {"1": "5"})  # the end of the program sent it

    def test_leases_that_have_ended(self):
        operations._forget()
        self.addCleanup(operations._forget)
        with berth.lease(memory="1GiB", service="short"), berth.operation(count=3):
            pass
        with berth.lease(memory="1GiB", service="later"):
            self.assertTrue(operations._REPORTER.flush(PATIENCE))
        self.assertEqual((sum(map(int, self.total("short").values())), self.total("later")), (3, {}))

    def test_too_much_is_refused(self):
        with self.assertRaises(berth.Problem) as refused:
            self.daemon.client.call("POST", PATH, {"count": 1_000_000_000_000})
        self.assertEqual(refused.exception.code, "invalid_request")
