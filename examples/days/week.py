"""The week of five people who share a machine with four GPUs, in five minutes.

    make week

Ada sweeps parameters, Bob has many small jobs, of which some fail, run out of time or of
memory, or are cancelled, Carol works at a terminal and goes before the others, Dmitri has
a quota, and Erin pushes 50,000 records through a worker. Erin and Carol ask three models,
of which two fit on a GPU together. Together they want more than there is. Meanwhile the
daemon is killed seven times, and replaced once, as an upgrade does, and a GPU is drained.
At the end there is an account. Each of its lines says what is, and what should be; if one
is not so, the exit code is 1.

Root plays it as five users of the machine. Anybody else plays all five; then there is
one user, so priorities, fairness and the sums of each cannot be told.
"""

import collections
import itertools
import json
import os
import pathlib
import pwd
import random
import re
import shutil
import statistics
import sys
import threading
import time
from datetime import datetime, timedelta, timezone

from machine import BERTH, ROOT, Machine, say, until
from shared import Person

SECONDS = float(os.environ.get("WEEK_SECONDS", "270"))  # in which people begin something new, besides those of restarts
RECORDS = 50_000
KILLS = 7
QUOTA = 40  # GiB that Dmitri may hold
MODELS = {"chat": "14GiB", "coder": "10GiB", "embedder": "2GiB"}

# What the account holds against what was seen.
REPORT = 0.02  # how much of what the leases that have ended had a report may lack or have besides
ENERGY = 0.05  # the same of the energy seen, twice a second
ALIKE = 0.01  # by how much the reports over several lengths may differ
JAIN = 0.9  # Jain's index of what people held who wanted more: 1 is equal shares
TOLD = 100  # how many that waited have to be told a time
OFF = 0.8  # by how much of the wait in the middle they may be off in the middle
LATE = 0.25  # how many of them may begin later than "late", of which one in ten should
SOON = timedelta(seconds=5)  # so near a kill, nobody may know why berth ended a job
FAR = 3600  # seconds by which no estimate may be off

SCENARIO = """
devices: 4xrtx-4090
timeline:
  - {device: 0, process: {pid: 5000001, name: Xorg, memory_mb: 210MiB, load: 1}}
  - {device: 0, process: {pid: 5000002, name: gnome-shell, memory_mb: 160MiB, load: 1}}
"""

# The house rules of docs/start/shared-machine.md, and limits of two people.
CONFIGURATION = """
gpu:
  max_pipelines: 8
  over_limit: stop
  monitor_interval: 0.5
optimization: {{keep_seconds: 1, park_grace_seconds: 0}}
front: {{listen: "127.0.0.1:0"{front_user}}}
users:
  default: {{longest_time_seconds: 172800}}
{people}
services:
{services}
"""
SERVICE = """  {name}:
    command: {python} {folder}/server.py --port ${{PORT}} --name {name} --memory {memory} --load-seconds 0.5 --guests {folder}/guests
    memory: {memory}
    ready: /health{user}
"""

# What a job does: it writes down that it began, holds simulated memory, works, and ends.
WORK = '''import os, pathlib, signal, sys, time
folder, seconds, code, memory = pathlib.Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
signal.signal(signal.SIGUSR1, lambda *_: print("USR1", flush=True))
with open(folder / "starts" / os.environ["BERTH_LEASE"], "a") as starts:
    starts.write("begun\\n")
print("BEGIN", os.environ["BERTH_LEASE"], flush=True)
if memory:  # an earlier process may have had this pid, and may have been another user's
    start_time = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    for uuid in os.environ["BERTH_GPUS"].split(","):
        file = folder / "guests" / uuid / str(os.getpid())
        fresh = file.with_suffix(".%d" % start_time)
        fresh.write_text('{"memory_mb": %d, "load": 40, "start_time": %d}' % (memory, start_time))
        fresh.rename(file)
for line in range(20):
    time.sleep(seconds / 20)
    print("line", line, flush=True)
print("END", flush=True)
if code == 1:
    print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", file=sys.stderr)
sys.exit(code)
'''
WORKER = '''import berth, time
def twice(records):
    time.sleep(0.005 * len(records))
    return [{"n": one["n"], "twice": 2 * one["n"]} for one in records]
berth.worker(twice)
'''

# Plan is how a job or a task should end: as berth says it, how often it is started, what
# its log or the cause of its end has to say, and whether its log is whole.
Plan = collections.namedtuple("Plan", "state code tries says whole", defaults=("done", 0, 1, "", True))


