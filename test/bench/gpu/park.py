"""Parks and resumes programs on this machine's GPU; park.sh says how to start it.

Each part prints what it measures, and PASS or FAIL for what must be true.

driver    The process that berth-serve prove is, spoken to as the daemon does: it
          parks programs of each library, several at once, tells the driver's own
          answers, and leaves a program well whatever goes wrong.
programs  A program of each library is parked and resumed ten times by berth while
          it computes a running checksum. Every result is right, the memory is free
          in between, and berth is at most 10 % slower than the bare driver calls.
parts     Where the time of a round goes: the bare calls, the same calls in the helper
          process with all that it does around them, and the daemon, in turns.
turns     Two programs of 8 GiB each take turns under memory_limit_mb 12GiB.
idle      A program that rests makes room for one that waits.
large     A program of 80 GiB and two jobs of 80 GiB of another service take turns.
          The machine cannot have both in its own memory: a job ends its turn by
          coming to its end.
faults    Memory of the machine runs out; a program is killed while it is parked;
          the daemon or the helper process is killed at each step.
trim      berth optimize gets back the caches of three libraries at once.
wake      Programs that use berth.current() wake when they are asked something.
kinds     CUDA graphs, pinned memory, cuDNN, eight streams, torch.compile, forked data
          loaders, NCCL with one rank and two spawned processes are each parked three
          times, with every result right. Programs that share memory by CUDA IPC, in
          one lease, in two, and with a parent outside of any, are refused and not
          touched.
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
PROGRAM = ROOT + "/test/bench/gpu/parkprogram.py"
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
        time.sleep(1.2)  # the daemon reads it once a second
        said = berth("status", "0", "--json")
        return json.loads(said.stdout)["sample"]["memory_used_mb"] if said.returncode == 0 else 0


class Program:
    """A program that computes; under a lease if it has a name."""

    def __init__(self, kind, gib, name=None, seconds=0, flags=(), environ=None, by=()):
        self.kind, self.gib, self.name = kind, gib, name
        self.file = tempfile.mktemp(prefix="%s-" % (name or kind), dir=DIR)
        command = [sys.executable, PROGRAM, "work", kind, str(gib), self.file, str(seconds)]
        if kind == "share":
            command = [sys.executable, PROGRAM, "share", str(gib), self.file, *by]
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
        return bool(within(seconds, lambda: self.rounds() or self.p.poll() is not None)) and self.well()

    def rounds(self):
        """How many rounds are done, by the process that has done the fewest."""
        names = {"spawned": ("one", "two"), "share": ("parent", "child")}.get(self.kind, ())
        return min((sum(line[3:] == [name] for line in self.lines()) for name in names), default=len(self.lines()))

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
        gib = (full - empty) / 1024
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
            say("time %d: lock %.3f s; out %s; back %s; unlock %.3f s" % (i + 1, took["lock"], rate(gib, took["checkpoint"]), rate(gib, took["restore"]), took["unlock"]))
        alone = bare(p.pid, "lock", "checkpoint", "restore", "unlock")
        must("the bare calls work too", alone["code"] == 0, alone)
        if times and alone["code"] == 0:
            for step, way in (("checkpoint", "out"), ("restore", "back")):
                mine, theirs = min(t[step] for t in times), alone["took"][step]
                say("%s: bare %s; helper %s; ratio %.3f" % (way, rate(gib, theirs), rate(gib, mine), mine / theirs))
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


def middle(column):
    return sorted(column)[len(column) // 2]


def failed(said):
    """What a command said that failed."""
    return "exit %d: %s" % (said.returncode, (said.stderr or said.stdout).strip()[-500:])


class Daemon:
    """A daemon that is started, killed and started again on the same state."""

    number = 0

    def __init__(self, gpu=None, optimization=None, services=None):
        Daemon.number += 1
        self.state = "%s/state%d" % (DIR, Daemon.number)
        self.config = self.state + ".yaml"
        with open(self.config, "w") as f:  # JSON is YAML
            json.dump({"gpu": gpu or {}, "optimization": {"park_grace_seconds": 0, **(optimization or {})}, "services": services or {}}, f)
        self.p = None

    def start(self, fault=""):
        environ = dict(os.environ)
        if fault:
            environ["BERTH_PARK_FAULT"] = fault
        self.log = open(self.state + ".log", "a")
        self.p = subprocess.Popen([BERTH, "serve", "--config", self.config, "--devices", DEVICES, "--listen", "", "--state-dir", self.state], stdout=self.log, stderr=self.log, env=environ)
        children.append(self.p)
        return bool(within(40, lambda: self.p.poll() is not None or berth("leases").returncode == 0)) and self.p.poll() is None

    def died(self, seconds=60):
        return within(seconds, lambda: self.p.poll() is not None)

    def stop(self):
        if self.p.poll() is None:
            self.p.terminate()
            self.p.wait()

    def tail(self):
        with open(self.state + ".log") as f:
            return f.read()[-1500:]


def leases():
    said = berth("leases", "--json")
    return json.loads(said.stdout)["leases"] if said.returncode == 0 else []


def lease(name):
    """The lease of a program; empty: it has none."""
    return next((x for x in leases() if x["holder"].get("name") == name and x["state"] != "waiting"), {})


def state(name):
    return lease(name).get("state", "none")


def moving(name):
    return (lease(name).get("parking") or {}).get("moving_seconds", 0)


def events(*codes):
    said = berth("events", "--json")
    return [e for e in map(json.loads, said.stdout.splitlines()) if e["code"] in codes] if said.returncode == 0 else []


def bare_round(card, p, alone):
    """Moves the memory of a program away and back by the bare calls, with the same looks
    between them as a round of berth has, because a device that rests gets slower; adds
    what they took. Reports whether the driver did it and the program goes on: with JAX it
    does not always, because nobody holds the threads of the program meanwhile."""
    away = bare(p.pid, "lock", "checkpoint")
    card.used(), p.stays(0.2)
    back = bare(p.pid, "restore", "unlock")
    if away["code"] == 0 and back["code"] == 0 and p.goes_on():
        alone.append({"took": away["took"] | back["took"]})
        return True
    say("the bare calls failed, without berth: %s, %s, %s" % (away, back, p.tail()))
    return False


def programs(card):
    d = Daemon(optimization={"park_host_mb": "60GiB"})
    part("programs that are parked and resumed ten times")
    if not must("a daemon starts", d.start(), d.tail()):
        return
    for kind in KINDS:
        part("%s, %g GiB" % (kind, GIB))
        empty = card.used()
        p = Program(kind, GIB, name=kind, flags=["--parkable"])
        if not must("it works under a lease", p.ready(), p.tail()):
            p.kill()
            continue
        full, rows, id = card.used(), [], lease(kind)["id"]
        gib = (full - empty) / 1024
        alone, bare_works = [], not SIMULATED  # the bare calls between the times of berth: the machine does not stay as fast as it is
        for i in range(10):
            if bare_works and not bare_round(card, p, alone):
                bare_works = False  # whatever state the program is in: go on with another one
                p.kill()
                within(10, lambda: state(kind) == "none")
                p = Program(kind, GIB, name=kind, flags=["--parkable"])
                if not must("another one works under a lease", p.ready(), p.tail()):
                    break
                id = lease(kind)["id"]
            before, begin = moving(kind), time.monotonic()
            said = berth("park", id)
            out = time.monotonic() - begin
            if not must("parked", said.returncode == 0, failed(said)):
                break
            used, out_moving, still, now = card.used(), moving(kind) - before, p.stays(0.2), state(kind)
            before, begin = moving(kind), time.monotonic()
            said = berth("resume", id)
            back = time.monotonic() - begin
            good = said.returncode == 0 and now == "parked" and used - empty < 200 and still and p.goes_on()
            if not must("time %d: its memory was free (%d of %d MiB), it did nothing, and goes on" % (i + 1, used, full), good, (failed(said), now, used - empty, still, p.tail())):
                break
            rows.append((out, back, out_moving, moving(kind) - before))
        if SIMULATED or not rows:
            p.kill()
            continue
        # Between two rounds of the same calls, the driver's own time differs by a fifth and
        # more, so what berth adds is in the shortest times, and not in the middle ones.
        for way, step, other, i in (("out", "checkpoint", "lock", 0), ("back", "restore", "unlock", 1)):
            if not alone:
                break
            each, mine, wall = ([f(x) for x in xs] for f, xs in ((lambda a: a["took"][step] + a["took"][other], alone), (lambda r: r[i + 2], rows), (lambda r: r[i], rows)))
            say("%s: bare calls %s (%.3f to %.3f s); berth moved it in %s (%.3f to %.3f s); the command took %s; middle over middle %.3f, shortest over shortest %.3f"
                % (way, rate(gib, middle(each)), min(each), max(each), rate(gib, middle(mine)), min(mine), max(mine), rate(gib, middle(wall)), middle(mine) / middle(each), min(mine) / min(each)))
            must("%s: at most 10 %% slower than the bare calls" % way, 0 < min(mine) <= 1.1 * min(each), min(mine) / min(each))
        must("every result is right, %d rounds" % p.rounds(), p.goes_on(), p.tail())
        p.kill()
        must("its lease ends with it", within(10, lambda: state(kind) == "none"), leases())
    d.stop()


def parts(card):
    d = Daemon(optimization={"park_host_mb": "60GiB"})
    if not must("a daemon starts", d.start(), d.tail()):
        return
    for kind in KINDS:
        part("where the time of a round goes: %s, %g GiB" % (kind, GIB))
        p = Program(kind, GIB, name=kind, flags=["--parkable"])
        if not must("it works under a lease", p.ready(), p.tail()):
            p.kill()
            continue
        id, found = lease(kind)["id"], {}

        def add(who, way, seconds):
            found.setdefault((way, who), []).append(seconds)

        def helped(way, steps):
            begin = time.monotonic()
            h = Helper(card.uuid)
            add("helper opens", way, time.monotonic() - begin)
            for step in ("state", *steps):
                begin = time.monotonic()
                said = h.do(step, p)
                add("helper, order " + step, way, time.monotonic() - begin)
                if step != "state":
                    add("helper, call " + step, way, said[0].get("took_seconds", 0))
            add("helper closes", way, h.close())

        for _ in range(5):
            alone = []
            if not must("the bare calls work", bare_round(card, p, alone)):
                break
            for way, steps in (("out", ("lock", "checkpoint")), ("back", ("restore", "unlock"))):
                for step in steps:
                    add("bare " + step, way, alone[0]["took"][step])
            helped("out", ("lock", "checkpoint"))
            card.used(), p.stays(0.2)
            helped("back", ("restore", "unlock"))
            must("it goes on after the helper", p.goes_on(), p.tail())
            for way, act in (("out", "park"), ("back", "resume")):
                before, begin = moving(kind), time.monotonic()
                must("berth %s" % act, berth(act, id).returncode == 0)
                add("command", way, time.monotonic() - begin)
                add("daemon's moving_seconds", way, moving(kind) - before)
                card.used(), p.stays(0.2) if way == "out" else p.goes_on()
        for (way, who), each in sorted(found.items()):
            say("%-4s  %-26s middle %.3f s (%.3f to %.3f)" % (way, who, middle(each), min(each), max(each)))
        p.kill()
    d.stop()


class Peak:
    """The most memory that is in use while others look away."""

    def __init__(self, card):
        self.most, self.over = 0, threading.Event()
        self.thread = threading.Thread(target=self.watch, args=(card,))
        self.thread.start()

    def watch(self, card):
        while not self.over.wait(0.5 if SIMULATED else 0.05):
            self.most = max(self.most, card.used())

    def end(self):
        self.over.set()
        self.thread.join()
        return self.most


def counts():
    """How often leases were parked and resumed."""
    return len(events("lease_parked")), len(events("lease_resumed"))


def turns(card):
    part("two programs of 8 GiB take turns in 12 GiB")
    slice_, work = (4, 20)
    d = Daemon(gpu={"memory_limit_mb": "12GiB"}, optimization={"park_host_mb": "40GiB", "keep_seconds": 2, "time_slice_seconds": slice_, "park_idle_after": 3600})
    if not must("a daemon starts", d.start(), d.tail()):
        return
    empty, begin = card.used(), time.monotonic()
    peak, most_moving = Peak(card), {}
    both = {n: Program(PLAIN, 8, name=n, seconds=work, flags=["--parkable", "--timeout", "10m"]) for n in ("first", "second")}
    both["first"].ready()
    last = time.monotonic() + 280
    while time.monotonic() < last and not all(p.done() for p in both.values()):
        for n in both:
            most_moving[n] = max(most_moving.get(n, 0), moving(n))
        time.sleep(0.5)
    took = time.monotonic() - begin
    for n, p in both.items():
        must("%s came to its end, every result right (%d rounds)" % (n, p.rounds()), p.p.poll() == 0 and p.well() and p.lines()[-1][2] == "done", p.tail())
    parked, resumed = counts()
    must("many turns: parked %d times, resumed %d times" % (parked, resumed), parked >= 6 and parked == resumed, (parked, resumed))
    moved = sum(most_moving.values())
    say("%.1f s in all, %.1f s of work, %.1f s of moving (%.0f %%), %.1f s of the rest" % (took, 2 * work, moved, 100 * moved / took, took - 2 * work - moved))
    gaps = {n: longest_gap(p) for n, p in both.items()}
    say("longest time without work: %s" % gaps)
    must("nobody waits much longer than a slice and the moving", all(g < slice_ + 25 for g in gaps.values()), gaps)
    most = peak.end() - empty
    must("never more than 12 GiB on the card, contexts aside (%d MiB)" % most, most < 12 * 1024 + 1200, most)
    must("nothing is left", within(10, lambda: not leases() and card.used() - empty < 200), (leases(), card.used() - empty))
    for p in both.values():
        if not p.done():
            p.kill()
    d.stop()


def idle(card):
    part("a program that rests makes room for one that waits, long before its time is over")
    d = Daemon(gpu={"memory_limit_mb": "12GiB"}, optimization={"park_host_mb": "40GiB", "keep_seconds": 2, "time_slice_seconds": 120, "park_idle_after": 3})
    if not must("a daemon starts", d.start(), d.tail()):
        return
    rests = Program(PLAIN, 8, name="rests", flags=["--parkable", "--timeout", "10m"], environ={"RESTS": "45"})
    must("it works, and rests", rests.ready() and within(30, lambda: rests.rounds() >= 20), rests.tail())
    begin = time.monotonic()
    works = Program(PLAIN, 8, name="works", seconds=5, flags=["--parkable", "--timeout", "10m"])
    parked = within(60, lambda: state("rests") in ("parking", "parked"))
    took = time.monotonic() - begin
    must("it is parked %.1f s after the other one asked: park_idle_after is 3" % took, parked and took < 15, (took, lease("rests")))
    must("the other one works, to its end", within(90, works.done) and works.p.poll() == 0 and works.well(), works.tail())
    must("then the first comes back, and goes on", within(60, lambda: state("rests") == "active") and rests.goes_on(90), (lease("rests"), rests.tail()))
    rests.kill()
    d.stop()


def longest_gap(p):
    times = [float(line[0]) for line in p.lines()]
    return round(max((b - a for a, b in zip(times, times[1:])), default=0), 1)


def large(card):
    gib = float(os.environ.get("LARGE", "80"))
    part("a program of %g GiB and two jobs of %g GiB take turns" % (gib, gib))
    d = Daemon(gpu={"memory_limit_mb": "%dGiB" % (1.7 * gib)}, optimization={"park_host_mb": "%dGiB" % (gib + 8), "keep_seconds": 3, "time_slice_seconds": 5, "park_idle_after": 3600})
    if not must("a daemon starts", d.start(), d.tail()):
        return
    empty, begin = card.used(), time.monotonic()
    first = Program(PLAIN, gib, name="first", seconds=18, flags=["--parkable", "--timeout", "10m"])
    must("the program works", first.ready(), first.tail())
    most = 0
    for i in (1, 2):
        job = Program(PLAIN, gib, name="job%d" % i, seconds=6, flags=["--parkable", "--timeout", "10m"])
        asked = time.monotonic()
        while not job.done() and time.monotonic() - begin < 400:
            most = max(most, moving("first"))
            time.sleep(0.5)
        must("job %d came to its end, every result right (%.1f s after it was asked for)" % (i, time.monotonic() - asked), job.p.poll() == 0 and job.well(), job.tail())
        if job.p.poll() is None:
            job.kill()
            break
        must("the program is resumed", within(60, lambda: state("first") in ("active", "none")), lease("first"))
        must("and goes on", first.goes_on(60), first.tail())
    must("it comes to its end, every result right", within(60, first.done) and first.p.poll() == 0 and first.well(), first.tail())
    parked, resumed = counts()
    must("two turns of the jobs, and of the program between: parked %d times, resumed %d times" % (parked, resumed), parked >= 2 and parked == resumed)
    say("moving took %.1f s; each time, %g GiB went out and back" % (most, gib))
    must("nothing is left", within(20, lambda: not leases() and card.used() - empty < 200), (leases(), card.used() - empty))
    if not first.done():
        first.kill()
    d.stop()


# Where the daemon is killed: for each step, before it, while the driver is at work,
# and after it.
KILLS = ["lock:before", "lock:after", "checkpoint:before", "checkpoint:during", "checkpoint:after", "restore:before", "restore:during", "restore:after", "unlock:before", "unlock:after"]
WRONGS = ["lock:before:kill-helper", "lock:before:error", "checkpoint:during:kill-helper", "checkpoint:before:error", "checkpoint:after:error", "restore:during:kill-helper", "unlock:before:kill-helper", "lock:before:hang"]


def faults(card):
    part("memory of the machine that runs out")
    d = Daemon(optimization={"park_host_mb": "1GiB"})
    must("a daemon starts", d.start(), d.tail())
    empty = card.used()
    p = Program(PLAIN, 2, name="prog", flags=["--parkable"])
    if not must("a program of 2 GiB works", p.ready(), p.tail()):
        return
    id = lease("prog")["id"]
    said = berth("park", id)
    must("it is not parked in 1 GiB: %s" % said.stderr.strip(), said.returncode != 0 and state("prog") == "active" and p.goes_on(), failed(said))
    d.stop()
    d = Daemon(optimization={"park_host_mb": "8GiB"})
    p.kill()
    must("another daemon starts", d.start(), d.tail())
    p = Program(PLAIN, 2, name="prog", flags=["--parkable"])
    must("a program works", p.ready(), p.tail())
    id = lease("prog")["id"]
    if not SIMULATED:
        starve(p)
        said = berth("park", id)
        must("one that may have no more memory is not parked: %s" % said.stderr.strip(), said.returncode != 0 and state("prog") == "active" and p.goes_on(), failed(said))
        must("its memory is still there", card.used() - empty > 2048)
        p.kill()
        within(10, lambda: state("prog") == "none")
        p = Program(PLAIN, 2, name="prog", flags=["--parkable"])
        must("a program works", p.ready(), p.tail())
        id = lease("prog")["id"]

    part("a program that is killed while it is parked")
    said = berth("park", id)
    must("it is parked", said.returncode == 0 and state("prog") == "parked", failed(said))
    p.kill()
    must("its lease ends, and nothing is left", within(10, lambda: state("prog") == "none" and card.used() - empty < 200), leases())

    part("kill -9 of the daemon")
    p = Program(PLAIN, 1, name="prog", flags=["--parkable"])
    must("a program of 1 GiB works", p.ready(), p.tail())
    id = lease("prog")["id"]
    said = berth("park", id)
    must("it is parked", said.returncode == 0, failed(said))
    d.p.kill()
    d.p.wait()
    must("while it is parked: another daemon starts", d.start(), d.tail())
    must("finds it parked, with its memory away", within(10, lambda: state("prog") == "parked") and card.used() - empty < 200 and p.stays(), leases())
    said = berth("resume", id)
    must("and resumes it", said.returncode == 0 and state("prog") == "active" and p.goes_on(), failed(said))
    for fault in [k + ":kill-daemon" for k in KILLS] + WRONGS:
        if not one_fault(card, d, p, id, fault, empty):
            break
    p.kill()
    must("its lease ends with it", within(10, lambda: state("prog") == "none" and card.used() - empty < 200), leases())
    d.stop()


def one_fault(card, d, p, id, fault, empty):
    """Parks and resumes a program, and lets something go wrong once. Afterwards, the
    book and the program agree, and the program computes on."""
    begin = time.monotonic()
    kills = fault.endswith("kill-daemon")
    resuming = fault.startswith(("restore", "unlock"))
    d.stop()
    if not must("%s: the daemon starts" % fault, d.start(fault + ":1"), d.tail()):
        return False
    said = berth("park", id)
    if resuming:
        if not must("%s: it is parked" % fault, said.returncode == 0, failed(said)):
            return False
        said = berth("resume", id)
    if kills:
        must("%s: the daemon is dead" % fault, d.died() and d.p.returncode == -signal.SIGKILL, failed(said))
        must("%s: another one starts" % fault, d.start(), d.tail())
    want = ("active",) if resuming else ("active", "parked")
    now = within(60, lambda: state("prog") in want and state("prog"))
    if now == "parked":
        agrees = card.used() - empty < 200
        said = berth("resume", id)
        agrees = agrees and said.returncode == 0
    else:
        agrees = True
    good = now in want and agrees and p.goes_on(30) and within(10, lambda: card.used() - empty > 1000) and state("prog") == "active" and len(leases()) == 1
    return must("%s: the lease became %s, and the program computes on (%.1f s)" % (fault, now, time.monotonic() - begin), good, (failed(said), leases(), card.used() - empty, p.tail(), d.tail()))


def trim(card):
    part("caches of three libraries, and a program that does not answer")
    limit = 4
    d = Daemon(optimization={"trim_timeout": limit})
    if not must("a daemon starts", d.start(), d.tail()):
        return
    kinds = [("torch", 3, ""), ("cupy", 2, ""), ("jax", 1, ""), ("torch", 1, "deaf")]
    files = []
    for kind, gib, deaf in kinds:
        name = deaf or kind
        file = "%s/cache-%s" % (DIR, name)
        log = open(file + ".log", "w")
        p = subprocess.Popen([BERTH, "exec", "--name", name, "--memory", "5GiB", "--gpu", "0", "--enforce", "watchdog", "--", sys.executable, PROGRAM, "cache", kind, str(gib), file] + ([deaf] if deaf else []), stdout=log, stderr=log, start_new_session=True)
        children.append(p)
        files.append((name, file, p))
    ready = within(120, lambda: all(os.path.exists(f) for _, f, _ in files))
    if not must("four programs keep caches", ready, [open(f + ".log").read()[-300:] for _, f, _ in files if not os.path.exists(f)]):
        return
    cached = {name: json.load(open(f))["cached"] / 2**20 for name, f, _ in files}
    say("they keep, in MiB: %s" % {k: round(v) for k, v in cached.items()})
    time.sleep(1)  # they begin to listen
    before, begin = card.used(), time.monotonic()
    said = berth("optimize", "--json")
    took, after = time.monotonic() - begin, card.used()
    if must("berth optimize works (%.1f s)" % took, said.returncode == 0, failed(said)):
        answer = json.loads(said.stdout[said.stdout.index("{"):])
        rung = next((r for r in answer["rungs"] if r["name"] == "trim"), {})
        say(json.dumps(rung, indent=1))
        freed = before - after
        say("NVML: %.0f MiB before, %.0f MiB after: %.0f MiB less" % (before, after, freed))
        listening = cached["torch"] + cached["cupy"]
        must("what the two that can give back kept is free (%.0f of %.0f MiB)" % (freed, listening), freed >= 0.95 * listening)
        must("berth says what was measured (%s MiB)" % rung.get("freed_mb"), abs(rung.get("freed_mb", -1) - freed) <= 64)
        must("the one that does not answer costs no more than the limit", took < limit + 4, took)
        must("and keeps its cache", freed < listening + 0.5 * cached["deaf"] + 200)
    for _, _, p in files:
        must("the program lives", p.poll() is None)
        p.kill()
    d.stop()


def wake(card):
    part("programs that wake by themselves")
    d = Daemon()
    if not must("a daemon starts", d.start(), d.tail()):
        return
    for kind in KINDS:
        empty = card.used()
        log = open("%s/wake-%s.log" % (DIR, kind), "w")
        p = subprocess.Popen([BERTH, "exec", "--parkable", "--name", kind, "--memory", "4GiB", "--gpu", "0", "--enforce", "watchdog", "--", sys.executable, PROGRAM, "serve", kind, "1"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        children.append(p)

        def answer():
            p.stdin.write("\n")
            p.stdin.flush()
            return p.stdout.readline().strip()

        if not must("%s: it answers" % kind, answer() == "ok", open(log.name).read()[-500:]):
            continue
        id = next(one["id"] for one in leases() if one["id"].startswith(kind))
        for n in range(1, 4):
            said = berth("park", id)
            free = card.used() - empty < 700  # the contexts of others aside
            begin = time.monotonic()
            good = said.returncode == 0 and state(kind) == "parked" and free and answer() == "ok" and state(kind) == "active"
            must("%s: time %d: parked, it wakes and answers (%.1f s)" % (kind, n, time.monotonic() - begin), good, (failed(said), state(kind), card.used() - empty, open(log.name).read()[-500:]))
        p.stdin.close()
        must("%s: it ends, and its lease with it" % kind, p.wait(60) == 0 and within(10, lambda: not leases()))
    d.stop()


# The kinds of program without shared memory, and how often each is parked.
WAYS = ["sim", "spawned"] if SIMULATED else ["graphs", "pinned", "cudnn", "streams", "compile", "loaders", "nccl", "spawned"]
TIMES = 3


def kinds(card):
    part("kinds of programs, parked %d times each" % TIMES)
    d = Daemon(optimization={"park_host_mb": "60GiB"})
    if not must("a daemon starts", d.start(), d.tail()):
        return
    for kind in WAYS:
        empty, begin = card.used(), time.monotonic()
        p = Program(kind, 0.5, name=kind, flags=["--parkable", "--memory", "6GiB"])
        if not must("%s: it works" % kind, p.ready(), p.tail()):
            p.kill()
            continue
        id, full, flags = lease(kind)["id"], card.used(), []
        if kind == "spawned":
            refused("two processes, and nobody says that they share nothing", p, [kind])
            flags = ["--unshared"]
        for n in range(1, TIMES + 1):
            said = berth("park", id, *flags)
            now, used, still = lease(kind), card.used(), p.stays(0.3)
            ground = (now.get("parking") or {}).get("unshared_by")
            back = berth("resume", id)
            good = said.returncode == 0 and now.get("state") == "parked" and ground == ("owner" if flags else "alone") and used - empty < 200 and still and back.returncode == 0 and p.goes_on()
            if not must("%s: time %d: parked (%d of %d MiB in use then), and goes on, every result right" % (kind, n, used, full), good, (failed(said), failed(back), now, used - empty, still, p.tail(), d.tail())):
                break
        say("%s: %.1f s, %d rounds" % (kind, time.monotonic() - begin, p.rounds()))
        end(p)
        within(10, lambda: not leases())
    part("programs that share memory by CUDA IPC")
    exec_ = [BERTH, "exec", "--name", "child", "--memory", "3GiB", "--gpu", "0", "--enforce", "watchdog", "--parkable", "--"]
    device = json.loads(berth("status", "0", "--json").stdout)["device"]["uuid"]
    for what, name, by, names in (
        ("parent and child in one lease", "both", (), ["both"]),
        ("parent and child in two leases", "parent", exec_, ["parent", "child"]),
        ("a child with a lease, a parent without", None, exec_, ["child"]),
    ):
        p = Program("share", 0.5, name=name, by=by, flags=["--parkable", "--memory", "6GiB"], environ={"CUDA_VISIBLE_DEVICES": device, "BERTH_SOCKET": DIR + "/s"})
        if must("%s: they work" % what, p.ready(), p.tail()):
            refused(what, p, names)
            refused(what + ", and the owner says that nothing is shared", p, names[-1:], "has opened", "--unshared")
        end(p)
        within(10, lambda: not leases())
    d.stop()


def refused(what, p, names, why="may share memory", *flags):
    """Tries to park leases of a program, which is refused and changes nothing."""
    for name in names:
        codes = ["lease_parked"] if flags else ["lease_parked", "lease_parking"]  # the last look comes after it is told
        before = len(events(*codes))
        said, now = berth("park", lease(name).get("id", "none"), *flags), lease(name)
        good = said.returncode != 0 and why in said.stderr and now.get("state") == "active" and "parking" not in now
        good = good and len(events(*codes)) == before and p.goes_on()
        must("%s: %s is refused, not touched, and all go on: %s" % (what, name, said.stderr.strip()), good, (failed(said), now, p.tail()))


def end(p):
    """Ends a program and what it has started."""
    try:
        os.killpg(p.pid, signal.SIGKILL)
    except OSError:
        pass
    p.p.wait()


PARTS = {"driver": driver, "programs": programs, "parts": parts, "turns": turns, "idle": idle, "large": large, "faults": faults, "trim": trim, "wake": wake, "kinds": kinds}


def main():
    parts = sys.argv[1:] or [name for name in PARTS if name not in ("driver", "parts")]
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
