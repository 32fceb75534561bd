"""Maps with the real runner, a live daemon and simulated GPUs."""

import contextlib
import fcntl
import inspect
import io
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import typing
import unittest
from unittest import mock

import berth
from berth import maphosts, mapping, maprun
from berth.mapkept import Kept, kept_file

from . import mapjobs
from .daemon import BINARY, DaemonCase

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class MapCase(DaemonCase):
    devices = "sim:2"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        values = {
            "BERTH_BIN": str(BINARY), "MAP_FOLDER": self.folder.name, "MAP_LOADED": str(self.path / "loaded"),
            "XDG_STATE_HOME": str(self.path / "state"),
        }  # fmt: skip
        (self.path / "tmp").mkdir()
        for patch in (mock.patch.dict(os.environ, values), mock.patch.object(tempfile, "tempdir", str(self.path / "tmp"))):
            patch.start()
            self.addCleanup(patch.stop)
        self.addCleanup(self.nobody_is_left)

    def nobody_is_left(self):
        """Workers end with the runner, and their leases with them."""
        self.wait_until(lambda: not self.daemon.leases()["leases"], "all leases are given back")
        self.wait_until(lambda: not os.listdir(self.path / "tmp"), "the folders of the runs are removed")

    def quiet(self, function, *args, **options):
        return function(*args, **{"progress": False, **options})

    def map(self, *args, **options):
        return self.quiet(berth.map, *args, **options)

    def calls(self):
        file = self.path / "calls"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def script(self, code, **environment):
        """A program that maps, as a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-c", "import berth\nfrom tests import mapjobs\n" + code], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **environment},
        )  # fmt: skip


    @contextlib.contextmanager
    def forked(self, code=lambda: None):
        """A process that is forked here, and lives as long as the block."""
        alive, end = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(end)
                code()
                os.read(alive, 1)
                os._exit(0)
            finally:
                os._exit(1)
        os.close(alive)
        try:
            yield pid
        finally:
            os.close(end)
            self.assertEqual(os.waitpid(pid, 0)[1], 0)


class Forking(MapCase):
    def test_a_child_that_lives_on(self):
        """It has copies of the pipes, and the map ends all the same."""
        for name, keep in (("pipes that are closed", contextlib.nullcontext()), ("pipes that stay", mock.patch.object(maprun.Runner, "disown", lambda _: None))):
            with self.subTest(name), keep:
                outcomes = self.quiet(berth.imap, mapjobs.double, range(500))
                first = next(outcomes)
                with self.forked():
                    self.assertEqual([first, *outcomes], [2 * n for n in range(500)])

    def test_a_child_takes_nothing_from_its_parent(self):
        outcomes = self.quiet(berth.imap, mapjobs.double, range(3000))
        first = next(outcomes)

        def other():
            outcomes.close()

        def reader():
            with self.assertRaisesRegex(berth.BerthError, "belong to the parent"):
                list(outcomes)

        with self.forked(other), self.forked(reader):
            self.assertEqual([first, *outcomes], [2 * n for n in range(3000)])

    def test_a_child_that_goes_on(self):
        """It is told at once whose the outcomes are, and does not wait for more."""
        mine, more = [True], [True]
        chunks = itertools.takewhile(lambda _: more[0], itertools.repeat(b"1\n"))
        with maprun.Runner("map", ["cat"], progress=False) as runner:
            answers = runner.answers(chunks, lambda: mine[0] or self.fail("it goes on"))

            def goes_on():
                mine[0] = False
                with self.assertRaisesRegex(berth.BerthError, "belong to the parent"):
                    next(answers)

            while not next(answers):
                pass
            with self.forked(goes_on):
                pass
            more[0] = False
            self.assertEqual(list(answers)[-1][-1], maprun.INPUT_END.encode())

    def test_a_program_that_is_killed_beside_its_child(self):
        """berth run sees the end of the program, and not that of its child."""
        os.mkfifo(self.path / "alive")
        os.mkfifo(self.path / "arriving")
        os.mkfifo(self.path / "gate")
        program = self.script(
            "import os\n"
            "for n in berth.imap(mapjobs.gated, range(9), each=True, batch=1, progress=False):\n"
            "    if n == 0 and os.fork() == 0:\n"
            "        os.closerange(0, 3)\n"
            "        open(os.path.join(os.environ['MAP_FOLDER'], 'alive')).read()\n"
            "        os._exit(0)\n"
        )
        end = open(self.path / "alive", "w")  # the child is there
        self.addCleanup(end.close)
        int((self.path / "arriving").read_text())  # a worker waits at the gate
        program.kill()
        program.communicate()
        self.wait_until(lambda: not self.daemon.leases()["leases"], "all leases are given back")
        shutil.rmtree(self.path / "tmp", ignore_errors=True)  # a program that is killed leaves its folder
        (self.path / "tmp").mkdir()

    def test_a_map_with_a_name_beside_a_child(self):
        kept = Kept("forked", "module.function")
        with self.forked():
            kept.close()
            Kept("forked", "module.function").close()  # the child does not keep the lock

    def test_a_child_writes_nothing_that_is_kept(self):
        kept = Kept("forked", "module.function")
        with self.forked(kept.close):
            pass
        kept.close()
        self.assertEqual(len(pathlib.Path(kept.path).read_text().splitlines()), 1)


class Mapping(MapCase):
    def test_time_limits(self):
        self.assertEqual(self.map(mapjobs.double, range(3), timeout=60, ready_timeout=90.5), [0, 2, 4])
        for limit in (0, -1):
            with self.assertRaisesRegex(ValueError, "map: timeout is a number of seconds above 0"):
                self.map(mapjobs.double, range(3), timeout=limit)

    def test_a_gpu_that_is_lost_while_outcomes_are_written(self):
        """CUDA reports errors late: the records are done by another worker."""
        for threads in (0, 4):
            with self.subTest(threads):
                (self.path / "met").unlink(missing_ok=True)
                outcomes = self.map(mapjobs.double, range(300), write=mapjobs.lost_once, io_threads=threads)
                self.assertEqual(outcomes, [2 * n for n in range(300)])

    def test_memory_that_runs_out_beside_the_function(self):
        for role in ("read", "write"):
            for threads in (0, 4):
                with self.subTest((role, threads)):
                    (self.path / "met").unlink(missing_ok=True)
                    outcomes = self.map(mapjobs.double, range(300), io_threads=threads, **{role: mapjobs.hungry_once})
                    self.assertEqual(outcomes, [2 * n for n in range(300)])

    @unittest.skipUnless(hasattr(sys, "get_int_max_str_digits"), "this Python reads any number")
    def test_an_outcome_that_cannot_be_read(self):
        outcomes = self.map(mapjobs.huge, range(5), errors="mark")
        self.assertEqual(outcomes[:2] + outcomes[3:], [0, 1, 3, 4])
        self.assertRegex(outcomes[2]["_error"], "cannot be read: ValueError")

    def test_what_is_kept_is_not_room(self):
        """Records whose outcomes are there already count as well: imap holds them
        while an earlier one is missing."""
        call = object.__new__(mapping._Call)
        call._in_turn, call._batch, call._fed, call.given = True, 1, 10, 3000
        call.taken = call.given + mapping.AHEAD - 1
        self.assertTrue(call._room())
        call.taken += 1
        self.assertFalse(call._room())

    def test_a_list(self):
        self.assertEqual(self.map(mapjobs.double, range(2000)), [2 * n for n in range(2000)])

    def test_on_other_machines(self):
        """An ssh that runs the command on this machine, in another folder and without its
        PYTHONPATH."""
        ssh = self.path / "ssh"
        ssh.write_text(
            '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\necho "$2" >>"$MAP_FOLDER/reached"\n'
            'unset PYTHONPATH\ncd / && exec sh -c "$3"\n'
        )
        ssh.chmod(0o755)
        (self.path / "data.txt").write_text("7")
        values = {
            "BERTH_SSH": str(ssh), "XDG_CACHE_HOME": str(self.path / "cache"),
            "PATH": os.path.dirname(BINARY) + os.pathsep + os.environ["PATH"],
        }  # fmt: skip

        def scaled(numbers):
            factor = int(open("data.txt").read())
            return [factor * number for number in numbers]

        with mock.patch.dict(os.environ, values):
            options = {"hosts": ["gpu1", "gpu2:1"], "files": [str(self.path / "data.txt")], "python": sys.executable}
            self.assertEqual(self.map(scaled, range(50), **options), [7 * n for n in range(50)])
            self.assertEqual(self.map(mapjobs.double, [1, 2], hosts="gpu1", python=sys.executable), [2, 4])
        self.assertLessEqual({"gpu1"}, set((self.path / "reached").read_text().split()))
        with self.assertRaisesRegex(ValueError, "hosts are names for ssh"):
            self.map(mapjobs.double, [1], hosts=[])
        for bad in ({}, {"image": "x", "pods": 3}):
            with self.assertRaisesRegex(ValueError, 'kubernetes has an "image"'):
                self.map(mapjobs.double, [1], kubernetes=bad)
        with self.assertRaisesRegex(ValueError, "not both"):
            self.map(mapjobs.double, [1], hosts="a", kubernetes={"image": "x"})
        self.assertEqual(
            maphosts.away(None, {"image": "x", "workers": 2, "berth_image": "y"}),
            ["--kubernetes", "--files", ".", "--image", "x", "--workers", "2", "--berth-image", "y"],
        )
        with self.assertRaisesRegex(ValueError, "files go to hosts"):
            self.map(mapjobs.double, [1], files=["x"])

    def test_nothing_starts_nothing(self):
        with mock.patch.object(mapping, "Runner", side_effect=AssertionError):
            self.assertEqual(self.map(mapjobs.double, []), [])
            self.assertEqual(list(berth.imap(mapjobs.double, iter(()))), [])

    def test_the_model_is_loaded_once_in_each_worker(self):
        self.assertEqual(self.map(mapjobs.plus, range(300), init=mapjobs.load, gpus=1), [n + 1000 for n in range(300)])
        self.assertEqual(len((self.path / "loaded").read_text().split()), 1)

    def test_batches_and_workers(self):
        answers = self.map(mapjobs.batches, range(400), batch=16, gpus=1, workers_per_gpu=2, ordered=False, memory="1GiB")
        self.assertEqual(sorted(n for n, _, _ in answers), list(range(400)))
        self.assertLessEqual(max(size for _, size, _ in answers), 16)
        self.assertGreater(max(size for _, size, _ in answers), 1)
        self.assertLessEqual(len({pid for _, _, pid in answers}), 2)

    def test_records_that_fail(self):
        marked = {13: {"_input": 13, "_error": "ValueError: unlucky"}, 17: {"_error": "too large"}}
        want = [marked.get(n, n) for n in range(20)]
        with self.assertRaises(berth.MapError) as raised:
            self.map(mapjobs.picky, range(20), each=True)
        self.assertEqual(str(raised.exception), "map: 2 records failed, the first of them: record 13: ValueError: unlucky")
        self.assertEqual([f[:2] for f in raised.exception.failures], [(13, "ValueError: unlucky"), (17, "too large")])
        self.assertEqual(raised.exception.outcomes, want)
        self.assertEqual(self.map(mapjobs.picky, range(20), each=True, errors="mark"), want)

    def test_a_record_that_kills_its_worker(self):
        got = self.map(mapjobs.deadly, range(30), errors="mark")
        self.assertIn("given up after 3 tries by itself", got[7]["_error"])
        self.assertEqual(got[:7] + got[8:], [n for n in range(30) if n != 7])

    def test_a_function_that_loses_records(self):
        with self.assertRaisesRegex(berth.MapError, "few returned 0 outcomes for 1 record:"):
            self.map(mapjobs.few, [1])

    def test_records_that_are_no_json(self):
        loop = []
        loop.append(loop)
        records = [1, b"x", float("nan"), {"a": {1}}, loop, {"big": "x" * (16 << 20)}, (2, "ä\ud800\u2028"), None]
        got = self.map(lambda_free, records, errors="mark")
        self.assertEqual([got[0], got[6], got[7]], [1, [2, "ä\ud800\u2028"], None])
        for place, text in ((1, "bytes is not JSON"), (2, "Out of range"), (3, "set is not JSON"), (4, "RecursionError"), (5, "16 MiB")):
            self.assertIn(text, got[place]["_error"])
        self.assertEqual(got[3]["a"], {1})

    def test_numbers_after_a_record_that_no_worker_gets(self):
        records = [*range(10), b"x", *range(11, 1500)]
        for ordered in (True, False):
            with self.assertRaises(berth.MapError) as raised:
                self.map(mapjobs.picky, records, each=True, ordered=ordered, batch=64)
            self.assertEqual([failure.index for failure in raised.exception.failures], [10, 13, 17])
            self.assertEqual(len(raised.exception.outcomes), 1500)
        self.assertEqual(list(berth.imap(lambda_free, iter(records), errors="mark", progress=False))[11:], records[11:])

    def test_a_record_keeps_a_field_that_berth_run_takes_out(self):
        self.assertEqual(self.map(mapjobs.keys, [{"_error": "old", "a": 1}]), [["_error", "a"]])

    def test_readers_and_writers(self):
        paths = []
        for n in range(20):
            paths.append(str(self.path / str(n)))
            pathlib.Path(paths[-1]).write_text(str(n))
        paths[5] += "-missing"
        for threads in (0, 4):
            got = self.map(
                mapjobs.double, paths, read=mapjobs.read, write=mapjobs.write, io_threads=threads, errors="mark", batch=4
            )
            self.assertEqual(got[4], {"written": 8})
            self.assertIn("FileNotFoundError", got[5]["_error"])
            self.assertEqual(got[3], {"_input": paths[3], "_error": "OSError: no room"})
            self.assertEqual(sum("written" in outcome for outcome in got), 18)

    def test_io_threads_only_decode_if_nothing_is_read(self):
        for threads in (0, 1, 4):
            self.assertEqual(self.map(mapjobs.kinds, [1, "a", [2], {"b": 3}], io_threads=threads), ["int", "str", "list", "dict"])

    def test_threads_where_something_is_read(self):
        [none] = self.map(mapjobs.threads, [1], io_threads=0)
        self.assertEqual(self.map(mapjobs.threads, [1]), [none])
        self.assertGreater(self.map(mapjobs.threads, [1], read=mapjobs.same)[0], none)
        self.assertGreater(self.map(mapjobs.threads, [1], io_threads=1)[0], none)

    def test_what_the_runner_says(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            berth.map(mapjobs.double, [1, 2])
        self.assertIn("2 records in ", said.getvalue())

    def test_a_function_for_one_record_is_told_of_each(self):
        for function in (mapjobs.twice, mapjobs.power, mapjobs.length, mapjobs.upper):
            with self.assertRaises(berth.MapError, msg=function.__name__) as caught:
                berth.map(function, ["a", "b", "c"], progress=False)
            self.assertIn("for one record at a time, give each=True", str(caught.exception))
            self.assertEqual(str(caught.exception).count("each=True"), 1)
        self.assertEqual(berth.map(mapjobs.upper, ["a", "b"], each=True, progress=False), ["A", "B"])

    def test_each_is_told_once(self):
        for function in (mapjobs.twice, mapjobs.length):
            said = io.StringIO()
            with contextlib.redirect_stderr(said), mock.patch.object(mapping, "HEAD_START", "0s"), self.assertRaises(berth.MapError):
                berth.map(function, ["a"] * 200, batch=1)
            self.assertEqual(said.getvalue().count("give each=True"), 1, said.getvalue())

    def test_few_records_have_one_worker(self):
        with mock.patch.object(mapping, "HEAD_START", "1h"):
            self.map(mapjobs.double, range(2000), batch=1, name="head-start")
        self.nobody_is_left()
        self.assertEqual([lease.holder.name for lease in berth.past_leases()].count("head-start"), 1)

    def test_the_head_start_is_not_inherited_by_workers(self):
        self.assertEqual(self.map(mapjobs.environment, ["BERTH_HEAD_START", "BERTH_WORKER_PROTOCOL"], each=True), [None, "1"])

    def test_a_berth_without_a_head_start(self):
        older = self.path / "older"
        older.write_text('#!/bin/sh\ncase "$*" in *--head-start*) exit 2;; esac\nunset BERTH_HEAD_START\nexec "%s" "$@"\n' % BINARY)
        older.chmod(0o755)
        with mock.patch.dict(os.environ, BERTH_BIN=str(older)):
            self.assertEqual(self.map(mapjobs.double, [1, 2]), [2, 4])

    def test_types_are_those_of_the_signature(self):
        for function in (berth.map, berth.imap):
            hints = typing.get_type_hints(mapping.Options)
            signature = typing.get_type_hints(function)
            left = set(inspect.signature(function).parameters) - set(hints)
            self.assertEqual(left, {"function", "records", "init", "each", "write", "errors"})
            self.assertEqual(hints, {name: signature[name] for name in hints})

    def test_a_worker_that_cannot_start_says_why_once(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(berth.BerthError) as caught:
            berth.map(mapjobs.with_model, [1, 2, 3], init=mapjobs.no_model)
        self.assertIn("No module named 'there_is_no_such_module'", str(caught.exception))
        self.assertEqual(said.getvalue().count("Traceback (most recent call last)"), 1)
        self.assertNotIn("mapworker.py", said.getvalue())  # frames of the package say nothing
        self.assertIn("failed with the same error as the worker before it", said.getvalue())

    def test_leases_have_the_name_of_the_function(self):
        names = set()

        def records():
            yield 1
            self.wait_until(lambda: [lease for lease in berth.leases().leases if not lease.holder.name.startswith("slot of")], "leases")
            names.update(lease.holder.name for lease in berth.leases().leases)
            yield 2

        list(berth.imap(mapjobs.double, records(), gpus=1, batch=1, progress=False))
        self.assertEqual({name.replace("slot of ", "") for name in names}, {"double"})

    def test_the_batch_has_a_name(self):
        self.map(mapjobs.double, [1])
        events = self.daemon.client.events(follow=False, code="batch")
        self.assertIn("The batch double is finished", " ".join(event["text"] for event in events))

    def test_what_the_runner_refuses(self):
        with self.assertRaisesRegex(berth.BerthError, "berth run ended with status 4: .*name~B300"):
            self.map(mapjobs.double, [1], where="name~B300")
        with self.assertRaisesRegex(berth.BerthError, "berth run ended with status 3"):
            self.map(mapjobs.double, [1], client=berth.Client(socket="/nowhere/berth.sock"))

    def test_bad_arguments(self):
        for options, text in (
            ({"errors": "ignore"}, "errors is"), ({"batch": 0}, "batch is a number from 1"), ({"gpus": "some"}, "gpus is"),
            ({"gpus": 0}, "gpus is"), ({"io_threads": -1}, "io_threads is"), ({"name": "a/b"}, "a name has"),
            ({"memory": "much"}, "not an amount"),
        ):  # fmt: skip
            with self.assertRaisesRegex(ValueError, text):
                self.map(mapjobs.double, [1], **options)
        with self.assertRaisesRegex(berth.BerthError, "is called with .*give init="):
            self.map(mapjobs.plus, [1])
        with self.assertRaisesRegex(berth.BerthError, "is a lambda"):
            self.map(lambda records: records, [1])
        with self.assertRaisesRegex(berth.BerthError, "not a URL"):
            self.map(mapjobs.double, [1], client=berth.Client(url="http://localhost:1"))
        with mock.patch.dict(os.environ, {"BERTH_BIN": "there-is-none"}):
            with self.assertRaisesRegex(berth.BerthError, "put berth into the PATH"):
                self.map(mapjobs.double, [1])
        with mock.patch.dict(os.environ, {"BERTH_WORKER_PROTOCOL": "1"}):
            with self.assertRaisesRegex(berth.BerthError, "under if __name__"):
                self.map(mapjobs.double, [1])

    def test_a_function_of_a_script(self):
        """By its source, with a model; annotations may name anything."""
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(
                "from __future__ import annotations\n"
                "import berth\n"
                "def load(): return 7\n"
                "def work(records: Unknown, k): import math; return [math.floor(r) + k for r in records]\n"
                "print(berth.map(work, [1.5, 2.5], init=load))\n"
                "def uses(records): return load()\n"
                "try: berth.map(uses, [1])\n"
                "except berth.BerthError as why: print('uses load,' in str(why))\n"
            )
            file.flush()
            done = subprocess.run(
                [sys.executable, file.name], capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ROOT}
            )
        self.assertEqual(done.stdout, "[8, 9]\nTrue\n", done.stderr)


def lambda_free(records):
    return records


class InANotebook(unittest.TestCase):
    def test_a_bar(self):
        shown = []
        display = types.ModuleType("IPython.display")
        display.HTML = str
        display.display = lambda bar, display_id: shown.append(bar) or types.SimpleNamespace(update=shown.append)
        shell = types.ModuleType("IPython")
        shell.get_ipython = lambda: types.SimpleNamespace(kernel=object())
        with mock.patch.dict(sys.modules, {"IPython": shell, "IPython.display": display}):
            bar = maprun.notebook_bar()
        self.assertTrue(bar.take("berth: 41 of 1,300 records (13 %), 8.2 records/s, <5 s left\n"))
        self.assertTrue(bar.take("berth: 1,300 of 1,300 records (100 %)\n"))
        self.assertFalse(bar.take("[worker 1, GPU 0] berth: 41 of 300 records (13 %)\n"))
        self.assertEqual(shown, [
            "<progress value=41 max=1300></progress> 41 of 1,300 records, 8.2 records/s, &lt;5 s left",
            "<progress value=1300 max=1300></progress> 1,300 of 1,300 records",
        ])  # fmt: skip

    def test_not_elsewhere(self):
        shell, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
        shell.get_ipython = lambda: object()  # a terminal
        for loaded in ({}, {"IPython": shell, "IPython.display": display}):
            with mock.patch.dict(sys.modules, loaded):
                self.assertIsNone(maprun.notebook_bar())


class Streaming(MapCase):
    def imap(self, *args, **options):
        return self.quiet(berth.imap, *args, **options)

    def test_in_order_and_not(self):
        self.assertEqual(list(self.imap(mapjobs.double, iter(range(3000)))), [2 * n for n in range(3000)])
        self.assertEqual(sorted(self.imap(mapjobs.double, iter(range(3000)), ordered=False)), [2 * n for n in range(3000)])

    def test_records_are_taken_as_they_are_needed(self):
        taken = []

        def records():
            for n in range(100000):
                taken.append(n)
                yield n

        with mock.patch.object(mapping, "AHEAD", 2):
            outcomes = self.imap(mapjobs.double, records(), batch=8)
            self.assertEqual([next(outcomes) for _ in range(50)], [2 * n for n in range(50)])
            outcomes.close()
        self.assertLess(len(taken), 1000)

    def test_a_record_that_fails_raises_in_its_turn(self):
        outcomes = self.imap(mapjobs.picky, range(100), each=True)
        self.assertEqual([next(outcomes) for _ in range(13)], list(range(13)))
        with self.assertRaisesRegex(berth.MapError, "1 record failed: record 13: ValueError: unlucky"):
            next(outcomes)
        self.assertEqual(list(outcomes), [])

    def test_records_that_fail_half_way(self):
        def records():
            yield from range(20)
            raise KeyError("the source broke")

        outcomes = self.imap(mapjobs.double, records())
        self.assertEqual([next(outcomes) for _ in range(20)], [2 * n for n in range(20)])
        with self.assertRaisesRegex(KeyError, "the source broke"):
            next(outcomes)
        with self.assertRaisesRegex(KeyError, "the source broke"):
            self.map(mapjobs.double, records())
        with self.assertRaisesRegex(KeyError, "at once"):
            self.map(mapjobs.double, self.broken())

    def broken(self):
        raise KeyError("at once")
        yield

    def test_mistakes_are_told_at_the_call(self):
        with self.assertRaises(berth.BerthError):
            berth.imap(lambda records: records, [1])

    def test_nothing_is_left_after_an_early_end(self):
        for n in self.imap(mapjobs.double, iter(range(100000))):
            if n == 20:
                break
        # the cleanup of this test looks whether anybody is left


class Stopping(MapCase):
    def arrived(self):
        self.wait_until((self.path / "arrived").exists, "a worker is at the gate")
        return int((self.path / "arrived").read_text())

    def setUp(self):
        super().setUp()
        os.mkfifo(self.path / "gate")

    def release(self):
        """Opens the gate for those who wait, and for those who come."""
        (self.path / "open").touch()
        with contextlib.suppress(OSError):
            os.close(os.open(self.path / "gate", os.O_WRONLY | os.O_NONBLOCK))

    def gone(self, pid):
        self.wait_until(lambda: not pathlib.Path("/proc/%d" % pid).exists(), "worker %d is gone" % pid)

    def test_an_interrupt(self):
        process = self.script(
            "try: berth.map(mapjobs.gated, range(10), each=True, batch=1, gpus=1)\nexcept KeyboardInterrupt: print('interrupted')"
        )
        worker = self.arrived()
        process.send_signal(signal.SIGINT)
        said = process.communicate()
        self.assertEqual(said[0], "interrupted\n")
        self.assertNotIn("broken pipe", (said[1] or "").lower())
        self.gone(worker)

    def test_a_program_that_is_killed(self):
        process = self.script("berth.map(mapjobs.gated, range(10), each=True, batch=1, gpus=1)")
        worker = self.arrived()
        process.kill()
        process.communicate()
        self.gone(worker)

    def test_a_map_with_a_name_goes_on(self):
        code = "print(berth.map(mapjobs.gated, range(10), each=True, batch=1, gpus=1, name='plate 7'))"
        process = self.script(code)
        worker = self.arrived()
        self.wait_until(lambda: pathlib.Path(kept_file("plate 7")).read_text().count("\n") > 3, "outcomes are kept")
        with self.assertRaisesRegex(berth.BerthError, "another process works on the map plate 7"):
            self.map(mapjobs.gated, range(10), each=True, name="plate 7")
        process.kill()
        process.communicate()
        self.gone(worker)
        before = self.calls()
        self.assertEqual(len(before), len(set(before)))
        self.release()
        out, err = self.script(code).communicate()
        self.assertEqual(out, "%s\n" % [2 * n for n in range(10)], err)
        self.assertEqual(sorted(self.calls()), list(range(10)))  # each of them once
        self.assertFalse(os.path.exists(kept_file("plate 7")))

    def test_what_failed_is_done_again(self):
        with self.assertRaises(berth.MapError):
            self.map(mapjobs.counted, range(8), name="again", batch=1)
        self.assertTrue(os.path.exists(kept_file("again")))
        with self.assertRaisesRegex(berth.BerthError, "begun with the function tests.mapjobs.counted, and not with"):
            self.map(mapjobs.double, range(8), name="again")
        (self.path / "mended").touch()
        (self.path / "calls").unlink()
        records = list(range(8))
        records[2] = 22  # another record than before
        self.assertEqual(self.map(mapjobs.counted, records, name="again", batch=1), mapjobs.double(records))
        self.assertEqual(sorted(self.calls()), [5, 22])
        self.assertFalse(os.path.exists(kept_file("again")))


class Speaking(unittest.TestCase):
    def test_an_error_in_two_pieces(self):
        """What berth run ended with is told whole, however the pipe cuts it."""
        text = "berth: there is no wörker\n".encode()
        for cut in range(len(text)):
            runner = maprun.Runner("map", [sys.executable, "-c", "raise SystemExit(3)"], progress=False)
            with runner:
                runner._say(text[:cut])
                runner._say(text[cut:])
                with self.assertRaisesRegex(berth.BerthError, "status 3: there is no wörker$"):
                    runner.check()
                runner._process = mock.MagicMock(**{"poll.return_value": 3})


class Gathering(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.target = self.path / "target"
        self.target.mkdir()
        for name in ("x/weights.pt", "y/weights.pt", "y/other.pt"):
            (self.path / name).parent.mkdir(exist_ok=True)
            (self.path / name).write_text(name)

    def gather(self, *names):
        maphosts.gather(str(self.target), ["tests.mapjobs"], [str(self.path / name) for name in names])

    def test_two_files_of_one_name(self):
        with self.assertRaisesRegex(berth.BerthError, "x/weights.pt and .*y/weights.pt would have one name"):
            self.gather("x/weights.pt", "y/weights.pt")

    def test_a_file_in_two_folders_of_one_name(self):
        before = os.getcwd()
        os.chdir(self.path / "x")
        self.addCleanup(os.chdir, before)
        (self.path / "x" / "y").mkdir()
        (self.path / "x" / "y" / "weights.pt").write_text("another")
        with self.assertRaisesRegex(berth.BerthError, "x/y/weights.pt and .*/y/weights.pt would have one name"):
            maphosts.gather(str(self.target), [], ["y/weights.pt", str(self.path / "y")])

    def test_a_file_that_has_the_name_of_a_module(self):
        (self.path / "tests").write_text("no folder")
        with self.assertRaisesRegex(berth.BerthError, "tests would have one name"):
            self.gather("tests")

    def test_a_file_twice(self):
        self.gather("x/weights.pt", "x/weights.pt", "y")
        self.assertEqual((self.target / "weights.pt").read_text(), "x/weights.pt")
        self.assertEqual((self.target / "y" / "other.pt").read_text(), "y/other.pt")

    def test_a_folder_and_a_file_of_it(self):
        before = os.getcwd()
        os.chdir(self.path)
        self.addCleanup(os.chdir, before)
        for names in (["y", "y/weights.pt"], ["y/weights.pt", "y"]):
            shutil.rmtree(self.target)
            self.target.mkdir()
            self.gather(*names)
            self.assertEqual(sorted(os.listdir(self.target / "y")), ["other.pt", "weights.pt"])


class Keeping(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        patch = mock.patch.dict(os.environ, {"XDG_STATE_HOME": folder.name})
        patch.start()
        self.addCleanup(patch.stop)

    def kept(self):
        kept = Kept("name", "module.function")
        self.addCleanup(kept.close)
        return kept

    def test_a_file_that_was_cut_anywhere(self):
        kept = self.kept()
        for number in range(3):
            self.assertIsNone(kept.find(number, "[%d]" % number))
            kept.add(number, b'[%d,{"a":"x,y"}]' % number)
        kept.close()
        whole = pathlib.Path(kept.path).read_bytes()
        lines = whole.splitlines(True)
        self.assertEqual(os.stat(kept.path).st_mode & 0o777, 0o600)
        for cut in range(len(whole) + 1):
            pathlib.Path(kept.path).write_bytes(whole[:cut])
            again = Kept("name", "module.function")
            found = [again.find(number, "[%d]" % number) for number in range(3)]
            for number in range(3):
                if found[number] is None:
                    again.add(number, b"[%d,1]" % number)
            again.close()
            reached = max(whole[:cut].count(b"\n") - 1, 0)
            self.assertEqual(found, [({"a": "x,y"},)] * reached + [None] * (3 - reached))
            text = pathlib.Path(kept.path).read_bytes()
            self.assertEqual(len([json.loads(line) for line in text.splitlines()]), len(lines))

    def test_a_file_that_is_none(self):
        pathlib.Path(self.kept().path).write_text("hello\n")
        with self.assertRaisesRegex(berth.BerthError, "another process"):
            Kept("name", "module.function")

    def test_a_file_that_another_process_removes_meanwhile(self):
        first, lock = self.kept(), fcntl.flock

        def finished(*args):
            if args[1] != fcntl.LOCK_UN and not first._file.closed:
                first.finish()
                first.close()
            lock(*args)

        with mock.patch("fcntl.flock", finished):
            second = self.kept()
        second.finish()
        self.assertFalse(os.path.exists(second.path))

    def test_a_file_of_somebody_else(self):
        kept = self.kept()
        kept.close()
        pathlib.Path(kept.path).write_text("hello\n")
        with self.assertRaisesRegex(berth.BerthError, "is not a file of this version"):
            Kept("name", "module.function")