class Week:
    """Week has what was planned, and what was seen."""

    def __init__(self, machine, people):
        self.machine, self.people = machine, people
        self.lock = threading.Lock()
        self.over = threading.Event()  # nobody begins anything new
        self.notes = itertools.count(1)
        self.plans = {}  # by id of a job or task
        self.wrong = []
        self.counts = collections.Counter()
        self.told = {}  # by user, id and time of a request: when it was first told a time, and its estimate
        self.waited = set()  # user, id and time of each request that waited
        self.wanting = 0  # seconds in which everybody of `equals` wanted more
        self.held = collections.Counter()  # GiB seconds by user in that time
        self.parked = collections.Counter()  # GiB hours by user that leases would have had that were parked
        self.most = self.quota = 0  # the most MiB that leases had on a GPU, and that Dmitri had
        self.joules = 0  # of all GPUs
        self.away = []  # from when until when the daemon was, because it was killed or replaced
        self.drained = self.undrained = None  # when GPU 3 was
        self.log = ""  # of all daemons
        self.good = True

    def plan(self, id, *plan):
        with self.lock:
            self.plans[id] = Plan(*plan)

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def is_wrong(self, what):
        say("wrong: " + what)
        with self.lock:
            self.wrong.append(what)
        self.over.set()

    def line(self, true, what, *should):
        """Says what is, and what should be."""
        say("%s %s" % ("   " if true else "NOT", what) + "".join("; should be " + one for one in should))
        self.good = self.good and bool(true)

    def equals(self):
        """The people who have equal shares and always want more: Ada, Bob and Dmitri."""
        return {self.people[0].name, self.people[1].name, self.people[3].name}


def insist(person, *arguments, code=0, done=lambda: None):
    """Runs a command, and again if the daemon was killed before it answered, unless it did it."""
    while True:
        try:
            return person.berth(*arguments, code=code)
        except SystemExit as failure:
            if not re.search("exits with 3,|closed the connection", str(failure)):
                raise
        until(person.machine.ready, "the daemon is back")
        if done():
            return done()


def submit(week, person, *arguments):
    """Submits a job once, also if the daemon that took it is killed before it says so."""
    import berth

    note = "note %d" % next(week.notes)
    done = lambda: "".join(job.id for job in berth.jobs() if job.comment == note)
    return insist(person, "submit", "--comment", note, *arguments, done=done).split()[0]


def keep(week, me, most, begin):
    """Has so many jobs under way, until the week is over, and waits for each: begin returns
    its id and the exit code of berth wait."""
    under_way = collections.deque()
    while under_way or not week.over.is_set():
        if len(under_way) < most and not week.over.is_set():
            under_way.append(begin())
        else:
            job, code = under_way.popleft()
            me.berth("wait", job, code=code)


def work(week, seconds, code=0, memory=0):
    return "--", week.python, week.machine.folder / "work.py", week.machine.folder, seconds, code, memory


def ada(week, me, rng):
    """Ada sweeps: arrays, each followed by an evaluation."""

    def begin():
        sweep = submit(week, me, "--name", "sweep", "--memory", "7GiB", "--array", "1-6", *work(week, rng.uniform(5, 9), memory=4000))
        for task in range(1, 7):
            week.plan("%s.%d" % (sweep, task))
        then = submit(week, me, "--name", "eval", "--memory", "3GiB", "--after", sweep, *work(week, 1))
        week.plan(then)
        return then, 0

    keep(week, me, 3, begin)


# Bob's jobs: what else is said of one, what it does, how it should end, and what berth wait says.
KINDS = {
    "code": ([], (1, 7), ("failed", 7), 7),
    "retry": (["--retry", "2"], (0.5, 9), ("failed", 9, 3), 9),
    "memory": ([], (1, 1), ("failed", 1, 1, "out of memory"), 1),
    "time": (["--time", "15s", "--signal", "USR1@6s"], (60,), ("timed_out", None, 1, "USR1", False), 124),
    "over": ([], (60, 0, 6000), ("failed", 143, 1, "more than the 5 GiB it held", False), 143),
    "cancel": (["--hold"], (60,), ("cancelled", None, 0, "", False), 122),
}


