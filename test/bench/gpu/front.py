"""Services on demand on a real GPU, or on a simulated one; front.sh says how to run it.

Every answer must be right and complete, word for word; with PyTorch the words also depend
on what the weights hold. No service may leave between the first and the last word of one
of its streams, and nobody may run out of memory or use more than its lease.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "examples" / "models"))
from ask import Wrong, ask  # noqa: E402

BERTH = str(ROOT / "bin" / "berth")
DEVICES = os.environ.get("DEVICES", "nvml")
SIMULATED = DEVICES.startswith("sim")
SIZE, LARGE = int(os.environ.get("SIZE", 12)), int(os.environ.get("LARGE", 40))
REQUESTS, SEED, CLIENTS = (int(os.environ.get(name, usual)) for name, usual in (("REQUESTS", 24), ("SEED", 7), ("CLIENTS", 2)))
WORDS, WORD_SECONDS = int(os.environ.get("WORDS", 200)), float(os.environ.get("WORD_SECONDS", 0.01))
PYTHON = os.environ.get("PYTHON", "/usr/bin/python3" if SIMULATED else sys.executable)
SERVICE_USER, FRONT_USER = os.environ.get("SERVICE_USER", "nobody"), os.environ.get("FRONT_USER", "daemon")
RESULTS = pathlib.Path(os.environ.get("RESULTS", ROOT / "dist" / "front"))
PATIENCE = 300
WAYS = ("park", "sleep", "stop")

failed = False


def claim(holds, sentence):
    global failed
    failed = failed or not holds
    print(("PASS  " if holds else "FAIL  ") + sentence, flush=True)


class Machine:
    """A daemon with services of a size, all sent away in one way."""

    def __init__(self, names, gib, away, weights=None):
        self.names, self.folder = names, pathlib.Path(tempfile.mkdtemp(prefix="bench-front-"))
        self.folder.chmod(0o755)
        self.guests = self.folder / "guests"  # of simulated devices, and for weights
        self.guests.mkdir()
        self.guests.chmod(0o777)
        self.weights = weights or self.guests / "weights"
        for name in ("server.py", "ask.py"):
            shutil.copy(ROOT / "examples" / "models" / name, self.folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = dict(os.environ, BERTH_SOCKET=str(self.folder / "s"))
        if SIMULATED:
            self.env["BERTH_SIM_GUESTS"] = str(self.guests)
        self.config = self.folder / "berth.yaml"
        self.config.touch(0o600)
        self.config.write_text(self.settings(gib, away))
        self.log = open(self.folder / "log", "w")
        self.daemon = subprocess.Popen(
            [BERTH, "serve", "--devices", DEVICES, "--config", str(self.config), "--state-dir", str(self.folder / "state"), "--listen", "127.0.0.1:0"],
            env=self.env, stdout=self.log, stderr=self.log, start_new_session=True)  # fmt: skip; a signal to this group is not for it
        self.until(self.listens, "the front listens")

    def settings(self, gib, away):
        root = os.geteuid() == 0
        lines = ["gpu:", f"  memory_limit_mb: {gib * 3 // 2 + (1 if SIMULATED else 2)}GiB", "optimization:", "  keep_seconds: 2",
                 "  park_grace_seconds: 0", f"  huge_pages: {os.environ.get('HUGE_PAGES', 'leave')}", "front:", f"  listen: 127.0.0.1:{self.port}"]  # fmt: skip
        lines += [f"  user: {FRONT_USER}"] if root else []
        lines += ["services:"]
        for name in self.names:
            # With PyTorch, a part of the lease is for the context of the driver. All weights are
            # the same, so that one file, which the first server makes, is enough for all.
            weights = f"{gib * 1024 - 1024}MiB --torch --weights {self.weights}" if not SIMULATED else f"{gib}GiB --guests {self.guests}"
            lines += [f"  {name}:", f"    command: {PYTHON} {self.folder}/server.py --port ${{PORT}} --name {name} --words {WORDS} --word-seconds {WORD_SECONDS} --memory {weights}",
                      f"    memory: {gib}GiB", "    ready: /health", f"    away: {away}", "    directory: /", "    start_timeout: 300",
                      "    sleep: [{method: POST, path: '/sleep?level=1'}]", "    wake: [{method: POST, path: /wake_up}]"]  # fmt: skip
            lines += [f"    user: {SERVICE_USER}"] if root else []
        return "\n".join(lines) + "\n"

    def until(self, true, what):
        for _ in range(PATIENCE * 10):
            if true():
                return
            if self.daemon.poll() is not None:
                sys.exit("the daemon has ended:\n" + (self.folder / "log").read_text())
            time.sleep(0.1)
        sys.exit(f"this never comes true: {what}\n" + (self.folder / "log").read_text()[-3000:])

    def listens(self):
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def berth(self, *arguments):
        done = subprocess.run([BERTH, *arguments], env=self.env, capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else sys.exit(f"berth {' '.join(arguments)}: {done.stderr}")

    def services(self):
        return {one["name"]: one for one in json.loads(self.berth("services", "--json"))["services"]}

    def events(self, code):
        return [json.loads(line) for line in self.berth("events", "--json", "--code", code).splitlines()]

    def close(self):
        """Ends the servers and the front too: they outlive the daemon."""
        text = self.config.read_text()
        self.config.write_text(text[: text.index("front:")])
        self.berth("config", "reload")
        self.until(lambda: not self.left(), "the servers and the front end")
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def left(self):
        """Processes of this machine other than the daemon."""
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                command = (entry / "cmdline").read_text(errors="replace")
            except OSError:
                continue
            if str(self.folder) in command and int(entry.name) not in (self.daemon.pid, os.getpid()):
                return command
        return None


def play(machine, order, clients):
    """Ask in an order, and return what became of each request."""
    lock, asked, done = threading.Lock(), iter(enumerate(order)), []

    def client():
        while True:
            with lock:
                number, model = next(asked, (0, None))
            if model is None:
                return
            came, began, wrong, first = [], time.time(), "", None
            try:
                first = ask(machine.url, model, f"question {number} for {model}", WORDS, came=came)
            except Wrong as failure:
                wrong = str(failure)
            print(f"# {model} {number}: first word after {first or 0:.1f} s {wrong}", flush=True)
            with lock:
                done.append({"model": model, "began": began, "first": first, "words": came[:1] + came[-1:], "ended": time.time(), "wrong": wrong})

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return done


def moment(text):
    """Seconds since 1970 of a time as the API writes it."""
    import datetime

    whole, _, rest = text.rstrip("Z").partition(".")
    at = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc).timestamp()
    return at + float("0." + rest) if rest else at


def check(machine, done):
    wrong = [one["wrong"] for one in done if one["wrong"]]
    claim(not wrong, f"{len(done) - len(wrong)} of {len(done)} answers are right and complete {wrong[:2] if wrong else ''}")
    left = [(event.get("data", {}).get("service", ""), moment(event["time"]), event["text"]) for event in machine.events("service_left")]
    broken = [text for name, at, text in left for one in done
              if one["model"] == (name or text.split()[2]) and len(one["words"]) == 2 and one["words"][0] < at < one["words"][1]]  # fmt: skip
    claim(not broken, f"no service left during a stream, of {len(left)} times that one left {broken[:2] if broken else ''}")
    over = machine.events("lease_over_limit")
    logs = "".join(machine.berth("logs", name) for name in machine.names)
    claim(not over and "out of memory" not in logs.lower() and "cannot take the memory" not in logs, f"nobody ran out of memory, or used more than its lease {over[:1] if over else ''}")


def run(away):
    machine = Machine(["red", "green", "blue"], SIZE, away)
    try:
        for _ in range(1 + len(WAYS) if away == "auto" else 1):  # so that each way was measured, and two starts; not counted
            play(machine, machine.names, 1)
        chance = random.Random(SEED)
        order = [chance.choice(machine.names) for _ in range(REQUESTS)]
        before = sum(one["switches"] for one in machine.services().values())
        training = threading.Thread(target=train, args=(machine,))
        began = time.monotonic()
        done = play(machine, order[: REQUESTS // 2], CLIENTS)
        training.start()
        done += play(machine, order[REQUESTS // 2 :], CLIENTS)
        took = time.monotonic() - began
        training.join()
        check(machine, done)
        now = machine.services()
        switches = sum(one["switches"] for one in now.values()) - before
        waited = sum(one["first"] or 0 for one in done)
        print(f"{away}: {took:.1f} s for {len(done)} streams, {switches} switches, {waited:.1f} s until first words in sum")
        for name, one in now.items():
            print(f"  {name}: goes {one.get('goes', '-')}: " + ", ".join(f"{way} {t['seconds']:.2f} s ({t['count']})" for way, t in one["took"].items()))
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{away}.json").write_text(json.dumps({"seconds": took, "switches": switches, "waited": waited, "order": order, "size": SIZE, "devices": DEVICES}))
    finally:
        machine.close()


def train(machine):
    """A program that takes the room of a model for a while, as a person starts it."""
    work = "sleep 2" if SIMULATED else f"""{PYTHON} -c "
