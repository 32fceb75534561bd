"""Executors with the real runner, a live daemon and simulated GPUs."""

import asyncio
import concurrent.futures
import contextlib
import gc
import io
import itertools
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import tracemalloc
import unittest
import weakref
from unittest import mock

import berth
from berth import callpickle, callworker, executor, mapsource, maprun

from . import PATIENCE, executorcalls
from .test_mapping import ROOT, MapCase


class ExecutorCase(MapCase):
    def setUp(self):
        super().setUp()
        os.mkfifo(self.path / "gate")

    def pool(self, *args, **options):
        pool = berth.Executor(*args, **options)
        self.addCleanup(pool.shutdown)
        return pool

    def notes(self, name):
        file = self.path / name
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def arrived(self, count=1):
        self.wait_until(lambda: len(self.notes("arrived")) >= count, "%d calls are at the gate" % count)
        return self.notes("arrived")

    def release(self):
        """Opens the gate for those who wait, and for those who come."""
        (self.path / "open").touch()
        self.addCleanup(os.close, os.open(self.path / "gate", os.O_RDWR))  # nobody waits while this is open

    def gone(self, pid):
        self.wait_until(lambda: not pathlib.Path("/proc/%d" % pid).exists(), "worker %d is gone" % pid)

    def program(self, code, name="program.py"):
        """Runs a script, and returns what it printed."""
        file = self.path / name
        file.write_text(code)
        done = subprocess.run(
            [sys.executable, str(file)], capture_output=True, text=True, check=False, timeout=PATIENCE,
            env={**os.environ, "PYTHONPATH": ROOT},
        )  # fmt: skip
        return done.stdout, done.stderr


class Forking(ExecutorCase):
    def test_a_child_that_lives_on(self):
        """It has copies of the pipes, and the executor ends all the same."""
        for name, keep in (("pipes that are closed", contextlib.nullcontext()), ("pipes that stay", mock.patch.object(maprun.Runner, "disown", lambda _: None))):
            with self.subTest(name), keep, contextlib.ExitStack() as until:
                with self.pool(1) as pool:
                    self.assertEqual(pool.submit(executorcalls.add, 1).result(), 1)
                    until.enter_context(self.forked())

    def test_a_child_that_ends_takes_nothing_from_its_parent(self):
        pool = self.pool(1)

        def ends():
            with pool._work._lock:  # whoever held it does not live here
                executor._finish()
            pool.shutdown()
            pool._work._own._remove()  # what happens at its exit

        with self.forked(ends):
            pass
        self.assertEqual(pool.submit(executorcalls.add, 1).result(), 1)

    def test_functions_of_one_name_that_are_submitted_at_once(self):
        """Each has a file of its own, whoever comes first."""
        writer = callpickle.Writer(str(self.path), None)
        source = mapsource.Source("", "f", "def f(): pass")
        with mock.patch.object(callpickle, "source_of", return_value=source):
            self.assertNotEqual(writer._by_source(executorcalls.add), writer._by_source(executorcalls.fail))

    def test_an_outcome_that_does_not_fit_on_the_disk(self):
        calls = object.__new__(callworker._Calls)
        calls._folder, calls._program, calls._dumps, calls.broken = str(self.path), None, pickle.dumps, False
        calls._begun = os.open(self.path / "begun", os.O_RDWR | os.O_CREAT)
        self.addCleanup(os.close, calls._begun)
        call = callpickle.pack(pickle.dumps((bytes, (1 << 20,), {})), "")
        with mock.patch.object(callpickle, "open", create=True, side_effect=OSError(28, "No space left on device")):
            number, how, packed, _, _ = calls.answer(0, call)
        self.assertEqual((number, how), (0, "raised"))
        self.assertRegex(str(pickle.loads(callpickle.unpack(packed))), "cannot be kept: .*No space left")


