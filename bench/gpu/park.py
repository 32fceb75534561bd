"""Parks and resumes programs on this machine's GPU; park.sh says how to start it.

Each part prints what it measures, and PASS or FAIL for what must be true.

driver    The process that berth-serve prove is, spoken to as the daemon does: it
          parks programs of each library, several at once, tells the driver's own
          answers, and leaves a program well whatever goes wrong.
programs  A program of each library is parked and resumed ten times by berth while
          it computes a running checksum. Every result is right, the memory is free
          in between, and berth is at most 10 % slower than the bare driver calls.
turns     Two programs of 8 GiB each take turns under memory_limit_mb 12GiB.
large     A program of 80 GiB and two jobs of 80 GiB of another service take turns.
          The machine cannot have both in its own memory: a job ends its turn by
          coming to its end.
faults    Memory of the machine runs out; a program is killed while it is parked;
          the daemon or the helper process is killed at each step.
trim      berth optimize gets back the caches of three libraries at once.
"""
import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.getcwd()
BERTH, SERVE = ROOT + "/bin/berth", ROOT + "/bin/berth-serve"
PROGRAM = ROOT + "/bench/gpu/parkprogram.py"
DEVICES = os.environ.get("DEVICES", "nvml")
SIMULATED = DEVICES.startswith("sim")
KINDS = os.environ.get("KINDS", "sim" if SIMULATED else "torch jax cupy").split()
PLAIN = "sim" if SIMULATED else "cupy"
GIB = float(os.environ.get("GIB", "4"))
DIR = tempfile.mkdtemp(prefix="bp.", dir="/tmp")  # short: the path of a socket is limited
START = time.monotonic()
failures = []
children = []


def say(*words):
    print("[%6.1f]" % (time.monotonic() - START), *words, flush=True)


def part(text):
    print("\n== " + text, flush=True)


def must(what, holds, detail=""):
    print("%s  %s%s" % ("PASS" if holds else "FAIL", what, "" if holds or detail == "" else ": %s" % (detail,)), flush=True)
    if not holds:
        failures.append(what)
    return bool(holds)


