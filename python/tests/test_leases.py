"""Leases against a live daemon, and against one that goes away."""

import asyncio
import contextvars
import json
import os
import signal
import subprocess
import sys
import threading
import unittest
from unittest import mock
from unittest.mock import DEFAULT

import berth
import berth.aio
from berth import leasing, subscriptions

from . import PATIENCE
from .daemon import DaemonCase
from .doors import Door, problem

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def child(code):
    """A program that prints a line, holding something, and waits for its end."""
    return subprocess.Popen(
        [sys.executable, "-c", "import berth, os, sys\n" + code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])),
    )  # fmt: skip


class Life(DaemonCase):
    def ids(self):
        return {lease["id"] for lease in self.daemon.leases()["leases"]}

    def test_with(self):
        with berth.lease(memory="4GiB", name="embed") as gpu:
            self.assertTrue(gpu.held)
            self.assertEqual((gpu.memory_mb, gpu.slots, len(gpu.uuids)), (4096, 1, 1))
            self.assertGreater(gpu.fence, 0)
            self.assertIs(berth.current(), gpu)
            (seen,) = [x for x in self.daemon.leases()["leases"] if x["id"] == gpu.id]
            self.assertEqual((seen["binding"], seen["holder"]["pid"]), ("process", os.getpid()))
            self.assertEqual(seen["holder"]["name"], "embed")
            self.assertIn(gpu.id, repr(gpu))
        self.assertFalse(gpu.held)
        self.assertNotIn(seen["id"], self.ids())
        self.assertIsNone(berth.current())
        with self.assertRaisesRegex(RuntimeError, "not held"):
            gpu.uuid

    def test_a_signal_handler_may_release(self):
        """Also while the lease is asked for, which the handler interrupts."""
        gpu = berth.lease(memory=512)

        def leave(*_):
            gpu.release()
            raise InterruptedError

        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, leave))
        with mock.patch.object(leasing.Lease, "_ask", lambda *_: signal.raise_signal(signal.SIGUSR1)):
            with self.assertRaises(InterruptedError):
                gpu.acquire()
        self.assertFalse(gpu.held)
        with self.assertRaisesRegex(RuntimeError, "held already"), mock.patch.object(leasing.Lease, "_ask", lambda *_: gpu.acquire()):
            gpu.acquire()
        with gpu:
            self.assertTrue(gpu.held)

    def test_a_signal_handler_may_release_wherever_it_comes(self):
        """The handler runs in the thread that it interrupts, which may hold any of these."""
        done = []

        def leave():
            with berth.lease(memory=512) as gpu:
                gpu.on_stop(lambda _: None)
                gpu.on_park(lambda _: None)
                listener = subscriptions._listener(gpu._client)
                with gpu._stops._lock, gpu._parks._lock, subscriptions._LOCK, listener._lock, gpu._stop._lock:
                    gpu.release()
            done.append(True)

        thread = threading.Thread(target=leave, daemon=True)  # in vain, it would wait for ever
        thread.start()
        thread.join(PATIENCE)
        self.assertTrue(done)

    def test_several_devices(self):
        with berth.lease(memory=512, gpus=3) as gpus:
            self.assertEqual(len(set(gpus.uuids)), 3)
            self.assertEqual(gpus.uuid, gpus.uuids[0])

    def test_a_device_alone(self):
        with berth.lease(exclusive=True, gpu=1) as gpu:
            self.assertGreater(gpu.memory_mb, 4096)
            (seen,) = [x for x in self.daemon.leases()["leases"] if x["id"] == gpu.id]
            self.assertTrue(seen["exclusive"])
            with self.assertRaises(berth.Problem):
                berth.lease(memory="1MiB", gpu=1, timeout=0).acquire()

    def test_pool(self):
        with berth.pool("4GiB", name="render", gpu=0) as pool:
            self.assertEqual((pool.id, pool.memory_mb, pool.left_mb), ("render", 4096, 4096))
            with pool.lease("3GiB", name="frame") as gpu:
                (seen,) = [x for x in self.daemon.leases()["leases"] if x["id"] == gpu.id]
                self.assertEqual((seen["from_pool"], seen["parts"][0]["slots"]), ("render", 0))
                self.assertEqual(pool.left_mb, 1024)
                with self.assertRaises(berth.Problem) as refused, berth.lease("2GiB", pool="render", timeout=60):
                    pass
                self.assertEqual(refused.exception.code, "pool_full")
                with berth.lease("1GiB", pool=pool):
                    self.assertEqual(pool.left_mb, 0)
            self.assertEqual(pool.left_mb, 4096)
            kept = pool.lease("2GiB").acquire()
        self.assertEqual(self.ids() & {"render", kept.id}, {kept.id})  # it keeps what it has
        kept.release()
        with self.assertRaisesRegex(RuntimeError, "not held"):
            pool.lease("1GiB")
        with self.assertRaises(berth.Problem), berth.lease("1GiB", pool="render"):
            pass

    def test_pool_ends_when_the_process_is_killed(self):
        program = child("pool = berth.pool('4GiB', name='doomed').acquire(); print(pool.id, flush=True); sys.stdin.read()")
        with program:
            self.assertEqual(program.stdout.readline().strip(), "doomed")
            with berth.lease("1GiB", pool="doomed") as gpu:
                program.kill()
                self.wait_until(lambda: "doomed" not in self.ids(), "the pool of a killed process ends")
                self.assertIn(gpu.id, self.ids())

    def test_one_device_and_no_other(self):
        uuid = self.daemon.client.call("GET", "/api/gpu/status/all")["gpus"][2]["device"]["uuid"]
        for wish in (2, "2", uuid):
            with berth.lease(memory="1MiB", gpu=wish) as gpu:
                self.assertEqual(gpu.uuid, uuid)

    def test_released_whatever_happens(self):
        for error in (ValueError, KeyboardInterrupt, SystemExit):
            with self.assertRaises(error), berth.lease(memory=256) as gpu:
                held = gpu.id
                raise error
            self.assertNotIn(held, self.ids())

    def test_released_when_the_process_is_killed(self):
        program = child("gpu = berth.lease(memory=1024).acquire(); print(gpu.id, flush=True); sys.stdin.read()")
        with program:
            held = program.stdout.readline().strip()
            self.assertIn(held, self.ids())
            program.kill()
        self.wait_until(lambda: held not in self.ids(), "the lease of a killed process ends")

    def test_a_forked_child_does_not_release(self):
        program = child(
            "with berth.lease(memory=1024) as gpu:\n"
            "    if os.fork() == 0:\n"
            "        gpu.release()\n"
            "        assert berth.current() is None\n"
            "        with berth.lease(memory='16MiB') as own: pass\n"
            "        os._exit(0)\n"
            "    assert os.wait()[1] == 0\n"
            "    print(gpu.id, flush=True)\n"
            "    sys.stdin.read()\n"
        )
        with program:
            held = program.stdout.readline().strip()
            self.assertIn(held, self.ids())
            program.stdin.close()
        self.assertEqual(program.returncode, 0)
        self.assertNotIn(held, self.ids())

    def test_refused(self):
        with self.assertRaises(berth.Problem) as caught:
            berth.lease(memory="900GiB", timeout=0).acquire()
        self.assertEqual(caught.exception.code, "insufficient_memory")
        with self.assertRaises(berth.Problem) as caught:
            berth.lease(memory="1MiB", policy="best").acquire()
        self.assertEqual(caught.exception.code, "invalid_request")
        self.assertTrue(caught.exception.fields)

    def test_waits_for_its_turn(self):
        total = self.daemon.client.call("GET", "/api/gpu/memory/available")["gpus"][3]["available_mb"]
        with berth.lease(memory=total, gpu=3) as first:
            second = berth.lease(memory=total, gpu=3, timeout=PATIENCE)
            waiter = threading.Thread(target=second.acquire)
            waiter.start()
            self.wait_until(lambda: self.daemon.leases()["waiting"], "the second waits")
            fence = first.fence
        waiter.join(PATIENCE)
        self.assertTrue(second.held)
        self.assertGreater(second.fence, fence)
        second.release()

    def test_many_threads(self):
        failures = []

        def work():
            try:
                for _ in range(5):
                    with berth.lease(memory=64, slots=0, timeout=PATIENCE):
                        pass
            except Exception as why:
                failures.append(why)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(self.ids(), set())
        self.assertIsNone(berth.current())

    def test_held_once(self):
        wanted = berth.lease(memory=64)
        with wanted:
            with self.assertRaisesRegex(RuntimeError, "held already"):
                wanted.acquire()
        wanted.release()  # nothing happens
        with wanted:
            self.assertTrue(wanted.held)

    def test_ttl(self):
        with berth.lease(memory=64, ttl=60) as gpu:
            (seen,) = [x for x in self.daemon.leases()["leases"] if x["id"] == gpu.id]
            self.assertEqual((seen["binding"], seen["ttl_seconds"]), ("ttl", 60))
            self.assertEqual(gpu.lost, "")

    @mock.patch("berth.leasing.RENEWALS", 600)
    def test_ttl_is_renewed(self):
        with berth.lease(memory=64, ttl=60) as gpu:
            began = self.daemon.client.call("GET", "/api/leases/" + gpu.id)["expires"]
            self.wait_until(
                lambda: self.daemon.client.call("GET", "/api/leases/" + gpu.id)["expires"] > began, "it is renewed"
            )

    @mock.patch("berth.leasing.RENEWALS", 600)
    def test_ttl_that_is_taken_away_is_lost(self):
        with berth.lease(memory=64, ttl=60) as gpu:
            self.daemon.client.call("DELETE", "/api/leases/" + gpu.id)
            self.wait_until(lambda: gpu.lost, "the loss is noticed")

    def test_environ(self):
        with berth.lease(memory="4GiB", gpus=2) as gpu:
            env = gpu.environ({"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "7"})
            total = self.daemon.client.call("GET", "/api/gpu/status", query={"gpu": gpu.uuid})["device"]
            self.assertEqual(env["PATH"], "/bin")
            self.assertEqual(env["CUDA_VISIBLE_DEVICES"], ",".join(gpu.uuids))
            self.assertEqual(env["CUDA_DEVICE_ORDER"], "PCI_BUS_ID")
            context = self.daemon.client.call("GET", "/api/gpu/config")["context_mb"]
            self.assertGreater(context, 0)
            self.assertEqual(env["CUPY_GPU_MEMORY_LIMIT"], str((4096 - context) << 20))
            self.assertAlmostEqual(
                float(env["XLA_PYTHON_CLIENT_MEM_FRACTION"]), (4096 - context) / total["memory_total_mb"], places=5
            )
            self.assertEqual((env["BERTH_LEASE"], env["BERTH_MEMORY_MB"]), (gpu.id, "4096"))
            self.assertEqual(env["BERTH_CONTEXT_MB"], str(context))
            code = "g = berth.current(); print(g.id, g.uuid, g.memory_mb)"
            with mock.patch.dict(os.environ, gpu.env):
                program = child(code)
            with program:
                self.assertEqual(program.stdout.read().split(), [gpu.id, gpu.uuid, "4096"])

    def test_a_slot_only_sets_no_limits(self):
        with berth.lease() as gpu:
            self.assertEqual(gpu.memory_mb, 0)
            self.assertNotIn("CUPY_GPU_MEMORY_LIMIT", gpu.env)

    def test_pin(self):
        program = child(
            "with berth.lease(memory=512, pin=True) as gpu:\n"
            "    assert os.environ['CUDA_VISIBLE_DEVICES'] == gpu.uuid\n"
            "    print(berth.visible.local_index(gpu.uuid))\n"
            "assert 'CUDA_VISIBLE_DEVICES' not in os.environ\n"
        )
        with program:
            self.assertEqual(program.stdout.read().strip(), "0")
        self.assertEqual(program.returncode, 0)
        with mock.patch("berth.leasing.cuda_started", return_value=True):
            with self.assertRaisesRegex(RuntimeError, "pin comes too late"):
                berth.lease(pin=True).acquire()
        self.assertEqual(self.ids(), set())

    def test_a_signal_while_waiting_leaves_nothing_behind(self):
        total = self.daemon.client.call("GET", "/api/gpu/memory/available")["gpus"][0]["available_mb"]
        with berth.lease(memory=total, gpu=0):
            program = child(
                "try:\n"
                "    berth.lease(memory=%d, gpu=0, timeout=600).acquire()\n"
                "except KeyboardInterrupt:\n"
                "    print('interrupted', flush=True)\n" % total
            )
            with program:
                self.wait_until(lambda: self.daemon.leases()["waiting"], "the child waits")
                program.send_signal(signal.SIGINT)
                self.assertEqual(program.stdout.read().strip(), "interrupted")
            self.wait_until(lambda: not self.daemon.leases()["waiting"], "its request is withdrawn")

    def test_amounts(self):
        for wrong in ("4 apples", "-1", -1, "1.0001M", True, None):
            with self.subTest(wrong), self.assertRaises(ValueError):
                berth.lease(memory=wrong)


class Functions(DaemonCase):
    """Functions whose calls take leases."""

    def held(self):
        return {lease["id"]: lease for lease in self.daemon.leases()["leases"]}

    def test_each_call_takes_a_lease_of_its_own(self):
        seen = []

        @berth.lease("1GiB")
        def embed(number, *, twice=False):
            """Embeds."""
            gpu = berth.current()
            seen.append((gpu.id, gpu.memory_mb, self.held()[gpu.id]["holder"]["name"]))
            if number < 0:
                raise ValueError(number)
            return 2 * number if twice else number

        self.assertEqual((embed.__name__, embed.__doc__), ("embed", "Embeds."))
        self.assertEqual((self.held(), embed(1), embed(2, twice=True)), ({}, 1, 4))
        with self.assertRaises(ValueError):
            embed(-1)
        self.assertEqual(self.held(), {})
        self.assertEqual(len({id for id, _, _ in seen}), 3)
        self.assertEqual({what[1:] for what in seen}, {(1024, "embed")})

    def test_calls_at_the_same_time(self):
        together = threading.Barrier(4)
        ids = []

        class Model:
            @berth.lease(memory="16MiB", name="model")
            def answer(self):
                together.wait(PATIENCE)
                ids.append(berth.current().id)

        threads = [threading.Thread(target=Model().answer) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(set(ids)), self.held()), (4, {}))

    def test_what_is_asked_for_and_told(self):
        told = []
        wanted = berth.lease(memory="16MiB", gpu=2, timeout=0)
        wanted.on_stop(told.append)

        @wanted
        def work():
            gpu = berth.current()
            self.assertEqual(gpu.uuid, berth.devices()[2].uuid)
            berth.release(gpu.id)
            self.wait_until(lambda: told, "it is told")

        work()
        self.assertFalse(wanted.held)

    def test_a_call_that_is_refused_does_not_happen(self):
        @berth.lease("900GiB", timeout=0)
        def never():
            self.fail("it was called")

        with self.assertRaises(berth.Problem):
            never()

    def test_what_can_have_no_lease(self):
        def values():
            yield 1

        async def later():
            yield 1

        for thing, text in ((values, "is a generator"), (later, "is a generator"), (int, "its methods"), (3, "not a function")):
            with self.assertRaisesRegex(TypeError, text):
                berth.lease()(thing)
        with self.assertRaisesRegex(TypeError, r'write @berth.lease\("4GiB"\)'):
            berth.lease(values)
        with berth.lease(memory="16MiB") as gpu:
            with self.assertRaisesRegex(RuntimeError, "it is held"):
                gpu(self.held)


class Threads(DaemonCase):
    def test_each_has_the_lease_that_it_took(self):
        seen = {}
        taken, looked = threading.Barrier(2, timeout=PATIENCE), threading.Barrier(2, timeout=PATIENCE)

        def other():
            with berth.lease(memory=64) as gpu:
                taken.wait()
                seen["other"] = berth.current() is gpu
                looked.wait()
            seen["after"] = berth.current()

        with berth.lease(memory=64) as gpu:
            thread = threading.Thread(target=other)
            thread.start()
            taken.wait()
            self.assertIs(berth.current(), gpu)  # although the other is newer
            looked.wait()
            thread.join()
        self.assertEqual(seen, {"other": True, "after": gpu})

    def test_those_that_others_gave_back_are_forgotten(self):
        def give_back_elsewhere():
            for _ in range(3):
                gpu = berth.lease(memory="1MiB").acquire()
                other = threading.Thread(target=gpu.release)
                other.start()
                other.join()
            return len(leasing._TAKEN.get())

        self.assertEqual(contextvars.copy_context().run(give_back_elsewhere), 1)

    def test_one_that_another_thread_gives_back(self):
        gpu = berth.lease(memory=64).acquire()
        thread = threading.Thread(target=gpu.release)
        thread.start()
        thread.join()
        self.assertIsNone(berth.current())


class Restart(DaemonCase):
    def test_a_lease_outlives_the_daemon(self):
        with berth.lease(memory=2048) as gpu:
            self.daemon.kill()
            self.daemon.start()
            self.assertEqual([x["id"] for x in self.daemon.leases()["leases"]], [gpu.id])
        self.assertEqual(self.daemon.leases()["leases"], [])

    def test_a_release_that_finds_no_daemon_is_made_later(self):
        with berth.lease(memory=2048):
            self.daemon.kill()
        self.assertIsNone(berth.current())
        self.daemon.start()
        self.wait_until(lambda: not self.daemon.leases()["leases"], "the lease is given back")


class Answers(unittest.TestCase):
    """What a live daemon does only by accident."""

    GRANTED = {
        "id": "x", "fence": 7, "binding": "ttl", "ttl_seconds": 30, "enforced_by": "none",
        "parts": [{"gpu": "GPU-1", "memory_mb": 64, "slots": 1}], "note": "raised to the minimum",
    }  # fmt: skip

    def test_a_grant_whose_answer_is_lost_is_given_back(self):
        def answer(method, path, body):
            if method == "POST":
                raise OSError("it dies")
            return 200, {}

        with Door(answer) as door, mock.patch("berth.persisting.AWAY", 0.01), self.assertLogs("berth"):
            with self.assertRaises(berth.Broken):
                berth.lease(memory=64, client=berth.Client(socket=door.path)).acquire()
            asked, again, deleted = door.calls
        self.assertEqual(again[:2], ("POST", "/api/leases?repeated=true"))
        self.assertEqual(again[2]["id"], asked[2]["id"])
        self.assertEqual(deleted[:2], ("DELETE", "/api/leases/" + asked[2]["id"]))

    def test_a_pool_of_another_with_the_name_is_not_given_back(self):
        def answer(method, path, body):
            if method == "POST":
                raise OSError("it dies")
            return 200, {}

        async def hold(client):
            async with berth.aio.pool(64, name="render", client=client):
                self.fail("nobody granted it")

        with Door(answer) as door, mock.patch("berth.persisting.AWAY", 0.01), self.assertLogs("berth"):
            client = berth.Client(socket=door.path)
            with self.assertRaises(berth.Broken):
                berth.pool(64, name="render", client=client).acquire()
            with mock.patch("berth.aio.leasing.give_back_later") as later, self.assertRaises(berth.Broken):
                asyncio.run(hold(client))
            later.assert_not_called()
            self.assertEqual({method for method, *_ in door.calls}, {"POST"})

    def test_a_release_that_is_interrupted_is_made_later(self):
        released = threading.Event()

        def answer(method, path, body):
            if method == "DELETE":
                released.set()
            return 201, self.GRANTED

        with Door(answer) as door:
            gpu = berth.lease(memory=64, client=berth.Client(socket=door.path)).acquire()
            real = leasing._released
            with mock.patch.object(leasing, "_released", mock.Mock(side_effect=[KeyboardInterrupt, DEFAULT], wraps=real)):
                with self.assertRaises(KeyboardInterrupt):
                    gpu.release()
                self.assertTrue(released.wait(PATIENCE))

    def test_a_request_that_waits_is_made_again(self):
        def answer(method, path, body):
            posts = [call for call in door.calls if call[0] == "POST"]
            if method != "POST" or len(posts) > 3:
                return 201, self.GRANTED
            if len(posts) == 2:
                return problem(503, "stopping", "The daemon is stopping.")
            raise OSError("it dies")

        with Door(answer) as door, self.assertLogs("berth") as told:
            with berth.lease(memory=64, timeout=50, client=berth.Client(socket=door.path)) as gpu:
                self.assertEqual(gpu.fence, 7)
            asked = [call for call in door.calls if call[0] == "POST"]
        self.assertEqual({call[2]["id"] for call in asked}, {asked[0][2]["id"]})
        left = [call[2]["timeout_seconds"] for call in asked]
        self.assertEqual(left, sorted(left, reverse=True))
        self.assertIn("asking again", told.output[0])

    def test_far_away_the_binding_is_a_time(self):
        with Door(lambda method, *_: (201, self.GRANTED)) as door:
            client = berth.Client(socket=door.path)
            with mock.patch.object(berth.Client, "local", False):
                with berth.lease(memory=64, timeout=float("inf"), client=client) as gpu:
                    self.assertEqual((gpu.fence, gpu.note), (7, "raised to the minimum"))
            body = door.calls[0][2]
            self.assertEqual((body["binding"], body["ttl_seconds"]), ("ttl", leasing.REMOTE_TTL))
            self.assertEqual(body["timeout_seconds"], leasing.LONGEST_WAIT)
            self.assertEqual(door.calls[-1][1], "/api/leases/x?fence=7")

    @mock.patch("berth.leasing.RENEWALS", 3000)
    def test_a_daemon_that_stops_or_is_busy_does_not_end_a_lease(self):
        refusals = [problem(503, "stopping"), problem(429, "no_turn"), problem(507, "journal_full")]
        refusals.append(problem(404, "unknown_allocation", "It has ended."))

        def answer(method, path, body):
            if not path.endswith("/renew"):
                return 201, self.GRANTED
            return refusals.pop(0) if len(refusals) > 1 else refusals[0]

        lost = threading.Event()
        with Door(answer) as door, berth.lease(memory=64, client=berth.Client(socket=door.path)) as gpu:
            gpu._requests().add(lambda _: lost.set())
            self.assertTrue(lost.wait(PATIENCE))
        self.assertEqual((len(refusals), gpu.lost), (1, "It has ended."))

    def test_a_release_of_what_has_ended_is_no_error(self):
        def answer(method, path, body):
            return problem(404, "unknown_allocation") if method == "DELETE" else (201, self.GRANTED)

        with Door(answer) as door:
            with berth.lease(memory=64, client=berth.Client(socket=door.path)) as gpu:
                json.dumps(dict(gpu.document))
            self.assertFalse(gpu.held)

    def test_amd(self):
        device = {"device": {"vendor": "amd", "memory_total_mb": 65536}, "context_mb": 600}
        with Door(lambda method, *_: (200, device) if method == "GET" else (201, self.GRANTED)) as door:
            with berth.lease(memory=64, client=berth.Client(socket=door.path)) as gpu:
                self.assertEqual(gpu.env["ROCR_VISIBLE_DEVICES"], "GPU-1")
                self.assertEqual(gpu.env["HIP_VISIBLE_DEVICES"], "0")
                self.assertEqual(gpu.env["GPU_DEVICE_ORDINAL"], "0")
                self.assertNotIn("CUDA_VISIBLE_DEVICES", gpu.env)

    def test_intel(self):
        device = {"device": {"vendor": "intel", "ordinal": 2, "memory_total_mb": 12288}, "context_mb": 600}
        with Door(lambda method, *_: (200, device) if method == "GET" else (201, self.GRANTED)) as door:
            with berth.lease(memory=64, client=berth.Client(socket=door.path)) as gpu:
                self.assertEqual(gpu.env["ZE_AFFINITY_MASK"], "2")
                self.assertEqual(gpu.env["ONEAPI_DEVICE_SELECTOR"], "level_zero:0")
                self.assertNotIn("CUDA_VISIBLE_DEVICES", gpu.env)

    def test_ids_are_plain(self):
        with Door(lambda *_: problem(409, "no_slot", "No.")) as door:
            with self.assertRaises(berth.Problem):
                berth.lease(name="grüße / 1", client=berth.Client(socket=door.path)).acquire()
        self.assertRegex(door.calls[0][2]["id"], r"\Agr--e---1-\d+-[0-9a-f]{8}\Z")