class Calling(ExecutorCase):
    def test_calls_have_a_gpu_and_a_lease_of_their_own(self):
        with self.pool(memory="1GiB") as pool:
            first, second = pool.submit(executorcalls.gated, 1), pool.submit(executorcalls.gated, 2)
            self.arrived(2)
            leases = [lease for lease in self.daemon.leases()["leases"] if lease["parts"][0]["memory_mb"] == 1024]
            self.assertEqual(len({lease["parts"][0]["gpu"] for lease in leases}), 2)
            self.release()
            self.assertEqual([first.result(), second.result()], [1, 2])
            pid, lease, _ = pool.submit(executorcalls.where).result()
            self.assertNotEqual(pid, os.getpid())
            self.assertIn(lease, [held["id"] for held in leases])
        self.assertEqual(pool.submit.__self__, pool)

    def test_arguments_and_outcomes(self):
        with self.pool(gpus=1) as pool:
            self.assertEqual(pool.submit(executorcalls.add, {1, 2} and (1,), b=(b"x", None)).result(), (1, b"x", None))
            self.assertEqual(pool.submit(pow, 2, 10).result(), 1024)
            large = os.urandom(3 << 20)
            self.assertEqual(pool.submit(executorcalls.add, large, b=large).result(), large + large)

    def test_the_initializer_is_called_once_in_each_worker(self):
        with self.pool(1, initializer=executorcalls.set_base, initargs=(1000,)) as pool:
            self.assertEqual(list(pool.map(executorcalls.plus_base, range(20))), list(range(1000, 1020)))
        self.assertEqual(len(self.notes("loaded")), 1)

    def test_an_initializer_that_fails_breaks_the_executor(self):
        with mock.patch("berth.maprun._show") as shown:
            pool = self.pool(initializer=executorcalls.refuse)
            futures = [pool.submit(executorcalls.add, number) for number in range(4)]
            with self.assertRaisesRegex(concurrent.futures.BrokenExecutor, "no worker can be started"):
                futures[0].result()
            pool.shutdown()
        said = "".join(call.args[0] for call in shown.call_args_list)
        self.assertEqual(said.count("RuntimeError: no model here"), 1, said)
        with self.assertRaisesRegex(berth.BrokenWorker, "no model here"):
            pool.submit(executorcalls.add, 1)
        self.assertIn("broken", repr(pool))

    def test_exceptions_of_calls(self):
        with self.pool(gpus=1) as pool:
            with self.assertRaisesRegex(ValueError, "^unlucky 3$") as raised:
                pool.submit(executorcalls.fail, 3).result()
            self.assertIn('executorcalls.py", line', str(raised.exception.__cause__))
            with self.assertRaisesRegex(berth.BerthError, "cannot be pickled: tests.executorcalls.Odd: odd: 4"):
                pool.submit(executorcalls.fail_oddly, 4).result()
            with self.assertRaisesRegex(berth.BerthError, "what the call returned cannot be pickled: .*lock"):
                pool.submit(executorcalls.lock).result()
            with self.assertRaises(SystemExit):
                pool.submit(executorcalls.leave).result()
            self.assertEqual(pool.submit(executorcalls.add, 1).result(), 1)

    def test_a_worker_that_lost_its_gpu_is_replaced(self):
        with self.pool(1) as pool:
            before = pool.submit(executorcalls.where).result()
            with self.assertRaisesRegex(RuntimeError, "illegal memory access"):
                pool.submit(executorcalls.lose_device).result()
            self.assertNotEqual(pool.submit(executorcalls.where).result()[0], before[0])

    def test_what_cannot_be_pickled_is_refused(self):
        pool = self.pool()
        for call, text in (
            ((lambda: 1,), "call of <lambda> cannot be pickled .*cloudpickle"), ((executorcalls.add, threading.Lock()), "cannot be pickled .*cloudpickle"),
            ((executorcalls.add, (n for n in ())), "cannot be pickled .*generator"),
        ):  # fmt: skip
            with self.assertRaisesRegex(berth.BerthError, text):
                pool.submit(*call)
        with self.assertRaisesRegex(TypeError, "is not a function"):
            pool.submit("print")

    def test_another_way_to_pickle(self):
        with self.pool(gpus=1, dumps=pickle.dumps) as pool:
            self.assertEqual(pool.submit(executorcalls.add, 1, b=2).result(), 3)

    def test_bad_arguments(self):
        for options, text in (
            ({"gpus": 0}, "gpus is"), ({"workers_per_gpu": 0}, "workers_per_gpu is"), ({"max_workers": 0}, "max_workers is"),
            ({"timeout": 0}, "timeout is"), ({"memory": "much"}, "not an amount"),
        ):  # fmt: skip
            with self.assertRaisesRegex(ValueError, "executor: .*" + text if text != "not an amount" else text):
                berth.Executor(**options)
        with self.assertRaisesRegex(TypeError, "initializer must be a function"):
            berth.Executor(initializer=3)
        with self.assertRaisesRegex(berth.BerthError, "not a URL"):
            berth.Executor(client=berth.Client(url="http://localhost:1"))
        with mock.patch.dict(os.environ, {"BERTH_WORKER_PROTOCOL": "1"}):
            with self.assertRaisesRegex(berth.BerthError, "under if __name__"):
                berth.Executor()

    def test_what_the_runner_refuses(self):
        for options, text in (({"where": "name~B300"}, "name~B300"), ({"client": berth.Client(socket="/nowhere/berth.sock")}, "status 3")):
            with self.assertRaisesRegex(berth.BrokenWorker, text):
                self.pool(**options).submit(executorcalls.add, 1).result()

    def test_what_workers_print_is_shown(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            with self.pool(gpus=1) as pool:
                pool.submit(print, "good evening").result()
        self.assertRegex(said.getvalue(), r"^\[worker 1, GPU \d\] good evening\n$")

    def test_code_for_other_executors(self):
        """What works with any executor works with this one."""
        with self.pool() as pool:
            futures = {pool.submit(executorcalls.add, n, n): n for n in range(20)}
            for future in concurrent.futures.as_completed(futures):
                self.assertEqual(future.result(), 2 * futures[future])
            done, _ = concurrent.futures.wait([pool.submit(executorcalls.add, 1)])
            self.assertEqual([future.result() for future in done], [1])

            async def here():
                return await asyncio.get_running_loop().run_in_executor(pool, executorcalls.add, 20, 1)

            self.assertEqual(asyncio.run(here()), 21)


class Mapping(ExecutorCase):
    def test_in_order(self):
        with self.pool() as pool:
            self.assertEqual(list(pool.map(executorcalls.add, range(50), range(50))), [2 * n for n in range(50)])
            self.assertEqual(list(pool.map(executorcalls.add, range(50), chunksize=7)), list(range(50)))
            self.assertEqual(list(pool.map(executorcalls.add, [])), [])

    def test_what_was_given_is_let_go(self):
        with self.pool(1) as pool:
            for made in pool.map(executorcalls.Made, range(12), chunksize=6):
                seen = weakref.ref(made)
                del made
                self.wait_until(lambda: seen() is None, "nobody holds it")

    def test_one_that_fails_raises_in_its_turn(self):
        with self.pool(gpus=1) as pool:
            results = pool.map(int, ["1", "2", "x", "4"])
            self.assertEqual([next(results), next(results)], [1, 2])
            with self.assertRaises(ValueError):
                next(results)

    def test_items_are_taken_as_they_are_needed(self):
        taken = []

        def items():
            for n in itertools.count():
                taken.append(n)
                yield n

        with self.pool() as pool:
            results = pool.map(executorcalls.add, items(), buffersize=4, chunksize=2)
            self.assertEqual([next(results) for _ in range(100)], list(range(100)))
            results.close()
        self.assertLessEqual(len(taken), 110)

    def test_a_timeout(self):
        with self.pool(1) as pool:
            pool.submit(executorcalls.gated, 0)
            self.arrived()
            results = pool.map(executorcalls.gated, range(100), timeout=0.01)
            with self.assertRaises(concurrent.futures.TimeoutError):
                next(results)
            self.release()
        self.assertLess(len(self.notes("calls")), 100)  # the others were cancelled

    def test_bad_sizes(self):
        pool = self.pool()
        for options in ({"chunksize": 0}, {"buffersize": 0}):
            with self.assertRaises(ValueError):
                pool.map(executorcalls.add, [1], **options)


class Ending(ExecutorCase):
    def test_a_call_that_kills_its_worker_fails_alone(self):
        with self.pool(1) as pool:
            self.assertEqual(pool.submit(executorcalls.add, 1).result(), 1)
            futures = [pool.submit(executorcalls.die, n) for n in range(4)]  # so often that the runner tests the GPU
            after = pool.submit(executorcalls.add, 2)
            for future in futures:
                with self.assertRaisesRegex(berth.BrokenWorker, "the worker of the call died: signal: killed"):
                    future.result()
            self.assertEqual(after.result(), 2)
        self.assertEqual(self.notes("calls"), [0, 1, 2, 3])  # each of them once

    def test_a_call_is_not_made_again_to_test_a_gpu(self):
        with self.pool(1) as pool:
            self.assertEqual(pool.submit(executorcalls.note, "good", 1).result(), None)
            for n in range(3):
                with self.assertRaises(berth.BrokenWorker):
                    pool.submit(executorcalls.die, n).result()
            self.assertEqual(pool.submit(executorcalls.add, 2).result(), 2)
        self.assertEqual(self.notes("good"), [1])

    def test_a_call_that_takes_too_long(self):
        with self.pool(1, timeout=0.5) as pool:
            with self.assertRaisesRegex(berth.BrokenWorker, "hung: no answer"):
                pool.submit(executorcalls.gated, 1).result()
        self.assertLessEqual(self.notes("calls"), [1])  # it is not made again; a worker may be too slow to begin

    def test_cancel(self):
        with self.pool(1) as pool:
            first = pool.submit(executorcalls.gated, 0)
            self.arrived()
            waiting = [pool.submit(executorcalls.gated, n) for n in range(1, 30)]
            self.assertFalse(first.cancel())
            self.assertTrue(all(future.cancel() for future in waiting[5:]))
            self.release()
            self.assertEqual([future.result() for future in waiting[:5]], [1, 2, 3, 4, 5])
        self.assertEqual(self.notes("calls"), list(range(6)))

    def test_shutdown(self):
        pool = self.pool(1)
        first = pool.submit(executorcalls.gated, 0)
        self.arrived()
        waiting = [pool.submit(executorcalls.gated, n) for n in range(1, 30)]
        pool.shutdown(wait=False, cancel_futures=True)
        with self.assertRaisesRegex(RuntimeError, "shut down"):
            pool.submit(executorcalls.add, 1)
        self.assertTrue(waiting[-1].cancelled())
        self.assertFalse(first.done())
        self.release()
        pool.shutdown()
        self.assertEqual(first.result(), 0)
        pool.shutdown()  # again
        self.assertEqual(len(concurrent.futures.wait(waiting).not_done), 0)

    def test_one_without_calls_starts_nothing(self):
        with mock.patch.object(executor, "Runner", side_effect=AssertionError):
            with self.pool():
                pass
            self.pool().shutdown(wait=False)

    def test_an_exception_waits_for_the_calls_and_an_interrupt_does_not(self):
        with self.assertRaises(KeyError):
            with self.pool(1) as pool:
                done = pool.submit(executorcalls.add, 1)
                raise KeyError
        self.assertEqual(done.result(), 1)
        with self.assertRaises(KeyboardInterrupt):
            with self.pool(1) as pool:
                futures = [pool.submit(executorcalls.gated, n) for n in range(10)]
                (worker,) = self.arrived()
                raise KeyboardInterrupt
        self.gone(worker)
        with self.assertRaisesRegex(berth.BrokenWorker, "stopped"):
            futures[0].result()
        self.assertTrue(futures[-1].cancelled())

    def test_one_that_is_forgotten_does_its_calls_and_ends(self):
        pool = berth.Executor(gpus=1)
        future = pool.submit(executorcalls.where)
        del pool
        gc.collect()
        self.gone(future.result()[0])

    def test_the_end_of_a_program_does_its_calls(self):
        out, err = self.program(
            "import berth\nfrom tests import executorcalls\n"
            "future = berth.Executor(1).submit(executorcalls.add, 3)\n"
            "future.add_done_callback(lambda future: print(future.result(), flush=True))\n"
            "unused = berth.Executor(1)\n"
        )
        self.assertEqual(out, "3\n", err)

    def test_a_program_that_is_killed(self):
        process = self.script(
            "from tests import executorcalls\npool = berth.Executor(memory='1GiB')\n"
            "for n in range(10): pool.submit(executorcalls.gated, n)\npool.shutdown()"
        )
        workers = self.arrived(2)
        process.kill()
        process.communicate()
        for worker in workers:
            self.gone(worker)
        self.wait_until(lambda: not self.daemon.leases()["leases"], "no lease is left")
        for left in (self.path / "tmp").iterdir():  # a program that is killed cannot clean up
            for file in left.iterdir():
                file.unlink()
            left.rmdir()

    def script(self, code, **environment):
        return super().script(code, TMPDIR=str(self.path / "tmp"), **environment)

    def test_an_interrupt_of_a_program(self):
        process = self.script(
            "from tests import executorcalls\n"
            "try:\n    with berth.Executor() as pool: pool.submit(executorcalls.gated, 1).result()\n"
            "except KeyboardInterrupt: print('interrupted')"
        )
        (worker,) = self.arrived()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.communicate()[0], "interrupted\n")
        self.gone(worker)

    def test_the_daemon_is_killed_meanwhile(self):
        with self.pool(memory="1GiB") as pool:
            first = pool.submit(executorcalls.gated, 1)
            self.arrived()
            self.daemon.kill()
            self.release()
            self.assertEqual(first.result(), 1)
            again = pool.submit(executorcalls.add, 2)
            self.daemon.start()
            self.assertEqual(again.result(), 2)
            self.assertEqual(list(pool.map(executorcalls.add, range(10))), list(range(10)))

    def test_a_forked_child_has_none(self):
        pool = self.pool()
        with mock.patch.object(os, "getpid", return_value=1):
            with self.assertRaisesRegex(RuntimeError, "belongs to the parent"):
                pool.submit(executorcalls.add, 1)


