"""The day of three models on one small card.

    make build
    python3 examples/days/models.py

A chat model and a coding model do not fit on the card together; a small one for
embeddings fits beside each. All are asked through one address, in any order, while a
program trains in between. Every answer is right and complete, and nobody runs out of
memory. docs/start/models.md explains the settings.

Root plays it with programs of another user, because berth runs none as root.
"""

import json
import os
import pathlib
import pwd
import random
import shutil
import sys
import threading
import urllib.error
import urllib.request

from machine import ROOT, Machine, say, see, until

sys.path.insert(0, str(ROOT / "examples" / "models"))
from ask import ask  # noqa: E402
from server import embedding  # noqa: E402

CONFIGURATION = """
gpu:
  monitor_interval: 0.1
  throttle_cooldown_seconds: 0
optimization:
  keep_seconds: 1
  park_grace_seconds: 0
front:
  listen: 127.0.0.1:0
  {front_user}
services:
  chat:
    command: {python} {server} --port ${{PORT}} --name chat --memory 5GiB --load-seconds 0.5 {more}
    memory: 5GiB
    ready: /health
    models: [chat, gpt-*]
    {user}
  coder:
    command: {python} {server} --port ${{PORT}} --name coder --memory 4GiB --load-seconds 0.5 {more}
    memory: 4GiB
    ready: /health
    {user}
  embed:
    command: {python} {server} --port ${{PORT}} --name embed --memory 1GiB {more}
    memory: 1GiB
    ready: /health
    keep: true
    {user}
  broken:
    command: {python} {server} --port ${{PORT}} --name broken --memory 1GiB --fail start {more}
    memory: 1GiB
    ready: /health
    {user}
"""

SCENARIO = "devices: rtx-4060\nspeed: 4\n"  # 8 GiB; it moves memory four times as fast as a real one

LLAMA_SWAP = """
models:
  qwen3-8b:
    cmd: llama-server --port ${PORT} -m /models/qwen3-8b.gguf
    aliases: [qwen]
    ttl: 300
"""


def day(machine, url):
    names = sorted(model["id"] for model in get(url + "/v1/models")["data"])
    see(names == ["broken", "chat", "coder", "embed", "gpt-*"] or names == ["broken", "chat", "coder", "embed"], "the front lists the models: %s" % names)
    see({one["state"] for one in services(machine).values()} == {"away"}, "no model is on the card before somebody asks")
    for model in ("chat", "coder", "chat"):
        ask(url, model, "where is the harbour", 12)
    vector = post(url + "/v1/embeddings", {"model": "embed", "input": "harbour"})["data"][0]["embedding"]
    see(vector == embedding("embed", "harbour"), "the vector is right")
    shown = machine.berth("services")
    see(max(map(len, shown.splitlines())) <= 80, "the table fits into 80 columns:\n" + shown)
    say("three models have answered, and two of them do not fit together")

    order = random.Random(7).choices(["chat", "coder"], k=16)
    failures = []

    def client(number):
        for place, model in enumerate(order):
            if place % 4 == number:
                try:
                    ask(url, model, "question %d" % place, 50)
                except Exception as failure:  # every one is told
                    failures.append("%s: %s" % (model, failure))

    clients = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    see(not failures, "every answer is right and complete: %s" % failures)
    now = services(machine)
    see(now["embed"]["state"] == "ready", "the small model stayed: %s" % now["embed"]["state"])
    asked = sum(1 for place, model in enumerate(order) if place and model != order[place - 1])
    came = now["chat"]["switches"] + now["coder"]["switches"]
    say("16 streams in random order are right; the models came %d times, and the order changes %d times" % (came, asked))

    trained = machine.folder / "trained"
    training = machine.start(os.environ["BERTH_BIN"], "exec", "--name", "train", "--memory", "6GiB", "--timeout", "5m", "--", "sh", "-c",
                             "echo trains; while [ ! -e %s ]; do sleep 0.05; done" % trained)
    see(training.stdout.readline() == "trains\n", "the training got its memory from idle models")
    see(all(services(machine)[name]["state"] != "ready" for name in ("chat", "coder")), "the models went away for it")
    trained.touch()
    training.stdin.close()
    see(training.wait() == 0, "the training ended well")
    ask(url, "chat", "and now", 5)
    say("a training sent idle models away, and they came back when somebody asked")

    machine.berth("stop", "coder", "--why", "new weights")
    status, text = refused(url, "coder")
    see(status == 503 and "new weights" in text, "who asks for a stopped model reads why: %d %s" % (status, text))
    machine.berth("start", "coder")
    ask(url, "coder", "back", 5)
    status, text = refused(url, "broken")
    see(status in (502, 503) and "error" in json.loads(text), "who asks for a broken model gets an error in OpenAI's form: %d %s" % (status, text))
    see("cannot load the weights" in machine.berth("services", "broken"), "berth services shows the end of its log:\n" + machine.berth("services", "broken"))
    see("cannot load the weights" in machine.berth("logs", "broken"), "and so does berth logs")
    ask(url, "coder", "still there", 5)
    say("a stopped model and a broken one are told to who asks, and hurt nobody else")

    over = machine.berth("events", "--code", "lease_over_limit")
    see("lease_over_limit" not in over, "nobody used more than its lease: " + over)
    swap = machine.folder / "swap.yaml"
    swap.write_text(LLAMA_SWAP)
    imported = machine.berth("import", "llama-swap", swap, "--user", "nobody")
    see("models: [qwen3-8b, qwen]" in imported and "idle_after: 300" in imported, "a configuration of llama-swap is read:\n" + imported)


def leave(machine):
    """Ends the servers and the front, which run on without the daemon."""
    text = machine.configuration.read_text()
    machine.configuration.write_text(text[: text.index("front:")])
    machine.berth("config", "reload")
    until(lambda: not any(str(machine.folder) in command for command in commands("front", "minder", "server.py")), "the servers and the front end")


def commands(*words):
    """The commands of processes with one of the words among their arguments."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_text(errors="replace").split("\0")
        except OSError:
            continue
        if any(argument.rpartition("/")[2] in words for argument in command):
            yield " ".join(command)


def services(machine):
    return {one["name"]: one for one in json.loads(machine.berth("services", "--json"))["services"]}


def get(url):
    with urllib.request.urlopen(url, timeout=300) as answer:
        return json.load(answer)


def post(url, body):
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=300) as answer:
        return json.load(answer)


def refused(url, model):
    try:
        post(url + "/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": "x"}]})
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    return 200, "it was answered"


def front(machine):
    """The address of the front, or nothing before it listens."""
    return json.loads(machine.berth("services", "--json"))["front"].get("address")


def settings(folder):
    """The configuration, for root with programs and a front of other users."""
    python, user, front_user = sys.executable, "", ""
    if os.geteuid() == 0:
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
        user, front_user = "user: nobody", "user: " + next(name for name in ("daemon", "bin", "nobody") if has(name))
    shutil.copy(ROOT / "examples" / "models" / "server.py", folder)
    more = "--guests %s" % (folder / "guests")
    return CONFIGURATION.format(python=python, server=folder / "server.py", more=more, user=user, front_user=front_user)


def has(name):
    try:
        return pwd.getpwnam(name) is not None
    except KeyError:
        return False


if __name__ == "__main__":
    machine = Machine("", scenario=SCENARIO, shared=True)
    machine.guests.chmod(0o777)
    machine.configuration.write_text(settings(machine.folder))
    with machine:
        until(lambda: front(machine), "the front listens")
        try:
            day(machine, "http://" + front(machine))
        finally:
            leave(machine)