def bob(week, me, rng):
    """Bob has many small jobs, and some go wrong."""

    def begin():
        kind = rng.choice(["good"] * 8 + list(KINDS))
        flags, does, plan, code = KINDS.get(kind, ([], (rng.uniform(3, 9), 0, 1500), (), 0))
        job = submit(week, me, "--name", "fit-" + kind, "--memory", "5GiB", *flags, *work(week, *does))
        week.plan(job, *plan)
        if kind == "cancel":
            insist(me, "cancel", job)
        return job, code

    keep(week, me, 9, begin)


def carol(week, me, rng):
    """Carol works at a terminal: what she runs has to work whatever becomes of the daemon."""
    while not week.over.is_set():
        code = rng.choice([0, 0, 0, 5])
        me.berth("exec", "--memory", "8GiB", "--time", "5m", "--priority", "5", *work(week, rng.uniform(0.5, 2), code, memory=3000), code=code)
        week.count("execs")
        week.over.wait(rng.uniform(0.2, 1.5))


def dmitri(week, me, rng):
    """Dmitri has a quota, and asks for more than that now and then."""

    def begin():
        if me.uid is not None and rng.random() < 0.2:
            insist(me, "submit", "--memory", "%dGiB" % (QUOTA + 4), *work(week, 1), code=4)
            week.count("refused")
        job = submit(week, me, "--name", "render", "--memory", "8GiB", "--time", "2m", *work(week, rng.uniform(5, 10), memory=6000))
        week.plan(job)
        return job, 0

    keep(week, me, 6, begin)


def models(week, me, rng):
    """Erin and Carol ask models, two at a time; ask.py checks each answer."""
    while not week.over.is_set():
        me.run(week.python, week.machine.folder / "ask.py", week.front, *MODELS, "--requests", 4, "--clients", 2, "--seed", rng.randrange(99))
        week.counts[me.title] += 4
        week.over.wait(rng.uniform(0.5, 3))


def records(week, me):
    """Pushes records through workers on every GPU."""
    before = week.counts["kills"]
    me.berth("run", "--input", "records.jsonl", "--output", "outcomes.jsonl", "--memory", "2GiB", "--", week.python, week.machine.folder / "worker.py")
    week.counts["kills in the batch"] = week.counts["kills"] - before


def chaos(week, rng):
    """Kills the daemon seven times, replaces its program once, and drains a GPU meanwhile."""
    machine = week.machine
    for kill in range(KILLS + 2):
        if week.over.wait(SECONDS / (KILLS + 2) * rng.uniform(0.7, 1.3)) or kill > KILLS:
            break
        if kill == 5:
            machine.berth("drain", 3)
            week.drained = datetime.now(timezone.utc)
        went = datetime.now(timezone.utc)
        if kill == KILLS // 2:
            machine.stop()
            for name in ("berth", "berth-serve"):
                shutil.copy(pathlib.Path(BERTH).parent / name, machine.folder / "new")
                (machine.folder / "new").rename(machine.folder / "bin" / name)
        else:
            machine.kill()
            week.count("kills")
        week.log += machine.log()
        threading.Event().wait(rng.uniform(0.1, 2))
        machine.start_daemon()
        week.away.append((went, datetime.now(timezone.utc)))
        if kill == 6:
            week.undrained = datetime.now(timezone.utc)
            machine.berth("undrain", 3)


def look(week):
    """Looks twice a second at who holds what and who waits, until the week is over and nobody does."""
    import berth

    last, held, parked, wanting, watts = time.monotonic(), {}, {}, False, 0
    while True:
        threading.Event().wait(0.5)
        since, last = last, time.monotonic()
        week.joules += watts * (last - since)
        for user, mebibytes in parked.items():
            week.parked[user] += mebibytes / 1024 * (last - since) / 3600
        if wanting:
            week.wanting += last - since
            for user, mebibytes in held.items():
                week.held[user] += mebibytes / 1024 * (last - since)
        try:
            leases, gpus = berth.leases(), berth.status_all().gpus
        except berth.BerthError:
            continue  # the daemon is away; what was held is held
        held, parked, on = collections.Counter(), collections.Counter(), collections.Counter()
        for lease in leases.leases:
            for part in lease.parts:
                if lease.state == "parked":  # it holds nothing
                    parked[lease.holder.user] += part.memory_mb
                else:
                    held[lease.holder.user] += part.memory_mb
                    on[part.gpu] += part.memory_mb
        wanting = week.equals() <= {one.holder.user for one in leases.waiting if not one.limit}
        for one in leases.waiting:
            key = one.holder.user, one.id, one.since
            week.waited.add(key)
            if one.estimate and one.estimate.likely and key not in week.told:
                week.told[key] = datetime.now(timezone.utc), one.estimate
        watts = sum(gpu.sample.power_watts or 0 for gpu in gpus if gpu.sample)
        for gpu in gpus:
            leased, sample, slots = on[gpu.device.uuid], gpu.sample, gpu.slots
            week.most = max(week.most, leased)
            if leased > gpu.device.memory_total_mb or slots.active > slots.capacity or sample and sample.memory_used_mb > sample.memory_total_mb:
                week.is_wrong("GPU %s is over-committed: %d MiB leased, %s, %s" % (gpu.device.uuid, leased, slots, sample))
        week.quota = max(week.quota, held[week.people[3].name])
        week.count("looks")
        if week.over.is_set() and not leases.leases and not leases.waiting:
            return