class Awaiting(ExecutorCase):
    def test_calls(self):
        async def work():
            async with berth.aio.Executor(memory="1GiB") as pool:
                self.assertEqual(await asyncio.gather(*(pool.submit(executorcalls.add, n, b=1) for n in range(9))), list(range(1, 10)))
                self.assertEqual([n async for n in pool.map(executorcalls.add, range(9), chunksize=2, buffersize=2)], list(range(9)))
                with self.assertRaisesRegex(ValueError, "unlucky 3"):
                    await pool.submit(executorcalls.fail, 3)
            with self.assertRaisesRegex(RuntimeError, "shut down"):
                pool.submit(executorcalls.add, 1)

        asyncio.run(asyncio.wait_for(work(), PATIENCE))

    def test_a_task_that_is_cancelled(self):
        async def work():
            async with berth.aio.Executor(1) as pool:
                await pool.submit(executorcalls.gated, 1)

        async def cancel():
            task = asyncio.create_task(work())
            while not self.notes("arrived"):
                await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(asyncio.wait_for(cancel(), PATIENCE))
        self.gone(self.arrived()[0])


class Many(ExecutorCase):
    def test_small_calls_take_little_memory(self):
        with self.pool() as pool:
            pool.submit(executorcalls.add, 0).result()
            tracemalloc.start()
            self.addCleanup(tracemalloc.stop)
            total, calls = 0, 10_000
            futures = [pool.submit(executorcalls.add, n) for n in range(calls)]
            for future in futures:
                total += future.result()
            _, peak = tracemalloc.get_traced_memory()
        self.assertEqual(total, sum(range(calls)))
        self.assertLess(peak, calls * (4 << 10))  # a future alone takes more than 1 KiB


