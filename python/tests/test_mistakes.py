"""Mistakes that people make, and what they are told: each answer names the next step, and
none is the message of a library."""

import operator
import os
import re
import traceback
import unittest
import warnings

import berth
from berth import mistakes

from . import mapjobs
from .daemon import DaemonCase

# What libraries say by themselves.
RAW = re.compile(
    r"expected (number|string|integer|value|length|array|boolean|object)|object has no attribute|not supported between"
    r"|could not convert|required positional argument|unexpected keyword argument|Errno|HTTPConnection|JSONDecode|Traceback"
)

# What is written, and a part of the answer that says what to do.
MISTAKES = (
    ("berth.alocate('a', 1)", "did you mean allocate?"),
    ("berth.acquire_gpu_slot()", "write with berth.lease() as gpu:"),
    ("berth.GPUManager()", "write nothing: the daemon is the manager"),
    ("berth.should_throttle_processing()", "write berth.throttle(gpu).should_throttle"),
    ("berth.register_callback('throttle', print)", "write berth.on(code, function)"),
    ("berth.run_multi_gpu(print, [])", "write berth.map(function, records, gpus=4)"),
    ("berth.allocate_memory('a', 100)", "write berth.allocate(id, memory)"),
    ("berth.get_gpu_status()", "write berth.status(gpu)"),
    ("berth.allocate('a', '1GiB', preferred_device_id=0)", "did you mean prefer?"),
    ("berth.allocate('a', required_memory_mb=4096)", "did you mean memory?"),
    ("berth.map(mapjobs.double, [1], n_gpus=4)", "did you mean gpus?"),
    ("berth.map(mapjobs.double, [1], batch_size=64)", "did you mean batch?"),
    ("berth.trend(0, duration=5)", "did you mean minutes?"),
    ("berth.allocate('a')", "write allocate(allocation_id, memory, …)"),
    ("berth.allocate('a', 100, gpus=1)", "did you mean gpu?"),
    ("berth.allocate('a', 100, colour='red')", "help(berth.allocate) lists what it takes"),
    ("berth.allocate('a', 4)", 'memory 4 has no unit: write "4GiB" or "4MiB"'),
    ("berth.lease('8')", 'memory 8 has no unit: write "8GiB" or "8MiB"'),
    ("berth.submit('true', memory=8)", 'memory 8 has no unit: write "8GiB" or "8MiB"'),
    ("berth.map(mapjobs.double, [1], memory=8)", 'memory 8 has no unit: write "8GiB" or "8MiB"'),
    ("berth.Executor(memory=8)", 'memory 8 has no unit: write "8GiB" or "8MiB"'),
    ("berth.resize('a', '8')", 'memory 8 has no unit: write "8GiB" or "8MiB"'),
    ("berth.submit('true', array=20)", "array is range(20), a list of numbers"),
    ("berth.submit('true', array=range(0))", "it has no numbers"),
    ("berth.submit('true', array=[1.5])", "array is range(20), a list of numbers"),
    ("berth.submit('true', params=[0.1])", 'params is a dictionary such as {"lr": [0.1, 0.01]}'),
    ("berth.submit('true', params={'lr': {'a': 1}})", "params: lr is a number, a text, or a list of them"),
    ("berth.submit('true', params={'lr': b'ab'})", "params: lr is a number, a text, or a list of them"),
    ("berth.submit('true', params={'lr': bytearray(b'ab')})", "params: lr is a number, a text, or a list of them"),
    ("berth.submit('true', params={'lr': [b'ab', {'a': 1}]})", "params: lr is a number, a text, or a list of them"),
    ("berth.submit('true', memroy='1GiB')", "did you mean memory?"),
    ("berth.allocate('a', 0)", "write it like 4GiB; a slot without memory is berth.lease()"),
    ("berth.allocate('a', -1)", "write it like 4GiB"),
    ("berth.allocate('a', 0.5)", "write it like 4GiB"),
    ("berth.allocate('a', None)", "write it like 4GiB"),
    ("berth.allocate('a', '4 apples')", "write it like 4GiB, 512M or 2048 (MiB)"),
    ("berth.allocate('a', '900GiB')", "ask for at most 139"),
    ("berth.allocate('', 100)", "an id is a text such as"),
    ("berth.allocate(17, 100)", "an id is a text such as"),
    ("berth.allocate('a\\nb', 100)", "cannot be printed"),
    ("berth.allocate('a', 100, gpu=9)", "Use an index (from 0 to 1) or a UUID"),
    ("berth.allocate('a', 100, gpu='cuda:0')", "Use an index (from 0 to 1) or a UUID"),
    ("berth.allocate('a', 100, binding='forever')", "write process, ttl or named"),
    ("berth.allocate('a', 100, policy='fastest')", "write least_loaded, most_free"),
    ("berth.allocate('a', 100, again=True)", "must be a text"),
    ("berth.allocate('a', 100, ttl=-1)", "it must be from 1 to"),
    ("berth.allocate('a', 100, timeout='10s')", "timeout is a number of seconds, such as 10"),
    ("berth.allocate('a', 100, parkable='maybe')", "use True, False or 'unshared'"),
    ("berth.deallocate('nobody')", "berth leases (GET /api/leases) lists the leases"),
    ("berth.release('nobody')", "berth leases (GET /api/leases) lists the leases"),
    ("berth.find_lease('')", "berth.leases() lists them"),
    ("berth.resize('nobody', '1GiB')", "berth leases (GET /api/leases) lists the leases"),
    ("berth.hold_to('nobody', 2)", "must be at most 1"),
    ("berth.status(7)", "berth status and GET /api/gpu/status/all list them"),
    ("berth.status('H200')", "Use an index (from 0 to 1) or a UUID"),
    ("berth.history(0, since='yesterday')", "5m for the last five minutes"),
    ("berth.history(0, limit=-1)", "must be at least 1"),
    ("berth.lease(memroy='1GiB')", "did you mean memory?"),
    ("berth.lease('8 gigs')", "write it like 4GiB"),
    ("berth.lease('1GiB', timeout='5s')", "timeout is a number of seconds"),
    ("berth.lease('1GiB').id", "use it in a with statement"),
    ("berth.lease(mapjobs.double)", "write @berth.lease(\"4GiB\")"),
    ("berth.lease(gpus=0).acquire()", "must be at least 1"),
    ("berth.lease(gpus=3, timeout=0).acquire()", "ask for no more"),
    ("berth.lease('1GiB', where='nmae~H200').acquire()", "use vendor=, name=, name~"),
    ("berth.lease('1GiB', priority='high').acquire()", "must be a whole number"),
    ("berth.convert([1, 2], 'torch')", "make one first"),
    ("berth.memory('pytroch')", "did you mean torch?"),
    ("berth.memory(mapjobs.double)", "@berth.memory(input=\"torch\")"),
    ("berth.compile([{'input': 'numpy'}])", "goes to POST /api/plans"),
    ("berth.compile([])", "give functions with @berth.memory(…)"),
    ("berth.map(mapjobs.double, 5)", "such as range(5)"),
    ("berth.map(5, [1])", "write def name(records)"),
    ("berth.map(lambda x: x, [1])", "write def name(records)"),
    ("berth.map(mapjobs.double, [1], gpus=0)", "a number from 1"),
    ("berth.map(mapjobs.double, [1], errors='ignore')", "\"raise\" or \"mark\""),
    ("berth.map(mapjobs.double, [1], memory='lots')", "write it like 4GiB"),
    ("berth.map(mapjobs.double, [1], workers=2)", "did you mean workers_per_gpu?"),
    ("berth.worker(mapjobs.double)", "start it with berth run"),
    ("berth.config.set('temp_throttle', 80)", "write set(NAME=…)"),
    ("berth.compile(mapjobs.double)", "give a list of steps, as in berth.compile([double])"),
    ("berth.config.set(temp_trottle=80)", "did you mean temp_throttle?"),
    ("berth.config.set(temp_throttle='hot')", "must be a number"),
    ("berth.on('critcal', print)", "did you mean critical?"),
    ("berth.on('critical', None)", "give a function to call"),
    ("berth.query('gpu_temp{')", "written in PromQL, such as"),
    ("berth.submit([])", "must not be empty"),
    ("berth.submit('true', time='4:00:00')", "time is a number of seconds, such as"),
    ("berth.submit('true', timeout='5m')", "timeout is a number of seconds, such as"),
    ("berth.find_job('')", "an id is a text such as \"train-17\", not '': berth.jobs() lists them"),
    ("berth.find_job('nobody-1')", "berth jobs --all (GET /api/jobs) lists them"),
    ("berth.jobs(state='finished')", "write held, waiting"),
    ("berth.speed(9)", "write berth.speed(gpu=9)"),
    ("berth.trim_on_request()", "take one with berth.lease(…)"),
    ("berth.adopt(999999999)", "Name a process that runs"),
    ("berth.Executor(gpus='one')", "a number from 1"),
    ("berth.Client(socket='/nope').call('GET', '/api/leases')", "start one: berth serve"),
    ("berth.Client(url='nonsense://x')", "write it like http://127.0.0.1:8000"),
    ("berth.Client(cert='a')", "give both cert and key"),
)