import torch, time
x = torch.ones({(SIZE - 2) << 28}, device='cuda')
for _ in range(20):
    x.mul_(1.0001)
    torch.cuda.synchronize()
    time.sleep(0.1)
print(float(x[0]))" """
    done = subprocess.run([BERTH, "exec", "--name", "train", "--memory", f"{SIZE}GiB", "--timeout", "5m", "--", "sh", "-c", work], env=machine.env, capture_output=True, text=True)
    claim(done.returncode == 0, f"a training in between ended well {done.stderr[-300:] if done.returncode else ''}")


def large(ways):
    with tempfile.TemporaryDirectory(prefix="bench-front-") as folder:  # one file of weights for all, which the first server makes
        os.chmod(folder, 0o777)
        for away in ways:
            machine = Machine(["one", "two"], LARGE, away, weights=f"{folder}/weights")
            try:
                for step, model in (("starts", "one"), ("is switched to", "two"), ("is switched back to", "one"), ("is switched to again", "two")):
                    done = play(machine, [model], 1)
                    claim(not done[0]["wrong"], f"{LARGE} GiB, {away}: {model} {step}: first word after {done[0]['first'] or 0:.1f} s {done[0]['wrong']}")
                check(machine, done)
                for name, one in machine.services().items():
                    print(f"  {name}: " + ", ".join(f"{way} {t['seconds']:.2f} s" for way, t in one["took"].items()))
            finally:
                machine.close()


