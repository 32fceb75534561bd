"""The calls with await, against a live daemon and against broken ones."""

import asyncio
import inspect
import os
import threading
import unittest
from unittest import mock

import berth
from berth.aio import transport

from . import PATIENCE
from .daemon import Daemon, DaemonCase
from .doors import Door, problem
from .test_subscriptions import HOT


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE))


class Calls(DaemonCase):
    def test_the_same_answers(self):
        async def ask():
            self.assertEqual(await berth.aio.devices(), berth.devices())
            self.assertEqual((await berth.aio.status(2)).device.index, 2)
            self.assertEqual(await berth.aio.config.get(), berth.config.get())
            self.assertTrue((await berth.aio.monitoring.start()).running)
            self.assertEqual(await berth.aio.services.all(), [])
            self.assertGreater(len(await berth.aio.metrics()), 3)

        run(ask())

    def test_every_call_has_its_twin(self):
        for name in berth.aio.__all__:
            here, there = getattr(berth.aio, name), getattr(berth, name)
            if inspect.iscoroutinefunction(here) and name != "on":
                self.assertEqual(inspect.signature(here), inspect.signature(there), name)
        calls = [n for n in berth.__all__ if hasattr(berth.calls, n) and callable(getattr(berth, n)) and n not in ("BerthError", "Client")]
        self.assertGreater(len(calls), 20)
        self.assertEqual(set(calls) - set(berth.aio.__all__), set())
        for name in ("config", "monitoring", "services"):
            self.assertEqual(getattr(berth.aio, name).__all__, getattr(berth, name).__all__)

    def test_refusals(self):
        async def ask():
            with self.assertRaises(berth.Problem) as caught:
                await berth.aio.allocate("too-much", "900GiB")
            self.assertEqual(caught.exception.code, "insufficient_memory")
            with self.assertRaises(berth.NoDaemon) as missing:
                await berth.aio.status(client=berth.Client(socket="/nowhere/berth.sock"))
            self.assertIn("start one: berth serve", str(missing.exception))
            with self.assertRaisesRegex(berth.NoDaemon, "127.0.0.1:1: .*check the address"):
                await berth.aio.status(client=berth.Client(url="127.0.0.1:1"))

        run(ask())

    def test_many_wait_at_a_time(self):
        """More tasks wait than there are threads in the pool of a loop."""

        async def work(number):
            async with berth.aio.lease(memory=100000, gpu=1, timeout=PATIENCE) as gpu:
                self.assertIs(berth.current(), gpu)
                return gpu.fence

        async def all_of_them():
            return await asyncio.gather(*(work(number) for number in range(48)))

        fences = run(all_of_them())
        self.assertEqual(len(set(fences)), 48)
        self.assertEqual(self.daemon.leases()["leases"], [])
        self.assertIsNone(berth.current())


