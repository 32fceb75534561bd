#!/usr/bin/env python3
"""Measures how soon the world finds defects that were put back.

    run.py [--wall 500] [--at-once 14] [--first 60] [--most 1200] [--only NAME,NAME] [--results FOLDER]

It stands beside world.test and names, as build.sh leaves them. Every defect is played for
--first seconds, and so is the world without any. What is left of --wall goes to the defects
that were not found, always to the one that was played least, until each has had --most
core-seconds. A defect is found with the first history that fails, ends the test, or shows no
sign of life for --still seconds. The table goes to --results, with the end of each output. It also says whether
a history came to the place of the defect at all: if not, the world lacks the trouble that leads
there; if so, and nothing was found, a check.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NONE = "(no defect)"


class Defect:
    def __init__(self, name, commit="", expected=""):
        self.name, self.commit, self.expected = name, commit, expected
        self.plays, self.histories, self.took = 0, 0, 0.0
        self.playing = []  # the plays that go on
        self.found, self.seed, self.text, self.reached = "", "", "", False


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--wall", type=float, default=500, help="seconds in all")
    p.add_argument("--at-once", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="plays at the same time, each on one core")
    p.add_argument("--first", type=float, default=60, help="seconds that every defect gets at first")
    p.add_argument("--slice", type=float, default=60, help="seconds of each play after that")
    p.add_argument("--most", type=float, default=1200, help="core-seconds that a defect gets at most")
    p.add_argument("--still", type=float, default=60, help="seconds without a new history after which one counts as found")
    p.add_argument("--operations", type=int, default=400, help="of each history")
    p.add_argument("--bare", action="store_true", help="do not play the world without a defect")
    p.add_argument("--only", default="", help="names of defects, with commas")
    p.add_argument("--seed", type=int, default=1, help="of the first history")
    p.add_argument("--results", default=os.path.join(HERE, "results"))
    return p.parse_args()


def read_names(only):
    defects = []
    with open(os.path.join(HERE, "names"), encoding="utf-8") as f:
        for line in f:
            fields = line.rstrip("\n").split("\t")
            if fields[0] and (not only or fields[0] in only):
                defects.append(Defect(*fields[:3]))
    return defects


class Play:
    """Play is one run of the test binary."""

    def __init__(self, o, defect, seconds):
        self.o, self.defect, self.seconds = o, defect, seconds
        self.cut = threading.Event()  # it is not needed any more
        # Each play of a defect begins with other seeds.
        self.seed = o.seed + defect.plays * 100_000
        defect.plays += 1
        defect.playing.append(self)

    def run(self):
        o, d = self.o, self.defect
        env = dict(os.environ, GOMAXPROCS="1", BERTH_DEFECT="" if d.name == NONE else d.name)
        command = [os.path.join(HERE, "world.test"), "-test.run", "^TestWorld$", "-test.timeout", "0", "-test.v",
                   "-world.for", f"{max(self.seconds, 0.001):.3f}s", "-world.seed", str(self.seed), "-world.operations", str(o.operations)]
        child = subprocess.Popen(command, cwd=HERE, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        lines, sign = [], [time.monotonic(), 0.0]  # when a history last began, and what the play had used by then

        def read():
            for line in child.stdout:
                lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                if lines[-1].startswith("=== RUN"):
                    sign[:] = time.monotonic(), used_by(child.pid)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        hung, left = False, set()
        while True:
            left |= folders(child.pid)
            pid, status, used = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - sign[0] > o.still:
                since = used_by(child.pid) - sign[1]
                hung = since > o.still * 0.8 or since < 1  # it turns in circles, or waits for itself; else the machine is busy
            if hung or self.cut.is_set():
                os.kill(child.pid, signal.SIGQUIT if hung else signal.SIGKILL)  # SIGQUIT tells where it stands
                deadline = time.monotonic() + 20
                while True:
                    pid, status, used = os.wait4(child.pid, os.WNOHANG)
                    if pid:
                        break
                    if time.monotonic() > deadline:
                        os.kill(child.pid, signal.SIGKILL)
                    time.sleep(0.1)
                break
            time.sleep(0.1)
        for folder in left:
            shutil.rmtree(folder, ignore_errors=True)
        reader.join(5)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.judge(lines, child.returncode, used.ru_utime + used.ru_stime, hung)

    def judge(self, lines, code, took, hung):
        d = self.defect
        d.took += took
        d.reached = d.reached or any("the defect is reached" in line for line in lines)
        seeds = [line.rsplit("/", 1)[1] for line in lines if line.startswith("=== RUN   TestWorld/")]
        seed = seeds[-1] if seeds else ""
        d.histories += len(seeds) - (self.cut.is_set() and bool(seeds))  # the last one was broken off
        # An error of the world: where, when in the history, which check, and what.
        wrong = [m for m in (re.match(r"\s*world_test\.go:\d+: ([0-9hms.µn]+): ([a-z]+): (.*)", line) for line in lines) if m]
        died = [line for line in lines if re.match(r"(panic|fatal error|runtime error|SIG[A-Z]+):", line)]
        check, text = "", ""
        if wrong:
            check, text = ", ".join(dict.fromkeys(m[2] for m in wrong)), wrong[0][3]
        elif hung:
            check, text = "does not go on", "no new history for %d s" % self.o.still
        elif code > 0 or died and not self.cut.is_set():
            check, text = "ends the test", (died + [line for line in lines if "FAIL" in line] + [f"exit code {code}"])[0]
        if not check:
            return
        with open(os.path.join(self.o.results, d.name.strip("()").replace(" ", "-") + ".txt"), "a", encoding="utf-8") as f:
            f.write(f"seed {seed}, found by: {check}\n" + "\n".join(lines[-400:]) + "\n\n")
        if not d.found:
            d.found, d.seed, d.text = check, seed, text


def used_by(pid):
    """Returns the core-seconds that a process has used so far."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