class Scripts(ExecutorCase):
    def test_functions_and_classes_of_a_script(self):
        out, err = self.program(
            "import math, berth\n"
            "class Point:\n"
            "    def __init__(self, x): self.x = x\n"
            "class Bad(Exception): pass\n"
            "def alone(n): return 2 * n\n"
            "def uses(point): return Point(math.sqrt(point.x))\n"
            "def fails(point): raise Bad(point.x)\n"
            'if __name__ == "__main__":\n'
            "    def late(n): return math.sqrt(n)\n"
            "    with berth.Executor(1) as pool:\n"
            "        print(pool.submit(alone, 4).result(), list(pool.map(alone, [1, 2], chunksize=2)))\n"
            "        got = pool.submit(uses, Point(9)).result()\n"
            "        print(type(got) is Point, got.x)\n"
            "        try: pool.submit(fails, Point(1)).result()\n"
            "        except Bad as why: print('bad', why)\n"
            "        try: pool.submit(late, 4).result()\n"
            "        except berth.BerthError as why: print('not under if __name__' in str(why))\n"
        )
        self.assertEqual(out, "8 [2, 4]\nTrue 3.0\nbad 1\nTrue\n", err)

    def test_a_script_that_does_not_guard_its_calls(self):
        out, err = self.program(
            "import math, berth\n"
            "def alone(n): return 2 * n\n"
            "def uses(n): return math.sqrt(n)\n"
            "with berth.Executor(1) as pool:\n"
            "    print(pool.submit(alone, 4).result())\n"
            "    try: pool.submit(uses, 4).result()\n"
            "    except berth.BerthError as why: print('put the call under if __name__' in str(why))\n"
        )
        self.assertEqual(out, "8\nTrue\n", err)

    def test_a_notebook(self):
        """Its functions travel by their source if they use nothing around them."""
        out, err = self.program(
            "import linecache, math, sys, types, berth\n"
            "sys.modules['__main__'] = types.ModuleType('__main__')\n"
            "cell = '''import math\ndef alone(n):\n    return 2 * n\ndef uses(n):\n    return math.sqrt(n)\nclass Point: pass\n'''\n"
            "linecache.cache['<cell>'] = (len(cell), None, cell.splitlines(True), '<cell>')\n"
            "shell = sys.modules['__main__'].__dict__\n"
            "exec(compile(cell, '<cell>', 'exec'), shell)\n"
            "with berth.Executor(1) as pool:\n"
            "    print(pool.submit(shell['alone'], 4).result())\n"
            "    for call in ((shell['uses'], 4), (abs, shell['Point']())):\n"
            "        try: pool.submit(*call)\n"
            "        except berth.BerthError as why: print(why)\n"
        )
        self.assertEqual(out.splitlines()[0], "8", err)
        self.assertRegex(out, "uses is defined in a notebook or a script, and uses math, .*initializer=")
        self.assertRegex(out, "Point is defined in a notebook, .*put it into a module")


if __name__ == "__main__":
    unittest.main()