class Leases(DaemonCase):
    def test_the_loop_does_not_wait_for_what_a_lease_knows(self):
        """A daemon may be slow: nothing that is not awaited asks it."""

        async def hold():
            for pin in (False, True):
                refuse = mock.patch.object(berth.Client, "call", side_effect=AssertionError("the loop asks"))
                with mock.patch.dict(os.environ), refuse:
                    async with berth.aio.lease(memory="1GiB", pin=pin) as gpu:
                        self.assertEqual(gpu.environ()["BERTH_LEASE"], gpu.id)
                        self.assertEqual(gpu.env["CUDA_VISIBLE_DEVICES"], gpu.uuid)
                        await gpu.resize("2GiB")

        run(hold())

    def test_a_child_of_a_fork_gives_nothing_back(self):
        async def hold():
            async with berth.aio.lease(memory=512) as gpu:
                pid = os.fork()
                if pid == 0:
                    try:
                        gpu.__aexit__(None, None, None).send(None)  # it ends without asking anybody
                    except StopIteration:
                        os._exit(0)
                    finally:
                        os._exit(1)
                self.assertEqual(os.waitpid(pid, 0)[1], 0)
                self.assertEqual(len(self.daemon.leases()["leases"]), 1)

        run(hold())

    def test_lease(self):
        async def hold():
            async with berth.aio.lease(memory="1GiB", name="async") as gpu:
                self.assertEqual(gpu.memory_mb, 1024)
                (seen,) = (await berth.aio.leases()).leases
                self.assertEqual((seen.holder.pid, seen.holder.name), (os.getpid(), "async"))
                self.assertEqual(gpu.env["BERTH_LEASE"], gpu.id)
            self.assertFalse(gpu.held)
            self.assertEqual((await berth.aio.leases()).leases, [])
            with self.assertRaises(ValueError):
                async with gpu:
                    raise ValueError
            self.assertEqual((await berth.aio.leases()).leases, [])

        run(hold())

    def test_pool(self):
        async def hold():
            async with berth.aio.pool("2GiB", name="render") as pool:
                async with pool.lease("1536MiB") as gpu:
                    self.assertEqual((gpu.memory_mb, await pool.left_mb), (1536, 512))
                async with berth.aio.lease("2GiB", pool="render"):
                    self.assertEqual(await pool.left_mb, 0)
            self.assertEqual((await berth.aio.leases()).leases, [])

        run(hold())

    def test_functions(self):
        """Coroutine functions await leases of their own, and plain ones take them."""
        for lease in (berth.lease, berth.aio.lease):

            @lease(memory=100000, gpu=1, timeout=PATIENCE)
            async def work(number):
                self.assertIs(type(berth.current()), berth.aio.Lease)
                await asyncio.sleep(0)  # the others wait meanwhile, and the loop does not
                return berth.current().id, number

            @lease(memory="16MiB")
            def plain():
                return berth.current().id

            async def all_of_them():
                return await asyncio.gather(*(work(number) for number in range(8)))

            answers = run(all_of_them())
            self.assertEqual([number for _, number in answers], list(range(8)))
            self.assertEqual(len({id for id, _ in answers}), 8)
            self.assertTrue(inspect.iscoroutinefunction(work))
            self.assertTrue(plain().startswith("plain-"))
            self.assertEqual(self.daemon.leases()["leases"], [])

    def test_a_task_that_is_cancelled_while_it_waits(self):
        async def wait():
            async with berth.aio.lease(memory=100000, gpu=2):
                task = asyncio.create_task(berth.aio.lease(memory=100000, gpu=2, timeout=PATIENCE).__aenter__())
                while not (await berth.aio.leases()).waiting:
                    await asyncio.sleep(0.01)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task

        run(wait())
        self.wait_until(lambda: not self.daemon.leases()["waiting"], "its request is withdrawn")
        self.wait_until(lambda: not self.daemon.leases()["leases"], "nothing is held")

    def test_two_tasks_cannot_hold_one(self):
        async def use():
            gpu = berth.aio.lease(memory="64MiB")

            async def hold():
                async with gpu:
                    return len(self.daemon.leases()["leases"])

            return await asyncio.gather(hold(), hold(), return_exceptions=True)

        first, second = run(use())
        self.assertEqual((first, type(second)), (1, RuntimeError))
        self.assertEqual(self.daemon.leases()["leases"], [])

    def test_on_stop(self):
        async def hold():
            stopped = asyncio.get_running_loop().create_future()

            async def stop(event):
                await asyncio.sleep(0)
                stopped.set_result((event, threading.current_thread()))

            wanted = berth.aio.lease(memory="16MiB", gpu=3)
            wanted.on_stop(stop)
            async with wanted as gpu:
                await berth.aio.config.set(devices={gpu.uuid: HOT})
                event, thread = await stopped
                self.assertEqual((event.code, event.lease), ("lease_stop", gpu.id))
                self.assertIs(thread, threading.current_thread())
                self.assertTrue(gpu.stop_requested)
                await berth.aio.config.set(devices={gpu.uuid: None})

        run(hold())