def folders(pid):
    """Returns the folders in memory that a play has open, and cannot remove once it is killed."""
    found = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                m = re.match(r"/dev/shm/berth-world-[^/]+", os.readlink(f"/proc/{pid}/fd/{fd}"))
            except OSError:
                continue
            if m:
                found.add(m[0])
    except OSError:
        pass
    return found


def next_play(o, defects, left):
    """Returns the defect to play next and for how long, or None."""
    for d in defects:
        if not d.plays:
            return d, min(o.first, left)

    def used(d):  # with what is going to be used
        return d.took + sum(p.seconds for p in d.playing)

    missing = [d for d in defects if not d.found and d.name != NONE and used(d) < o.most]
    if not missing or left < 5:
        return None
    d = min(missing, key=used)
    return d, min(o.slice, left, o.most - used(d))


def table(o, defects, began):
    rows = [("defect", "mended by", "expected", "found by", "reached", "core-seconds", "histories", "seed", "what")]
    for d in defects:
        found = d.found or ("-" if d.plays else "not played")
        rows.append((d.name, d.commit, d.expected, found, "yes" if d.reached else "no", f"{d.took:.0f}", str(d.histories), d.seed, d.text[:160]))
    real = [d for d in defects if d.name != NONE]
    hits = sorted(d.took for d in real if d.found)
    out = ["\t".join(r) for r in rows]
    out.append("")
    out.append(f"{len(hits)} of {len(real)} defects were found, half of those within {hits[len(hits) // 2]:.0f} core-seconds" if hits else f"0 of {len(real)} defects were found")
    used = sum(d.took for d in defects)
    out.append(f"{sum(d.histories for d in defects)} histories, {used:.0f} core-seconds, {time.monotonic() - began:.0f} s")
    with open(os.path.join(o.results, "table.tsv"), "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")
    return out


def main():
    o = options()
    if os.geteuid() != 0:
        sys.exit("the daemon of the world is one of root: run this as root")
    shutil.rmtree(o.results, ignore_errors=True)
    os.makedirs(o.results)
    only = {n for n in o.only.split(",") if n}
    defects = ([] if o.bare else [Defect(NONE)]) + read_names(only)
    began = time.monotonic()
    ends = began + o.wall
    running = {}
    while True:
        now = time.monotonic()
        for t in [t for t in running if not t.is_alive()]:
            play = running.pop(t)
            d = play.defect
            d.playing.remove(play)
            if d.found and d.name != NONE:
                for other in d.playing:
                    other.cut.set()
            print(f"{now - began:6.0f} s  {d.name}: {d.found or 'not found'} after {d.took:.0f} core-seconds, {d.histories} histories  {d.text[:120]}", flush=True)
            table(o, defects, began)
        if now >= ends:
            for play in running.values():
                play.cut.set()
        while now < ends and len(running) < o.at_once:
            chosen = next_play(o, defects, ends - now)
            if not chosen:
                break
            d, seconds = chosen
            play = Play(o, d, seconds)
            t = threading.Thread(target=play.run)
            t.start()
            running[t] = play
        if not running:
            break
        time.sleep(0.05)
    print()
    print("\n".join(table(o, defects, began)))


if __name__ == "__main__":
    main()
