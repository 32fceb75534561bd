"""The week of five people who share a machine with four GPUs, in five minutes.

    make week

Ada sweeps parameters, Bob has many small jobs, of which some fail, run out of time or of
memory, Carol works at a terminal, Dmitri has a quota, Erin asks three models, of which
two fit on a GPU together, and pushes 50,000 records through a worker. Meanwhile the
daemon is killed seven times, and replaced once, as an upgrade does. At the end there is
an account: exit codes, logs, records, answers, leases, sums of the report beside the sums
of what was seen, fairness, and how good the estimates were.

Root plays it as five users of the machine. Anybody else plays all five; then there is
one user, so fairness and the sums of each cannot be told.
"""

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
from datetime import datetime

from machine import BERTH, ROOT, Machine, say, see, until
from shared import Person, state

sys.path.insert(0, str(ROOT / "examples" / "models"))
from ask import ask  # noqa: E402

SECONDS = float(os.environ.get("WEEK_SECONDS", "200"))  # in which people begin something new
RECORDS = 50_000
KILLS = 7
UNSTORED = 13  # seconds before a kill of which the daemon may have stored no sums
MEMORY = 24_564  # MiB of a simulated RTX 4090

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
{limits}
services:
{services}
"""
SERVICE = """  {name}:
    command: {python} {server} --port ${{PORT}} --name {name} --memory {memory} --load-seconds 0.5 --guests {guests}
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
if memory:
    for uuid in os.environ["BERTH_GPUS"].split(","):
        (folder / "guests" / uuid / str(os.getpid())).write_text('{"memory_mb": %d, "load": 40}' % memory)
for line in range(20):
    time.sleep(seconds / 20)
    print("line", line, flush=True)
if code == 1 and memory:
    print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", file=sys.stderr)