class Events(DaemonCase):
    def test_on(self):
        async def listen():
            heard, plain = asyncio.Queue(), asyncio.Queue()

            async def hear(event):
                await heard.put(event)
                raise ValueError("on purpose")

            async def never(event):
                await asyncio.Event().wait()

            await berth.aio.on("monitoring", never)
            await berth.aio.on("monitoring", hear)
            subscription = await berth.aio.on("monitoring", plain.put_nowait)
            with self.assertLogs("berth", "ERROR") as logged:
                await berth.aio.monitoring.stop()
                await berth.aio.monitoring.start()
                self.assertEqual([(await heard.get()).code for _ in range(2)], ["monitoring"] * 2)
                self.assertEqual([(await plain.get()).data["running"] for _ in range(2)], [False, True])
            self.assertIn("on purpose", logged.output[0])
            self.assertTrue(berth.aio.off(hear))
            self.assertTrue(berth.aio.off(subscription))
            with self.assertRaises(berth.Problem):
                await berth.aio.on("monitring", hear)
            berth.aio.off(never)

        run(listen())

    def test_events_survive_a_restart(self):
        async def switch():
            await berth.aio.monitoring.stop()
            await berth.aio.monitoring.start()

        async def listen():
            await switch()
            found = []
            async for event in berth.aio.events("monitoring"):
                if event.code == "gap":  # of the restart
                    continue
                found.append(event.data["running"])
                if len(found) == 2:
                    await asyncio.to_thread(self.daemon.kill)
                    await asyncio.to_thread(self.daemon.start)
                    await switch()
                if len(found) == 4:
                    return found

        self.assertEqual(run(listen()), [False, True, False, True])

    def test_what_is_kept(self):
        async def kept():
            async with berth.aio.lease(memory="16MiB") as gpu:
                return [event.code async for event in berth.aio.events(lease=gpu, follow=False)]

        self.assertEqual(run(kept()), ["lease_granted"])


class OverTCP(unittest.TestCase):
    def test_the_same_over_tcp(self):
        daemon = Daemon("sim:1", "daemon: {token: something-long-and-random-enough}", listen="127.0.0.1:0")
        self.addCleanup(daemon.close)
        address = daemon.address()
        client = berth.Client(url=address, token="something-long-and-random-enough")

        async def ask():
            async with berth.aio.lease(memory="16MiB", client=client) as gpu:
                self.assertEqual(gpu.document["binding"], "ttl")
            return await berth.aio.devices(client=client)

        self.assertEqual(run(ask()), berth.devices(client=client))


class Answers(unittest.TestCase):
    def ask(self, answer):
        with Door(answer) as door:
            return run(berth.aio.status(client=berth.Client(socket=door.path)))

    def test_an_answer_that_breaks_off(self):
        with self.assertRaisesRegex(berth.Broken, "GET /api/gpu/status: the connection to the daemon broke"):
            self.ask(lambda *_: 1 / 0)
        with self.assertRaises(berth.Broken):
            self.ask(lambda *_: (200, lambda out: out.write(b'{"state": ')))

    def test_something_else_listens(self):
        with self.assertRaisesRegex(berth.BerthError, "is not from a berth daemon"):
            self.ask(lambda *_: (404, lambda out: out.write(b"<html>")))

    def test_a_problem(self):
        with self.assertRaises(berth.Problem):
            self.ask(lambda *_: problem(401, "unauthorized", "Show the token."))

    def test_no_content(self):
        async def ask(path):
            return await transport.send(berth.client.Request("POST", "/x", {}, client=berth.Client(socket=path)))

        with Door(lambda *_: (204, None)) as door:
            self.assertIsNone(run(ask(door.path)))

    def test_a_lease_whose_release_fails_is_given_back_later(self):
        answers = [problem(429, "no_turn", "Later."), problem(503, "journal", "Later.")]
        granted = {"id": "x", "fence": 7, "binding": "process", "parts": [{"gpu": "G", "memory_mb": 1, "slots": 1}]}
        released = threading.Event()

        def answer(method, path, body):
            if method == "POST":
                return 201, granted
            if method == "GET":
                return problem(429, "no_turn", "Later.")
            if answers:
                return answers.pop()
            released.set()
            return 200, {}

        async def hold(path):
            async with berth.aio.lease(memory="1MiB", client=berth.Client(socket=path)):
                pass

        with Door(answer) as door:
            run(hold(door.path))
            self.assertTrue(released.wait(PATIENCE))
