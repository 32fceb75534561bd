"""Workers as processes of their own, spoken to as berth run does."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from berth import workers

from .daemon import BINARY, DaemonCase

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Worker:
    """A worker that runs some code."""

    def __init__(self, code, **environment):
        theirs, self._to = os.pipe()
        self._from, answers = os.pipe()
        clean = {k: v for k, v in os.environ.items() if not k.startswith("BERTH_")}
        clean.update(
            BERTH_WORKER_IN=str(theirs), BERTH_WORKER_OUT=str(answers), BERTH_WORKER_PROTOCOL="1",
            PYTHONPATH=os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")]),
        )  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import berth\n" + code], pass_fds=(theirs, answers), env={**clean, **environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        os.close(theirs)
        os.close(answers)
        self._in, self._out = open(self._to, "wb"), open(self._from, "rb")

    def hears(self):
        line = self._out.readline()
        return json.loads(line) if line else None

    def say(self, frame):
        line = frame if isinstance(frame, bytes) else json.dumps(frame, separators=(",", ":")).encode()
        self._in.write(line + b"\n")
        self._in.flush()

    def batch(self, *records, id=1):
        self.say({"type": "batch", "id": id, "records": list(records)})
        return self.hears()

    def end(self):
        """The exit status, and what was printed."""
        self._in.close()
        self._out.close()
        out, err = self.process.communicate()
        return self.process.returncode, out, err


class Speaking(unittest.TestCase):
    def start(self, code, **environment):
        worker = Worker(code, **environment)
        self.addCleanup(worker.process.kill)
        self.addCleanup(worker.process.wait)
        for file in (worker._in, worker._out, worker.process.stdout, worker.process.stderr):
            self.addCleanup(file.close)
        return worker

    def ready(self, code):
        worker = self.start(code)
        self.assertEqual(worker.hears(), {"type": "ready", "protocol": 1})
        return worker

    def test_batches(self):
        worker = self.ready("print('hello'); berth.worker(lambda records: [r * 2 for r in records]); print('over')")
        answer = {"type": "result", "id": 7, "outcomes": [2, 5.0, "abab"], "errors": {}}
        self.assertEqual(worker.batch(1, 2.5, "ab", id=7), answer)
        self.assertEqual(worker.batch(id=8)["outcomes"], [])
        worker.say({"type": "something new"})
        worker.say({"type": "bye"})
        self.assertIsNone(worker.hears())
        self.assertEqual(worker.end(), (0, "hello\nover\n", ""))

    def test_the_end_of_the_pipe_is_the_end(self):
        worker = self.ready("berth.worker(lambda records: records)")
        self.assertEqual(worker.end()[0], 0)

    def test_the_model_is_loaded_once_and_before_ready(self):
        worker = self.ready(
            "def load(): print('loaded'); return 10\n"
            "berth.worker(lambda records, model: [r + model for r in records], init=load)"
        )
        self.assertEqual(worker.batch(1)["outcomes"], [11])
        self.assertEqual(worker.batch(2)["outcomes"], [12])
        self.assertEqual(worker.end()[1], "loaded\n")

    def test_what_is_loaded_is_not_collected_again_and_again(self):
        code = "import gc\nmodel = lambda: [[i] for i in range(1000)]\nberth.worker(lambda records, model: [gc.get_freeze_count() for _ in records], init=model)"
        [frozen] = self.ready(code).batch(0)["outcomes"]
        self.assertGreater(frozen, 1000)

    def test_each(self):
        worker = self.ready("berth.worker(lambda r, m: m / r, init=lambda: 6, each=True)")
        answer = worker.batch(2, 0, 3)
        self.assertEqual(answer["outcomes"], [3, None, 2])
        self.assertEqual(answer["errors"], {"1": "ZeroDivisionError: division by zero"})

    def test_an_exception_in_the_place_of_an_outcome(self):
        worker = self.ready("berth.worker(lambda records: [ValueError('bad'), 2])")
        answer = worker.batch(1, 2)
        self.assertEqual((answer["outcomes"], answer["errors"]), ([None, 2], {"0": "ValueError: bad"}))

    def test_errors_of_a_whole_batch(self):
        for code, text in (
            ("lambda records: 1 / 0", "ZeroDivisionError: division by zero"),
            ("lambda records: None", "BerthError: <lambda> returned NoneType: " + workers.SINGLY),
        ):
            worker = self.ready("berth.worker(%s)" % code)
            self.assertEqual(worker.batch(1, 2), {"type": "error", "id": 1, "text": text})
            self.assertEqual(worker.end()[2], "")

    def test_a_wrong_number_of_outcomes_is_told(self):
        worker = self.ready("berth.worker(lambda records: records[:1])")
        said = "<lambda> returned 1 outcome for 2 records: " + workers.SINGLY
        self.assertEqual(worker.batch(1, 2), {"type": "error", "id": 1, "text": "Miscounted: " + said})
        self.assertIn(said, worker.end()[2])  # alone, each record passes

    def test_where_the_culprit_failed_is_in_the_log(self):
        worker = self.ready("def process(records): return records[0]['missing']\nberth.worker(process)")
        self.assertEqual(worker.batch({}), {"type": "error", "id": 1, "text": "KeyError: 'missing'"})
        self.assertIn("in process", worker.end()[2])

    def test_a_failure_of_every_record_is_shown_a_few_times(self):
        worker = self.ready("def process(records): return records[0]['missing']\nberth.worker(process)")
        for i in range(20):
            self.assertEqual(worker.batch({}, id=i)["text"], "KeyError: 'missing'")
        log = worker.end()[2]
        self.assertEqual(log.count("Traceback"), 3)
        self.assertIn("further failures at this place are not shown", log)

    def test_a_function_that_cannot_be_called(self):
        for call, text in (
            ("lambda records, model: records", "is called with (records): missing a required argument: 'model'; give init="),
            ("lambda records: records, init=int", "is called with (records, what init returned): too many positional arguments"),
            ("lambda: 1, each=True", "is called with (record): too many positional arguments"),
        ):
            worker = self.start("berth.worker(%s)" % call)
            self.assertIsNone(worker.hears())
            self.assertIn(text, worker.end()[2])

    def test_memory(self):
        worker = self.ready(
            "def process(records):\n    if len(records) > 1: raise MemoryError\n    return records\nberth.worker(process)"
        )
        self.assertEqual(worker.batch(1, 2), {"type": "oom", "id": 1, "text": "MemoryError"})
        self.assertEqual(worker.batch(1, id=2)["outcomes"], [1])

    def test_a_lost_device_ends_the_worker(self):
        worker = self.ready(
            "def process(records): raise RuntimeError('CUDA error: device-side assert triggered')\nberth.worker(process)"
        )
        self.assertIsNone(worker.batch(1))
        code, _, err = worker.end()
        self.assertEqual(code, 1)
        self.assertIn("device-side assert", err)

    def test_outcomes_that_are_not_json(self):
        code = (
            "class Number:\n    def __init__(self, n): self.n = n\n    def item(self): return self.n\n"
            "berth.worker(lambda records: [1, float('nan'), Number(3), {1, 2}, '\\ud800', b'x'])"
        )
        answer = self.ready(code).batch(*range(6))
        self.assertEqual(answer["outcomes"], [1, None, 3, None, "\ud800", None])
        self.assertEqual(sorted(answer["errors"]), ["1", "3", "5"])
        self.assertIn("cannot be written as JSON", answer["errors"]["3"])

    def test_records_that_are_trouble(self):
        worker = self.ready("berth.worker(lambda records: records)")
        worker.say(b'{"type":"batch","id":4,"records":[%s]}' % (b"9" * 5000))
        self.assertIn(b"[" + b"9" * 5000 + b"]", worker._out.readline())
        worker.say(b'{"type":"batch","id":5,"records":[%s%s]}' % (b"[" * 200000, b"]" * 200000))
        answer = worker.hears()
        self.assertEqual((answer["type"], answer["id"]), ("error", 5))
        self.assertIn("RecursionError", answer["text"])
        self.assertEqual(worker.batch("grüße\u2028")["outcomes"], ["grüße\u2028"])

    def test_rubbish_ends_the_worker(self):
        worker = self.ready("berth.worker(lambda records: records)")
        worker.say(b"rubbish")
        self.assertIsNone(worker.hears())
        self.assertIn("b'rubbish\\n' is not a frame", worker.end()[2])

    def test_progress(self):
        worker = self.start("berth.progress()\nberth.worker(lambda r, _: r, init=lambda: berth.progress())")
        self.assertEqual(worker.hears(), {"type": "progress"})
        self.assertEqual(worker.hears()["type"], "ready")

    def test_what_a_worker_starts_does_not_hold_its_pipes(self):
        look = (
            "import os\nnames = ['/proc/self/fd/%d' % n for n in range(3, 20)]\n"
            "print(sum(os.readlink(n).startswith('pipe:') for n in names if os.path.lexists(n)))"
        )
        code = (
            "import subprocess, sys\n"
            "look = %r\n"
            "options = dict(close_fds=False, stdout=subprocess.PIPE, text=True)\n"
            "berth.worker(lambda r: [subprocess.run([sys.executable, '-c', look], **options).stdout])" % look
        )
        self.assertEqual(self.ready(code).batch(1)["outcomes"], ["0\n"])

    def test_started_by_hand(self):
        done = subprocess.run(
            [sys.executable, "-c", "import berth; berth.worker(print)"], capture_output=True, text=True, check=False,
            env={"PYTHONPATH": ROOT},
        )  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn("start it with berth run", done.stderr)
        worker = self.start("berth.worker(print)", BERTH_WORKER_PROTOCOL="2")
        self.assertIn("install the package that came with it", worker.end()[2])


class Judging(unittest.TestCase):
    def test_out_of_memory(self):
        torch_error = type("OutOfMemoryError", (RuntimeError,), {})
        for why in (
            MemoryError(), torch_error("CUDA out of memory. Tried to allocate 8 GiB"),
            RuntimeError("CUDA error: out of memory"), RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"),
            RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate"),
        ):  # fmt: skip
            self.assertTrue(workers.out_of_memory(why), why)
        self.assertFalse(workers.out_of_memory(ValueError("memory")))

    def test_broken_device(self):
        for text in (
            "CUDA error: an illegal memory access was encountered", "cudaErrorIllegalAddress: an illegal memory access",
            "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", "CUDA error: device-side assert triggered",
        ):  # fmt: skip
            self.assertTrue(workers.broken_device(RuntimeError(text)), text)
        for text in ("cudaErrorMemoryAllocation", "no CUDA", "expected CUDA tensor"):
            self.assertFalse(workers.broken_device(RuntimeError(text)), text)


class Live(DaemonCase):
    """A run with the real runner, where this binary has one."""

    def setUp(self):
        text = subprocess.run([str(BINARY), "run", "--help"], capture_output=True, text=True, check=False)
        if text.returncode != 0 or "--input" not in text.stdout:
            self.skipTest("this binary has no berth run")

    def test_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = pathlib.Path(folder, "in.jsonl"), pathlib.Path(folder, "out.jsonl")
            script = pathlib.Path(folder, "worker.py")
            source.write_text("".join('{"n": %d}\n' % n for n in range(1000)))
            script.write_text(
                "import berth\n"
                "def process(records, base):\n"
                "    return [ValueError('odd') if r['n'] == 13 else {'n': r['n'], 'm': r['n'] + base} for r in records]\n"
                "berth.worker(process, init=lambda: 1000)\n"
            )
            command = [str(BINARY), "run", "--input", str(source), "--output", str(target), "--ordered"]
            command += ["--allow-failures", "--", sys.executable, str(script)]
            env = dict(os.environ, PYTHONPATH=ROOT)
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [json.loads(line) for line in target.read_text().splitlines()]
        self.assertEqual([r["n"] for r in lines], list(range(1000)))
        self.assertEqual(lines[13], {"n": 13, "_error": "ValueError: odd"})
        self.assertEqual(lines[999]["m"], 1999)