def play(machine, people):
    week = Week(machine, people)
    week.python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    until(lambda: front(machine), "the front listens")
    week.front = "http://" + front(machine)
    rng = random.Random(7)

    def part(act, *arguments):
        try:
            act(week, *arguments)
        except (Exception, SystemExit) as failure:  # every one is told
            week.is_wrong("%s: %s" % (act.__name__, failure))

    acts = [*zip((ada, bob, carol, dmitri), people), (models, people[2]), (models, people[4])]
    parts = [(act, me, random.Random(rng.random())) for act, me in acts] + [(records, people[4]), (chaos, random.Random(rng.random())), (look,)]
    threads = [threading.Thread(target=part, args=one, daemon=True) for one in parts]
    for one in threads:
        one.start()
    while threads[-2].is_alive():  # that of chaos
        threads[-2].join(20)
        with week.lock:
            say("%d jobs and tasks, %d runs at a terminal, the daemon killed %d times" % (len(week.plans), week.counts["execs"], week.counts["kills"]))
    week.over.set()
    for one in threads[:-1]:
        one.join()
    for name in MODELS:
        machine.berth("stop", name)
    threads[-1].join()
    machine.stop()  # it stores the newest sums
    week.log += machine.log()
    machine.start_daemon()
    return week


def account(week):
    """Holds what was seen against what was planned."""
    import berth

    week.line(not week.wrong, "%d things went wrong" % len(week.wrong), "0")
    if week.wrong:  # it was not played to its end
        return
    jobs(week)
    week.line(week.counts["execs"], "runs at a terminal: %d with the exit codes of their programs" % week.counts["execs"], "all")
    if week.people[3].uid is not None:
        week.line(week.counts["refused"] and week.quota <= QUOTA * 1024, "Dmitri: refused %d times, and held %.0f GiB at most" % (
            week.counts["refused"], week.quota / 1024), "each time that he asks for more than %d GiB" % QUOTA)
    outcomes = [json.loads(line) for line in (week.people[4].home / "outcomes.jsonl").read_text().splitlines()]
    week.line(sorted(one["n"] for one in outcomes) == list(range(RECORDS)) and all(one["twice"] == 2 * one["n"] for one in outcomes),
              "records: %d outcomes, the daemon killed %d times meanwhile" % (len(outcomes), week.counts["kills in the batch"]), "%d, each right and once" % RECORDS)
    asked = [week.counts[person.title] for person in (week.people[2], week.people[4])]
    week.line(min(asked), "models: %d and %d answers, each right" % tuple(asked), "all that Carol and Erin asked for")
    week.line(True, "leases: never over-committed in %d looks, %.1f GiB on a GPU at most" % (week.counts["looks"], week.most / 1024))
    left = berth.leases()
    week.line(not left.leases and not left.waiting and not berth.orphans().orphans, "left: %d leases, %d requests, %d orphans" % (
        len(left.leases), len(left.waiting), len(berth.orphans().orphans)), "0")
    bad = re.findall("(?m)^.*(?:level=ERROR(?!.*code=(?:alert|state_change))|panic:|goroutine ).*$", week.log)
    week.line(week.counts["kills"] == KILLS and not bad, "daemon: killed %d times and replaced once; errors in its log: %s" % (week.counts["kills"], bad[:5] or 0), "0")
    past = berth.past_leases(limit=2000)
    drained = [one.id for one in past if week.drained < one.granted < week.undrained and any(part.gpu.endswith("-3") for part in one.parts)]
    week.line(not drained, "drain: leases that began on GPU 3 in %.0f s: %s" % ((week.undrained - week.drained).total_seconds(), drained or 0), "0")
    sums(week, past)
    estimates(week, past)
    if week.people[0].uid is not None:
        fairness(week)