print("END", flush=True)
sys.exit(code)
'''
WORKER = '''import berth
berth.worker(lambda records: [{"n": one["n"], "twice": 2 * one["n"]} for one in records])
'''


class Week:
    """Week has what was planned, and what was seen."""

    def __init__(self, machine, people):
        self.machine, self.people = machine, people
        self.lock = threading.Lock()
        self.over = threading.Event()  # nobody begins anything new
        self.jobs = {}  # by id: (person, state, exit code, tries, whether its log is whole)
        self.estimates = {}  # by id: what was said when it was submitted
        self.wrong = []
        self.counts = dict.fromkeys(("execs", "answers", "samples", "refused", "kills"), 0)
        self.held = {}  # GiB hours by user, as seen
        self.lost = {}  # the part of them that a daemon that is killed cannot have stored
        self.looks = []  # the last ones: when, how long after the one before, and MiB by user
        self.both = {}  # the same while two people waited
        self.most = 0

    def planned(self, person, job, state, code, tries=1, whole=True):
        with self.lock:
            self.jobs[job] = (person, state, code, tries, whole)

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def is_wrong(self, what):
        say("wrong: " + what)
        with self.lock:
            self.wrong.append(what)
        self.over.set()


def submit(week, person, *arguments):
    """Submits a job, and writes down when it was said to begin."""
    said, _ = json.JSONDecoder().raw_decode(person.berth("--json", "submit", *arguments))  # a daemon that is away is told behind it
    try:
        job = state(person, said["id"])
    except SystemExit:  # the daemon was killed
        return said["id"]
    if job.get("estimate") and not job.get("tasks") and not job.get("after"):
        with week.lock:
            week.estimates[job["id"]] = job["submitted"], job["estimate"]
    return said["id"]


def work(week, seconds, code=0, memory=0):
    return "--", week.python, week.machine.folder / "work.py", week.machine.folder, seconds, code, memory


def ada(week, me, rng):
    """Ada sweeps: arrays and parameters, each followed by an evaluation."""
    while not week.over.is_set():
        sweep = submit(week, me, "--name", "sweep", "--memory", "16GiB", "--array", "1-9", *work(week, rng.uniform(1, 3), memory=4000))
        for task in range(1, 10):
            week.planned(me, "%s.%d" % (sweep, task), "done", 0)
        then = submit(week, me, "--name", "eval", "--memory", "3GiB", "--after", sweep, *work(week, 0.5))
        week.planned(me, then, "done", 0)
        me.berth("wait", then)


def bob(week, me, rng):
    """Bob has many small jobs, and some go wrong."""
    while not week.over.is_set():
        kind = rng.choice(["good"] * 6 + ["code", "retry", "time", "memory", "over"])
        flags = ["--name", "fit-" + kind, "--memory", "8GiB"]
        if kind == "good":
            week.planned(me, submit(week, me, *flags, *work(week, rng.uniform(0.5, 4), memory=1500)), "done", 0)
        elif kind == "code":
            week.planned(me, submit(week, me, *flags, *work(week, 0.5, 7)), "failed", 7)
        elif kind == "retry":
            week.planned(me, submit(week, me, *flags, "--retry", "2", *work(week, 0.3, 9)), "failed", 9, tries=3)
        elif kind == "memory":
            week.planned(me, submit(week, me, *flags, *work(week, 0.5, 1, memory=1500)), "failed", 1)
        elif kind == "time":
            week.planned(me, submit(week, me, *flags, "--time", "3s", "--signal", "USR1@2s", *work(week, 60)), "timed_out", None, whole=False)
        else:
            week.planned(me, submit(week, me, *flags, *work(week, 60, memory=9000)), "failed", None, whole=False)
        week.over.wait(rng.uniform(0.5, 2.5))


def carol(week, me, rng):
    """Carol works at a terminal: what she runs has to work whatever becomes of the daemon."""
    while not week.over.is_set():
        code = rng.choice([0, 0, 0, 5])
        me.berth("exec", "--memory", "4GiB", "--time", "5m", *work(week, rng.uniform(0.2, 2), code, memory=3000), code=code)
        week.count("execs")
        week.over.wait(rng.uniform(0.5, 3))


def dmitri(week, me, rng):
    """Dmitri has a quota of 40 GiB, and asks for more than that now and then."""
    while not week.over.is_set():
        if me.uid is not None:
            me.berth("submit", "--memory", "44GiB", "--gpus", "1", *work(week, 1), code=4)
            week.count("refused")
        for _ in range(4):
            week.planned(me, submit(week, me, "--name", "render", "--memory", "12GiB", "--time", "2m", *work(week, rng.uniform(1, 4), memory=9000)), "done", 0)
        week.over.wait(rng.uniform(8, 14))


def erin(week, me, rng):
    """Erin asks models, two of which fit on a GPU together."""
    url = "http://" + front(week.machine)
    while not week.over.is_set():
        model = rng.choice(["chat", "coder", "embedder"])
        ask(url, model, "question %d" % week.counts["answers"], rng.randint(5, 60))
        week.count("answers")
        week.over.wait(rng.uniform(0.1, 0.8))


def records(week, me):
    """Pushes records through workers on every GPU."""
    me.berth("run", "--input", "records.jsonl", "--output", "outcomes.jsonl", "--memory", "2GiB", "--", week.python, week.machine.folder / "worker.py")


def chaos(week, rng):
    """Kills the daemon seven times, and replaces its program once."""
    machine = week.machine
    for kill in range(KILLS + 1):
        if week.over.wait(SECONDS / (KILLS + 2) * rng.uniform(0.7, 1.3)):
            break
        if kill == KILLS // 2:
            machine.stop()
            for name in ("berth", "berth-serve"):
                shutil.copy(pathlib.Path(BERTH).parent / name, machine.folder / "new")
                (machine.folder / "new").rename(machine.folder / "bin" / name)
        else:
            machine.kill()
            week.count("kills")
        since = time.monotonic() - UNSTORED
        threading.Event().wait(rng.uniform(0.1, 2))
        machine.start_daemon()
        with week.lock:
            for when, took, seen in week.looks:
                for user, mebibytes in seen.items() if when >= since else ():
                    week.lost[user] = week.lost.get(user, 0) + mebibytes / 1024 * took / 3600


def look(week):
    """Looks twice a second at who holds what, until the week is over and nobody holds anything."""
    import berth

    last, seen, waited = time.monotonic(), {}, set()
    while True:
        threading.Event().wait(0.5)
        now = time.monotonic()
        with week.lock:
            week.looks = [*week.looks[-100:], (now, now - last, seen)]
            for user, mebibytes in seen.items():
                week.held[user] = week.held.get(user, 0) + mebibytes / 1024 * (now - last) / 3600
                if {person.name for person in week.people[:2]} <= waited:
                    week.both[user] = week.both.get(user, 0) + mebibytes / 1024 * (now - last) / 3600
        last = now
        try:
            leases, gpus = berth.leases().document, berth.status_all().document["gpus"]
        except berth.BerthError:
            continue  # the daemon is away; what was held is held
        seen, on = {}, {}
        for lease in leases["leases"]:
            for part in lease["parts"] if lease["state"] != "parked" else ():  # a parked lease holds nothing
                user = lease["holder"].get("user", "")
                seen[user] = seen.get(user, 0) + part["memory_mb"]
                on[part["gpu"]] = on.get(part["gpu"], 0) + part["memory_mb"]
        waited = {request["holder"].get("user") for request in leases["waiting"]}
        for gpu in gpus:
            name, slots = gpu["device"]["uuid"], gpu["slots"]
            week.most = max(week.most, on.get(name, 0))
            if on.get(name, 0) > MEMORY or slots["active"] > slots["capacity"]:
                week.is_wrong("GPU %s is over-committed: %d MiB, %s" % (name, on[name], slots))
        week.count("samples")
        if week.over.is_set() and not leases["leases"] and not leases["waiting"]:
            return


def play(machine, people):
    week = Week(machine, people)
    week.python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    until(lambda: front(machine), "the front listens")
    rng = random.Random(7)

    def part(act, *arguments):
        try:
            act(week, *arguments)
        except (Exception, SystemExit) as failure:  # every one is told
            week.is_wrong("%s: %s" % (act.__name__, failure))

    parts = [(act, me, random.Random(rng.random())) for act, me in zip((ada, bob, carol, dmitri, erin), people)]
    parts += [(records, people[4]), (chaos, random.Random(rng.random())), (look,)]
    threads = [threading.Thread(target=part, args=one, daemon=True) for one in parts]
    killing, looking = threads[-2:]
    for one in threads:
        one.start()
    for minute in range(int(SECONDS // 20)):
        if week.over.wait(20):
            break
        with week.lock:
            say("%4d s: %d jobs and tasks, %d runs at a terminal, %d answers, the daemon killed %d times" % (
                20 * (minute + 1), len(week.jobs), week.counts["execs"], week.counts["answers"], week.counts["kills"]))
    week.over.set()
    killing.join()
    see(not week.wrong, "nothing goes wrong:\n" + "\n".join(week.wrong))
    for person, job in {(one[0], id.rpartition(".")[0] or id): None for id, one in list(week.jobs.items())}:
        until(lambda person=person, job=job: state(person, job).get("ended"), job + " ends")
    for one in threads[:-1]:
        one.join()
    for name in services(machine):
        machine.berth("stop", name)
    looking.join()
    machine.stop()  # it stores the newest sums
    machine.start_daemon()
    return week


def account(week):
    """Holds what was seen against what was planned, and says it."""
    see(not week.wrong, "nothing went wrong:\n" + "\n".join(week.wrong))
    right, errors, late = 0, [], 0
    for id, (person, wanted, code, tries, whole) in week.jobs.items():
        job = state(person, id)
        see(job["state"] == wanted and (code is None or job.get("exit_code") == code), "%s is %s with %s, as planned: %s, %s: %s" % (
            id, wanted, code, job["state"], job.get("exit_code"), job.get("cause")))
        starts = (week.machine.folder / "starts" / id).read_text().count("begun")
        see(starts == tries, "%s was started %d times: %d" % (id, tries, starts))
        log = person.berth("logs", id)
        see("BEGIN %s" % id in log and (not whole or log.rstrip().endswith("END") or "CUDA out of memory" in log), "the log of %s is whole:\n%s" % (id, log))
        right += 1
        if id in week.estimates:
            said, estimate = week.estimates[id]
            took = at(job["started"]) - at(said)
            if estimate.get("likely"):
                errors.append(abs(at(estimate["likely"]) - at(said) - took))
                late += took > at(estimate.get("late") or estimate["likely"]) - at(said) + 1
                see(errors[-1] < 3600, "no estimate is off by hours: %s was said to begin at %s, and began after %.0f s" % (id, estimate["likely"], took))
    say("jobs: %d of %d as planned, each started as often as it should be, every log whole" % (right, len(week.jobs)))
    say("runs at a terminal: %d, all right; asked for too much: %d, all refused" % (week.counts["execs"], week.counts["refused"]))
    outcomes = [json.loads(line) for line in (week.people[4].home / "outcomes.jsonl").read_text().splitlines()]
    see(sorted(one["n"] for one in outcomes) == list(range(RECORDS)) and all(one["twice"] == 2 * one["n"] for one in outcomes), "every record has its outcome once")
    say("records: %d, each once; answers of models: %d, all right" % (len(outcomes), week.counts["answers"]))
    say("leases: %d looks, never over-committed, %.1f of %.1f GiB at most; none is left" % (week.counts["samples"], week.most / 1024, MEMORY / 1024))
    say("estimates: of %d jobs that waited, %d were told a time, off by %.0f s in the middle; %d began later than “late”" % (
        len(week.estimates), len(errors), statistics.median(errors or [0]), late))
    sums(week)
    if week.people[0].uid is not None and sum(week.both.values()) > 0:
        say("while Ada and Bob both waited: %s" % ", ".join("%s had %.2f GiB·h" % (person.title, week.both.get(person.name, 0)) for person in week.people[:2]))


def sums(week):
    """Holds the report over several lengths against what was seen."""
    reports = {since: report(week.machine, since) for since in ("1h", "1d", "7d", "30d")}
    names = {person.name: person.title for person in week.people}
    for user in sorted(week.held, key=week.held.get, reverse=True):
        said = {since: one.get(user, 0) for since, one in reports.items()}
        see(max(said.values()) - min(said.values()) <= 0.01 * max(said.values()), "the report of %s says the same over every length: %s" % (user, said))
        lost = week.lost.get(user, 0)
        see(0.9 * week.held[user] - lost - 0.02 <= said["1h"] <= 1.1 * week.held[user] + 0.02, "it says what was seen, %.3f GiB·h, of which the kills may hide %.3f: %s" % (week.held[user], lost, said))
        say("report: %s held %.2f GiB·h, by 1h, 1d, 7d and 30d alike; seen: %.2f, of which the kills may hide %.2f" % (names.get(user, user), said["1h"], week.held[user], lost))


def report(machine, since):
    """GiB hours by user."""
    said = json.loads(machine.berth("report", "--since", since, "--json"))
    return {one["name"]: one["leased_mb_hours"] / 1024 for one in said["period"]["users"]}


def at(text):
    """The seconds of a time of the API."""
    return datetime.fromisoformat(re.sub(r"(\.\d{1,6})\d*", lambda found: found[1].ljust(7, "0"), text.replace("Z", "+00:00"))).timestamp()


def services(machine):
    return [one["name"] for one in json.loads(machine.berth("services", "--json"))["services"]]


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
    shutil.copy(ROOT / "examples" / "models" / "server.py", folder)
    with open(people[4].home / "records.jsonl", "w") as file:
        file.writelines('{"n": %d}\n' % number for number in range(RECORDS))
    python, user, front_user, limits = sys.executable, "", "", ""
    if os.geteuid() == 0:
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
        user, front_user = "\n    user: " + people[4].name, ", user: " + people[4].name
        limits = "  %s: {running_jobs: 12}\n  %s: {memory_mb: 40GiB, running_jobs: 4}" % (people[1].name, people[3].name)
    services = "".join(SERVICE.format(name=name, python=python, server=folder / "server.py", memory=memory, guests=machine.guests, user=user)
                       for name, memory in (("chat", "14GiB"), ("coder", "10GiB"), ("embedder", "2GiB")))
    machine.configuration.write_text(CONFIGURATION.format(front_user=front_user, limits=limits, services=services))
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
    with machine:
        try:
            account(play(machine, people))
        finally:
            leave(machine)
    say("the week went well")