class Mistakes(DaemonCase):
    devices = "sim:2"

    def test_each_names_the_next_step(self):
        for code, step in MISTAKES:
            with self.subTest(code):
                with self.assertRaises(Exception) as caught:
                    eval(code, {"berth": berth, "mapjobs": mapjobs})
                said = str(caught.exception)
                self.assertIn(step, said)
                self.assertIsNone(RAW.search(said), said)
        self.assertEqual(berth.leases().leases, [])  # and none changed anything
        self.assertGreaterEqual(len(MISTAKES), 40)

    def test_refusals_show_no_frames_of_the_package(self):
        for call, want in (
            (lambda: berth.deallocate("nobody"), ["call"]), (lambda: berth.allocate("a", "4 apples"), ["call"]),
            (lambda: berth.status(9), ["call"]), (lambda: berth.lease(gpus=9, timeout=0).acquire(), ["acquire"]),
        ):  # fmt: skip
            try:
                call()
            except (berth.Problem, ValueError) as why:
                frames = traceback.extract_tb(why.__traceback__)
            package = os.path.dirname(berth.__file__)
            self.assertEqual([frame.name for frame in frames if os.path.dirname(frame.filename) == package], want)


class Earlier(unittest.TestCase):
    def test_names_lead_to_what_there_is(self):
        for name, now in mistakes.EARLIER.items():
            self.assertFalse(hasattr(berth, name))
            for path in re.findall(r"berth\.([a-z_.]+[a-z])\(", now):
                self.assertTrue(callable(operator.attrgetter(path)(berth)), now)

    def test_a_name_that_is_imported(self):
        for name, says in (("GPUManager", "the daemon is the manager"), ("acquire_gpu_slot", "write with berth.lease"), ("alocate", "did you mean allocate")):
            with self.assertRaisesRegex(ImportError, says):
                exec("from berth import " + name)
        with self.assertRaises(AttributeError):
            berth.GPUManager


class Amounts(unittest.TestCase):
    def test_decimal_amounts_are_told(self):
        from berth.memorytypes import mib

        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.assertEqual(mib("4GB"), 4096)
            self.assertEqual([str(one.message) for one in told], ["4GB is taken as 4GiB, as everywhere in berth: write 4GiB"])
            for fine in ("4GiB", "4G", "512M", "512MB", 4096):
                mib(fine)
            self.assertEqual(len(told), 1)