def jobs(week):
    """Holds every job against its plan."""
    import berth

    ended, wrong = {}, []
    for one in berth.jobs():
        job = berth.find_job(one.id).answer
        ended.update({one.id: one for one in job.list or [job]})
    for id in sorted(ended.keys() ^ week.plans.keys()):
        wrong.append(id + (" was planned by nobody" if id in ended else " is lost"))
    for id in ended.keys() & week.plans.keys():
        job, plan = ended[id], week.plans[id]
        begun, log = week.machine.folder / "starts" / id, pathlib.Path(job.log or os.devnull).read_text()
        starts = begun.read_text().count("begun") if begun.exists() else 0
        if (job.state, job.exit_code) != (plan.state, job.exit_code if plan.code is None else plan.code):
            wrong.append("%s is %s with %s (%s), and not %s" % (id, job.state, job.exit_code, job.cause, plan))
        if starts != plan.tries:
            wrong.append("%s was started %d times, and not %d" % (id, starts, plan.tries))
        whole = ["BEGIN " + id, *("line %d" % line for line in range(20)), "END"] if plan.whole else []
        unsaid = plan.says not in log + job.cause and not any(went < job.ended + SOON and job.started - SOON < back for went, back in week.away)
        if log.splitlines()[:len(whole)] != whole or unsaid:
            wrong.append("the log of %s is not whole, or %r is in neither it nor its cause (%s):\n%s" % (id, plan.says, job.cause, log))
    for one in wrong[:10]:
        say(one)
    kinds = collections.Counter(job.state for job in ended.values())
    week.line(not wrong, "jobs: %d (%s), of which %d not as planned in state, exit code, cause, starts or log" % (
        len(ended), ", ".join("%d %s" % (count, state) for state, count in kinds.most_common()), len(wrong)), "0")


def sums(week, past):
    """Holds the report over several lengths against the leases that have ended, and its energy against what was seen."""
    had = collections.Counter()
    had.subtract(week.parked)
    for one in past:
        had[one.holder.user] += sum(part.memory_mb for part in one.parts) / 1024 * (one.ended - one.granted).total_seconds() / 3600
    reports = [json.loads(week.machine.berth("report", "--since", since, "--json"))["period"] for since in ("1h", "1d", "7d", "30d")]

    def line(what, unit, said, true, tolerance):
        week.line(max(said) - min(said) <= ALIKE * max(said) and abs(said[0] / true - 1) <= tolerance, "report: %s %.3f %s by 1h and %.3f by 30d, %.1f %% of %.3f" % (
            what, said[0], unit, said[-1], 100 * said[0] / true, true), "100 %%, give or take %.0f %%" % (100 * tolerance))

    for user, true in had.most_common():
        said = [sum(one["leased_mb_hours"] for one in period["users"] if one["name"] == user) / 1024 for period in reports]
        line(title(week, user) + " held", "GiB·h", said, true, REPORT)
    line("the GPUs used", "Wh", [sum(one.get("energy_joules", 0) for one in period["gpus"]) / 3600 for period in reports], week.joules / 3600, ENERGY)


def estimates(week, past):
    """Holds what those who waited were told against when they began."""
    grants = collections.defaultdict(list)
    for one in past:
        grants[one.holder.user, one.id].append(one.granted)
    began = {key: min((granted for granted in grants[key[:2]] if granted >= key[2]), default=None) for key in week.waited if key[1] not in MODELS}
    waits, errors, late, far, users = collections.defaultdict(list), [], 0, 0, collections.Counter()
    for key, granted in began.items():
        if granted:
            waits[key[0]].append((granted - key[2]).total_seconds())
        if granted and key in week.told:
            told, estimate = week.told[key]
            users[title(week, key[0])] += 1
            errors.append(abs((granted - estimate.likely).total_seconds()))
            late += (granted - (estimate.late or estimate.likely)).total_seconds() > 1
            far += (max(estimate.likely, estimate.late or estimate.likely) - told).total_seconds() > FAR
    people = 4 if week.people[0].uid is not None else 1
    week.line(len(errors) >= TOLD and len(users) >= people, "estimates: of %d that waited, %d were told a time (%s)" % (
        len(began), len(errors), ", ".join("%s %d" % one for one in users.most_common())), "%d, of %d users" % (TOLD, people))
    error, middle = statistics.median(errors or [0]), statistics.median(itertools.chain([0], *waits.values()))
    week.line(error <= OFF * middle, "estimates: off by %.1f s in the middle, where people waited %.1f s" % (error, middle), "%.0f %% of that at most" % (100 * OFF))
    week.line(late <= LATE * len(errors), "estimates: %d began later than “late”, %.0f %%" % (late, 100 * late / max(1, len(errors))), "10 %%, and %.0f %% at most" % (100 * LATE))
    week.line(not far, "estimates: %d were told more than an hour" % far, "0")
    if people > 1:
        first = statistics.median(waits[week.people[2].name] or [0])
        week.line(first < middle, "priority: Carol, who goes before the others, waited %.1f s in the middle" % first, "less than the %.1f s of all" % middle)