def callers():
    """A user who keeps four models busy, and one who asks for a fifth now and then."""
    many, machine = ["red", "green", "blue", "grey"], None
    try:
        machine = Machine([*many, "own"], SIZE, "stop")
        play(machine, machine.names, 1)

        def caller(user, name, *arguments):
            file = machine.guests / name
            return file, subprocess.Popen([PYTHON, str(machine.folder / "ask.py"), machine.url, *arguments, "--words", "20", "--quiet", "--json", str(file)], user=user, cwd="/")

        def waits(file):
            return sorted(one["first_seconds"] for one in json.loads(file.read_text())["requests"])

        flood, asks = caller("nobody", "flood", *many, "--requests", "100000", "--clients", "8"), []
        time.sleep(20)  # what a user has used counts only after a while
        for i in range(6):
            file, one = caller("games", f"own-{i}", "own")
            claim(one.wait() == 0, f"the one who asks now and then has the answer after {waits(file)[0]:.1f} s")
            asks += waits(file)
            time.sleep(5)
        left = sorted(moment(event["time"]) for event in machine.events("service_left"))
        flood[1].kill()
        flood[1].wait()
        stay = sorted(b - a for a, b in zip(left, left[1:]))[len(left) // 2]
        print(f"  the longest wait {max(asks):.1f} s, the middle {sorted(asks)[3]:.1f} s; a service left {len(left)} times, every {stay:.1f} s")
        claim(max(asks) <= 3 * stay, "nobody waits until all four models have had their turn")
    finally:
        if machine:
            machine.close()


def compare():
    found = {way: json.loads((RESULTS / f"{way}.json").read_text()) for way in (*WAYS, "auto") if (RESULTS / f"{way}.json").exists()}
    missing = [way for way in (*WAYS, "auto") if way not in found]
    if missing:
        sys.exit(f"there is no result of {', '.join(missing)}: run front.sh {missing[0]} first")
    for way, one in found.items():
        print(f"{way:>6}: {one['seconds']:7.1f} s, {one['switches']:3} switches, {one['waited']:7.1f} s until first words in sum")
    claim(len({json.dumps([one["order"], one["size"], one["devices"]]) for one in found.values()}) == 1, "all of them had the same requests in the same order")
    best = min(WAYS, key=lambda way: found[way]["seconds"])
    ratio = found["auto"]["seconds"] / found[best]["seconds"]
    claim(ratio <= 1.1, f"auto takes {ratio:.2f} of the best fixed choice, {best} (at most 1.10)")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # the servers end too
    arguments = sys.argv[1:]
    if arguments == ["compare"]:
        compare()
    elif len(arguments) == 1 and arguments[0] in (*WAYS, "auto"):
        run(arguments[0])
    elif arguments == ["callers"]:
        callers()
    elif len(arguments) > 1 and arguments[0] == "large" and set(arguments[1:]) <= set(WAYS):
        large(arguments[1:])
    else:
        sys.exit("usage: front.sh park|sleep|stop|auto, front.sh large park|sleep|stop ..., front.sh callers, or front.sh compare")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
