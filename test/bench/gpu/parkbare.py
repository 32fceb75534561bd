#!/usr/bin/env python3
"""Moves the memory of programs away and back by the bare calls of the driver, without
berth, and reports how each program ended that did not go on:

    parkbare.py KIND PROGRAMS ROUNDS [SIDE_BY_SIDE]

A program that ends here ends by the driver or by its library. Compare with
`park.sh programs`, which does the same through berth.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "parkprogram.py")
GIB = os.environ.get("GIB", "4")


def lines(name):
    try:
        with open(name) as f:
            return f.read().splitlines()
    except FileNotFoundError:
        return []


def goes_on(program, name, seconds=60):
    """Reports whether the program writes another line."""
    before, end = len(lines(name)), time.monotonic() + seconds
    while time.monotonic() < end and program.poll() is None:
        if len(lines(name)) > before:
            return True
        time.sleep(0.02)
    return False


def bare(pid, *steps):
    said = subprocess.run([sys.executable, PROGRAM, "bare", str(pid), *steps], capture_output=True, text=True, check=False)
    return json.loads(said.stdout) if said.returncode == 0 else {"code": said.stderr[-200:]}


def one(kind, rounds, folder, number):
    name = os.path.join(folder, "%s-%d" % (kind, number))
    with open(name + ".err", "w") as err:
        env = dict(os.environ, PYTHONFAULTHANDLER="1")
        program = subprocess.Popen([sys.executable, PROGRAM, "work", kind, GIB, name], stdout=err, stderr=err, env=env)
    try:
        if not goes_on(program, name, 120):
            return number, "never began", program.poll(), lines(name + ".err")[-5:]
        for i in range(rounds):
            away = bare(program.pid, "lock", "checkpoint")
            time.sleep(0.3)
            back = bare(program.pid, "restore", "unlock")
            if away["code"] or back["code"]:
                return number, "round %d: %s %s" % (i + 1, away, back), program.poll(), lines(name + ".err")[-5:]
            if not goes_on(program, name):
                return number, "round %d: does not go on" % (i + 1), program.poll(), lines(name + ".err")[-5:] + lines(name)[-1:]
        return number, "fine", None, []
    finally:
        program.kill()
        program.wait()


def main():
    kind, programs, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    side = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(side) as pool:
        ends = [f.result() for f in [pool.submit(one, kind, rounds, folder, i) for i in range(programs)]]
    for number, what, status, said in ends:
        if what != "fine":
            print("%s %d: %s; exit status %s" % (kind, number, what, status), *said, sep="\n  ")
    fine = sum(1 for e in ends if e[1] == "fine")
    print("%s: %d of %d programs went on after each of %d rounds" % (kind, fine, programs, rounds))
    sys.exit(fine != programs)


main()