def within(seconds, true):
    """Asks until it is true, and returns the last answer."""
    last = time.monotonic() + seconds
    while True:
        answer = true()
        if answer or time.monotonic() > last:
            return answer
        time.sleep(0.05)


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Card:
    """The first GPU, as NVML has it."""

    def __init__(self):
        self.uuid = subprocess.run(["nvidia-smi", "-i", os.environ.get("GPU", "0"), "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True, check=True).stdout.strip()
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.nvml.nvmlInit_v2()
        self.handle = ctypes.c_void_p()
        if self.nvml.nvmlDeviceGetHandleByUUID(self.uuid.encode(), ctypes.byref(self.handle)) != 0:
            raise RuntimeError("NVML does not know " + self.uuid)

    def used(self):
        """How much memory is in use, in MiB."""
        m = Memory()
        self.nvml.nvmlDeviceGetMemoryInfo(self.handle, ctypes.byref(m))
        return m.used / 2**20


class SimulatedCard:
    """The first simulated GPU, as the daemon has it."""

    uuid = ""

    def used(self):
        said = berth("status", "0", "--json")
        return json.loads(said.stdout)["sample"].get("used_mb", 0) if said.returncode == 0 else 0


class Program:
    """A program that computes; under a lease if it has a name."""

    def __init__(self, kind, gib, name=None, seconds=0, flags=(), environ=None):
        self.kind, self.gib, self.name = kind, gib, name
        self.file = tempfile.mktemp(prefix="%s-" % (name or kind), dir=DIR)
        command = [sys.executable, PROGRAM, "work", kind, str(gib), self.file, str(seconds)]
        if name:
            command = [BERTH, "exec", "--name", name, "--memory", "%dMiB" % (gib * 1024 + 1024), "--gpu", "0", "--enforce", "watchdog", *flags, "--"] + command
        self.log = open(self.file + ".log", "w")
        self.p = subprocess.Popen(command, stdout=self.log, stderr=self.log, start_new_session=True, env={**os.environ, **(environ or {})})
        children.append(self.p)
        self.pid = self.p.pid  # berth exec becomes the program

    def lines(self):
        try:
            with open(self.file) as f:
                return [line.split(None, 3) for line in f.read().splitlines()]
        except OSError:
            return []

    def ready(self, seconds=120):
        return bool(within(seconds, lambda: self.lines() or self.p.poll() is not None)) and self.well()

    def rounds(self):
        return len(self.lines())

    def well(self):
        """It has computed no wrong result, and has not failed."""
        return bool(self.lines()) and all(line[2] in ("ok", "done") for line in self.lines() if len(line) > 2) and self.p.poll() in (None, 0)

    def done(self):
        return self.p.poll() is not None

    def goes_on(self, seconds=20):
        """It computes again, and is right."""
        before = self.rounds()
        return bool(within(seconds, lambda: self.rounds() > before + 1)) and self.well()

    def stays(self, seconds=0.6):
        """It computes nothing for a while; what it was about to write may come yet."""
        time.sleep(0.1)
        before = self.rounds()
        time.sleep(seconds)
        return self.rounds() == before and self.p.poll() is None

    def tail(self):
        with open(self.file + ".log") as f:
            return "%s %s" % (self.lines()[-2:], f.read()[-600:])

    def start(self):
        """When it started, in ticks since boot."""
        return int(open("/proc/%d/stat" % self.pid).read().rsplit(")", 1)[1].split()[19])

    def kill(self):
        self.p.kill()
        self.p.wait()


def bare(pid, *steps):
    """Calls the driver without berth, and returns how long each call took."""
    said = subprocess.run([sys.executable, PROGRAM, "bare", str(pid), *steps], capture_output=True, text=True)
    if said.returncode != 0:
        return {"code": said.stderr[-300:], "took": {}}
    return json.loads(said.stdout)


class Helper:
    """The process that the daemon has for the driver."""

    def __init__(self, uuid):
        environ = {k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH", "DRIVER")}
        environ.update(CUDA_VISIBLE_DEVICES=uuid, CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_CACHE_DISABLE="1", CUDA_MPS_PIPE_DIRECTORY="/nonexistent")
        begin = time.monotonic()
        self.p = subprocess.Popen([SERVE, "prove"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ, start_new_session=True)
        children.append(self.p)
        self.number = 0
        self.opened = self.say({"verb": "park", "gpu": uuid})
        self.took = time.monotonic() - begin

    def say(self, line):
        try:
            self.p.stdin.write(json.dumps(line) + "\n")
            self.p.stdin.flush()
            answer = self.p.stdout.readline()
        except OSError:
            answer = ""
        return json.loads(answer) if answer else None

    def do(self, step, *programs, fault=None):
        self.number += 1
        order = {"number": self.number, "step": step, "processes": [p if isinstance(p, dict) else {"pid": p.pid, "start": p.start()} for p in programs]}
        if fault:
            order["fault"] = {"step": step, "when": fault[0], "what": fault[1]}
        answer = self.say(order)
        return answer and answer["outcomes"]

    def states(self, *programs, step="state"):
        return [o["state"] for o in self.do(step, *programs) or []]

    def close(self):
        self.p.stdin.close()
        begin = time.monotonic()
        self.p.wait(30)
        return time.monotonic() - begin


def rate(gib, seconds):
    return "%.3f s, %.2f GiB/s" % (seconds, gib / seconds if seconds else 0)


def driver(card):
    part("the helper process alone")
    empty = card.used()
    h = Helper(card.uuid)
    if not must("it opens the driver, and says so (%.2f s)" % h.took, h.opened == {"opened": True}, h.opened or h.p.stderr.read()):
        return
    must("it takes no memory of the GPU", card.used() - empty < 16, card.used() - empty)
    sleeper = subprocess.Popen(["sleep", "1000"])
    children.append(sleeper)
    start = int(open("/proc/%d/stat" % sleeper.pid).read().rsplit(")", 1)[1].split()[19])
    said = h.states({"pid": sleeper.pid, "start": start}, {"pid": os.getpid(), "start": 1}, {"pid": 4194000, "start": 1})
    must("a process without the driver, another one of the same pid, and none", said == ["without", "gone", "gone"], said)

    for kind in KINDS:
        part("a program of %s, %g GiB, three times" % (kind, GIB))
        p = Program(kind, GIB)
        if not must("it works", p.ready(), p.tail()):
            p.kill()
            continue
        full, times = card.used(), []
        for _ in range(3):
            steps = [(step, h.do(step, p)) for step in ("lock", "checkpoint")]
            parked = card.used()
            still = p.stays()
            steps += [(step, h.do(step, p)) for step in ("restore", "unlock")]
            states = [o and o[0]["state"] for _, o in steps]
            if not must("locked, checkpointed, restored, unlocked", states == ["locked", "checkpointed", "locked", "running"], [o for _, o in steps]):
                break
            must("its memory was free in between (%d of %d MiB)" % (parked, full), parked - empty < 200, parked - empty)
            must("it did nothing then, and goes on", still and p.goes_on(), p.tail())
            times.append({step: o[0]["took_seconds"] for step, o in steps})
        for i, took in enumerate(times):
            say("time %d: lock %.3f s; out %s; back %s; unlock %.3f s" % (i + 1, took["lock"], rate(GIB, took["checkpoint"]), rate(GIB, took["restore"]), took["unlock"]))
        alone = bare(p.pid, "lock", "checkpoint", "restore", "unlock")
        must("the bare calls work too", alone["code"] == 0, alone)
        if times and alone["code"] == 0:
            for step, way in (("checkpoint", "out"), ("restore", "back")):
                mine, theirs = min(t[step] for t in times), alone["took"][step]
                say("%s: bare %s; helper %s; ratio %.2f" % (way, rate(GIB, theirs), rate(GIB, mine), mine / theirs))
        must("and it goes on", p.goes_on(), p.tail())
        p.kill()

    part("two at once")
    a, b = Program(PLAIN, 4), Program(PLAIN, 2)
    if must("both work", a.ready() and b.ready(), a.tail() + b.tail()):
        h.do("lock", a, b)
        begin = time.monotonic()
        said = h.do("checkpoint", a, b)
        took = time.monotonic() - begin
        must("both are checkpointed", [o["state"] for o in said] == ["checkpointed"] * 2, said)
        say("together %.2f s; one by one they took %s" % (took, [round(o["took_seconds"], 2) for o in said]))
        must("the longer one sets the time", took < max(o["took_seconds"] for o in said) + 0.2)
        must("both come back", h.states(a, b, step="restore") == ["locked"] * 2 and h.states(a, b, step="unlock") == ["running"] * 2)
        must("and go on", a.goes_on() and b.goes_on(), a.tail() + b.tail())

        part("the wrong order")
        for step in ("checkpoint", "restore", "unlock"):
            said = h.do(step, a)
            must("%s is refused, and nothing changes: %s" % (step, said and said[0].get("error")), said and said[0].get("code") == 401 and said[0]["state"] == "running", said)
        must("it goes on", a.goes_on(), a.tail())

        part("a program that is stopped")
        os.kill(a.pid, signal.SIGSTOP)
        within(5, lambda: open("/proc/%d/stat" % a.pid).read().rsplit(")", 1)[1].split()[0] == "T")
        begin = time.monotonic()
        said = h.do("lock", a, b)
        must("is refused at once, and the other is locked", time.monotonic() - begin < 2 and [o["state"] for o in said] == ["unknown", "locked"] and "stopped" in said[0]["error"], said)
        os.kill(a.pid, signal.SIGCONT)
        must("both go on afterwards", h.states(b, step="unlock") == ["running"] and a.goes_on() and b.goes_on(), a.tail())

        part("the helper process is killed in the middle")
        for step, then in (("checkpoint", "checkpointed"), ("restore", "locked")):
            if step == "checkpoint":
                h.do("lock", a)
            must("it is killed during %s" % step, h.do(step, a, fault=("during", "kill-helper")) is None)
            h = Helper(card.uuid)
            begin = time.monotonic()
            said = h.states(a)
            must("the driver has finished the step (asked for %.2f s)" % (time.monotonic() - begin), said == [then], said)
        must("unlocked, it goes on", h.states(a, step="unlock") == ["running"] and a.goes_on(), a.tail())

        part("the daemon goes away in the middle")
        h.do("lock", a)
        answer = threading.Thread(target=h.do, args=("checkpoint", a))
        answer.start()
        time.sleep(0.3)
        try:
            must("the helper process ends (%.2f s)" % h.close(), True)
        except subprocess.TimeoutExpired:
            must("the helper process ends", False)
        answer.join(30)
        h = Helper(card.uuid)
        must("the next one finds the program checkpointed", h.states(a) == ["checkpointed"])
        must("and brings it back", h.states(a, step="restore") == ["locked"] and h.states(a, step="unlock") == ["running"] and a.goes_on(), a.tail())

        part("a program that is killed while it is parked")
        h.do("lock", a)
        must("it is parked", h.states(a, step="checkpoint") == ["checkpointed"])
        gone = {"pid": a.pid, "start": a.start()}
        a.kill()
        must("it is gone", h.states(gone) == ["gone"] and h.states(gone, step="restore") == ["gone"])
    a.kill()
    b.kill()

    if PLAIN == "cupy":
        part("unified memory")
        p = Program("managed", 1)
        if must("it works", p.ready(), p.tail()):
            h.do("lock", p)
            said = h.do("checkpoint", p)
            must("is refused: %s" % said[0].get("error"), said[0].get("code") == 801 and said[0]["state"] == "locked", said)
            must("unlocked, it goes on", h.states(p, step="unlock") == ["running"] and p.goes_on(), p.tail())
        p.kill()
        part("no memory of the machine")
        p = Program("cupy", 4)
        if must("it works", p.ready(), p.tail()):
            starve(p)
            h.do("lock", p)
            said = h.do("checkpoint", p)
            must("is refused: %s" % said[0].get("error"), said[0].get("code") == 2 and said[0]["state"] == "locked", said)
            must("unlocked, it goes on", h.states(p, step="unlock") == ["running"] and p.goes_on(), p.tail())
        p.kill()
    if "torch" in KINDS:
        part("a program that waits for the GPU for 20 s")
        p = Program("busy", 0)
        if must("it works", p.ready(), p.tail()):
            time.sleep(1)
            begin = time.monotonic()
            said = h.do("lock", p)
            say("after %.1f s: %s" % (time.monotonic() - begin, said))
            if said[0]["state"] == "locked":
                h.do("unlock", p)
            must("it goes on", p.goes_on(40), p.tail())
        p.kill()
    h.close()
    must("the GPU is free again", within(10, lambda: card.used() - empty < 64), card.used() - empty)


def starve(p):
    """Lets a program have 1 GiB of address space more, and no more."""
    size = next(int(line.split()[1]) * 1024 for line in open("/proc/%d/status" % p.pid) if line.startswith("VmSize"))
    resource.prlimit(p.pid, resource.RLIMIT_AS, (size + 2**30, size + 2**30))


def berth(*words, timeout=120):
    try:
        return subprocess.run([BERTH, *words], capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as e:
        return subprocess.CompletedProcess(words, 124, e.stdout or "", "no end after %d s" % timeout)


PARTS = {"driver": driver}


def main():
    parts = sys.argv[1:] or [name for name in PARTS if name != "driver"]
    for name in parts:
        if name not in PARTS:
            sys.exit("there is no part %s: %s" % (name, ", ".join(PARTS)))
    os.environ.update(BERTH_SOCKET=DIR + "/s", PYTHONPATH=ROOT + "/python")
    if SIMULATED:
        os.environ["BERTH_SIM_GUESTS"] = DIR + "/guests"
    card = SimulatedCard() if SIMULATED else Card()
    try:
        for name in parts:
            begin = time.monotonic()
            PARTS[name](card)
            say("%s took %.0f s" % (name, time.monotonic() - begin))
    finally:
        for p in children:
            if p.poll() is None:
                p.kill()
                p.wait()
        if not failures:
            shutil.rmtree(DIR, ignore_errors=True)
    part("%d claims do not hold%s" % (len(failures), "".join("\n   " + f for f in failures)))
    sys.exit(1 if failures else 0)


main()
