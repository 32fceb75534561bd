"""Parking and sizes against a live daemon. Programs of their own use its simulated
device: berth never parks a process that the daemon descends from, as this one."""

import os
import subprocess
import sys
import threading

import berth

from . import PATIENCE
from .daemon import BINARY, DaemonCase
from .test_leases import ROOT

# A program that evaluates what it is told, line by line.
PROGRAM = """
import asyncio, os, pathlib, queue, sys
import berth

leaves, back = queue.Queue(), queue.Queue()

def uses(uuid, memory_mb):
    folder = pathlib.Path(os.environ["GUESTS"], uuid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "new").write_text('{"memory_mb": %d}' % memory_mb)
    (folder / "new").rename(folder / str(os.getpid()))

def state(of):
    return berth.find_lease(of.id).state

def used(gpu):
    with gpu.use():
        return state(gpu)

def beside(gpu, timeout=None):
    with berth.lease(memory="16MiB", timeout=timeout):
        return state(gpu)

async def loop():
    async with berth.aio.lease(memory=256, parkable=True) as gpu:
        uses(gpu.uuid, 200)
        while (await berth.aio.find_lease(gpu.id)).parts[0].measured_mb != 200:
            await asyncio.sleep(0.05)
        parked = await gpu.park()
        async with gpu.use():
            return parked.state + " " + state(gpu)

for line in sys.stdin:
    try:
        print(eval(line), flush=True)
    except berth.Problem as refused:
        print("refused:", refused.code, str(refused).replace(chr(10), " "), flush=True)
"""