def fairness(week):
    """Says what people with equal shares held while all of them wanted more."""
    held = [week.held[user] for user in sorted(week.equals())]
    jain = sum(held) ** 2 / (len(held) * sum(one * one for one in held) or 1)
    week.line(week.wanting >= SECONDS / 8 and jain >= JAIN, "fairness: in %.0f s in which all wanted more, %s; Jain's index %.3f" % (
        week.wanting, ", ".join("%s had %.1f GiB" % (title(week, user), one / max(1, week.wanting)) for user, one in zip(sorted(week.equals()), held)), jain), "%.2f at least" % JAIN)


def title(week, user):
    return {person.name: person.title for person in reversed(week.people)}.get(user, user)


def front(machine):
    return json.loads(machine.berth("services", "--json"))["front"].get("address")


def five(machine):
    """Returns Ada, Bob, Carol, Dmitri and Erin: five users of the machine if this is root."""
    names = ("daemon", "bin", "nobody", "games", "man") if os.geteuid() == 0 else (None,) * 5
    people = [Person(machine, title.lower(), name and pwd.getpwnam(name)) for title, name in zip(("Ada", "Bob", "Carol", "Dmitri", "Erin"), names)]
    for person, title in zip(people, ("Ada", "Bob", "Carol", "Dmitri", "Erin")):
        person.title = title
    return people


def settle(machine):
    """Writes what the week needs into the folder of the machine, and returns its people."""
    people = five(machine)
    folder = machine.folder
    for name in ("starts", "bin"):
        (folder / name).mkdir()
    for path in (folder / "starts", machine.guests, *(machine.guests / ("SIM-rtx-4090-%d" % gpu) for gpu in range(4))):
        path.mkdir(exist_ok=True)
        path.chmod(0o777)
    (folder / "work.py").write_text(WORK)
    (folder / "worker.py").write_text(WORKER)
    for name in ("berth", "berth-serve"):
        shutil.copy(pathlib.Path(BERTH).parent / name, folder / "bin")
    for name in ("server.py", "ask.py"):
        shutil.copy(ROOT / "examples" / "models" / name, folder)
    with open(people[4].home / "records.jsonl", "w") as file:
        file.writelines('{"n": %d}\n' % number for number in range(RECORDS))
    python, user, front_user, limits = sys.executable, "", "", ""
    if os.geteuid() == 0:
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
        user, front_user = "\n    user: " + people[4].name, ", user: " + people[4].name
        limits = "  %s: {running_jobs: 12}\n  %s: {role: operator}\n  %s: {memory_mb: %dGiB, running_jobs: 4}" % (
            people[1].name, people[2].name, people[3].name, QUOTA)
    services = "".join(SERVICE.format(name=name, python=python, folder=folder, memory=memory, user=user) for name, memory in MODELS.items())
    machine.configuration.write_text(CONFIGURATION.format(front_user=front_user, people=limits, services=services))
    return people


def leave(machine):
    """Ends the front, which runs on without the daemon."""
    text = machine.configuration.read_text()
    machine.configuration.write_text(re.sub("(?m)^front:.*$|(?s:^services:.*)", "", text))
    machine.berth("config", "reload")


if __name__ == "__main__":
    machine = Machine("", scenario=SCENARIO, shared=True)
    people = settle(machine)
    machine.serve_from(machine.folder / "bin")
    machine.environ["BERTH_PATIENCE"] = "120"  # on a busy machine, the next daemon takes its time
    with machine:
        try:
            week = play(machine, people)
            account(week)
        finally:
            leave(machine)
        if not week.good:
            machine.keep()
    say("the week went well" if week.good else "the week did not go well: see the lines with NOT")
    sys.exit(not week.good)