class Programs(DaemonCase):
    devices = "sim:1"

    def setUp(self):
        self.served("/api/leases/{id}/park")

    def start(self, *before):
        """Starts a program, and returns a function that has it evaluate a line."""
        environment = dict(os.environ, GUESTS=self.daemon.guests, PYTHONPATH=ROOT)
        program = subprocess.Popen(
            [*before, sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.addCleanup(program.wait)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stdin.close)

        def do(line):
            program.stdin.write(line + "\n")
            program.stdin.flush()
            said = program.stdout.readline().strip()
            if said.startswith("refused: no_parking"):
                self.skipTest("this daemon parks nothing")
            return said

        return do

    def holds(self, do, made):
        """Makes a program take a lease and use memory under it. Returns its id."""
        do("globals().update(gpu=%s) or uses(gpu.uuid, 200)" % made)
        id = do("gpu.id")
        self.wait_until(lambda: berth.find_lease(id).parts[0].measured_mb == 200, "its memory is measured")
        return id


class Live(Programs):
    def test_there_and_back(self):
        do = self.start()
        id = self.holds(do, "berth.lease(memory=256, parkable=True, on_park=leaves.put, on_resume=back.put).acquire()")
        before = berth.available()[0].available_mb
        self.assertEqual(do("gpu.park('for a test').parking.host_mb"), "200")
        parked = berth.find_lease(id)
        self.assertEqual((parked.state, parked.parkable, parked.parking.times), ("parked", True, 1))
        self.assertEqual(parked.parking.reason, "for a test")
        self.assertEqual(berth.available()[0].available_mb, before + 256)
        self.assertEqual(do("leaves.get(timeout=300).lease"), id)
        self.assertEqual(do("used(gpu)"), "active")
        self.assertEqual(do("back.get(timeout=300).lease"), id)
        self.assertEqual(do("used(gpu)"), "active")  # it is here already
        self.assertEqual(berth.find_lease(id).parking.times, 1)
        self.assertIn("refused", do("gpu.resume()"))

    def test_another_lease_wakes_it(self):
        do = self.start()
        id = self.holds(do, "berth.lease(memory=256, parkable=True).acquire()")
        for timeout in ("None", "300"):
            self.assertEqual(do("gpu.park().state"), "parked")
            self.assertEqual(do("beside(gpu, %s)" % timeout), "active")
        self.assertEqual(berth.find_lease(id).parking.times, 2)

    def test_no_room_to_come_back(self):
        do = self.start()
        id = self.holds(do, "berth.lease(memory=256, parkable=True).acquire()")
        self.assertEqual(do("gpu.park().state"), "parked")
        with berth.lease(memory=berth.available()[0].available_mb):
            self.assertIn("refused", do("beside(gpu, 0)"))
            self.assertEqual(berth.find_lease(id).state, "parked")
        self.assertEqual(do("beside(gpu, 300)"), "active")

    def test_a_program_that_was_started_under_it(self):
        do = self.start(str(BINARY), "exec", "--parkable", "--memory", "256MiB", "--")
        id = self.holds(do, "berth.current()")
        try:
            self.assertEqual(berth.park(id).state, "parked")
        except berth.Problem as refused:
            if refused.code != "no_parking":
                raise
            self.skipTest("this daemon parks nothing")
        self.assertEqual(do("beside(gpu)"), "active")

    def test_released_while_it_is_parked(self):
        do = self.start()
        id = self.holds(do, "berth.lease(memory=256, parkable=True).acquire()")
        self.assertEqual(do("gpu.park().state"), "parked")
        do("gpu.release()")
        self.wait_until(lambda: id not in [held.id for held in berth.leases().leases], "it ends when it is back")
        self.assertEqual(do("berth.current()"), "None")

    def test_the_daemon_is_killed_meanwhile(self):
        do = self.start()
        id = self.holds(do, "berth.lease(memory=256, parkable=True).acquire()")
        self.assertEqual(do("gpu.park().state"), "parked")
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(berth.find_lease(id).state, "parked")
        self.assertEqual(do("used(gpu)"), "active")

    def test_with_asyncio(self):
        self.assertEqual(self.start()("asyncio.run(loop())"), "parked active")


class Turns(Programs):
    configuration = """
optimization:
  keep_seconds: 0
  park_grace_seconds: 0
  time_slice_seconds: 1
  allocation_timeout: 300
"""

    def test_two_that_do_not_fit_together(self):
        first, second = self.start(), self.start()
        made = "berth.lease(memory=%d, parkable=True).acquire()" % berth.available()[0].available_mb
        ids = [self.holds(first, made)]
        self.assertEqual(first("gpu.park().state"), "parked")  # skips where nothing is parked
        self.assertEqual(first("gpu.wake()"), "None")
        ids += [self.holds(second, made)]  # when the slice of the first has ended
        for do in (first, second, first):
            self.assertEqual(do("gpu.wake()"), "None")
        self.assertGreaterEqual(berth.find_lease(ids[0]).parking.times, 2)
        self.assertGreaterEqual(berth.find_lease(ids[1]).parking.times, 1)


class Sizes(DaemonCase):
    devices = "sim:1"

    def test_larger_waits_its_turn(self):
        self.served("/api/leases/{id}/park")  # those that do not park do not wait either
        with berth.lease(memory=256) as gpu:
            rest = berth.lease(memory=berth.available()[0].available_mb).acquire()
            self.addCleanup(rest.release)
            with self.assertRaises(berth.Problem):
                gpu.resize(512)
            self.assertEqual((gpu.memory_mb, berth.find_lease(gpu.id).memory_mb), (256, 256))
            grower = threading.Thread(target=gpu.resize, args=(512, PATIENCE))
            grower.start()
            self.wait_until(lambda: berth.leases().waiting or not grower.is_alive(), "it waits")
            self.assertEqual([waiting.for_ for waiting in berth.leases().waiting], ["resize"])
            rest.release()
            grower.join(PATIENCE)
            self.assertEqual((gpu.memory_mb, berth.find_lease(gpu.id).memory_mb), (512, 512))
            gpu.resize(128)
            self.assertEqual((gpu.memory_mb, berth.find_lease(gpu.id).memory_mb), (128, 128))

    def test_bad_sizes(self):
        with berth.lease(memory=256) as gpu:
            for memory in (0, "900GiB", -1):
                with self.subTest(memory), self.assertRaises((berth.Problem, ValueError)):
                    gpu.resize(memory)
            self.assertEqual(gpu.memory_mb, 256)
