#!/usr/bin/env python3
"""Runs jobs on this machine's NVIDIA GPU, as two users: two arrays of 20 tasks that
compute with PyTorch, CuPy or JAX, one job that takes more memory than it has, one that
hangs until its time limit, and one that is parked and resumed. It compares what berth
says about the jobs with what nvidia-smi saw.

Needs bin/berth and bin/berth-serve, root, and a Python with the three libraries. Prints
PASS or FAIL for each claim; exits non-zero if one of them does not hold."""

import json
import os
import pwd
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
BERTH = os.path.join(ROOT, "bin", "berth")
FOLDER = tempfile.mkdtemp(prefix="berth-jobs-")
os.chmod(FOLDER, 0o755)
SOCKET = os.path.join(FOLDER, "socket")
USERS = ("nobody", "daemon")
WORK = """
import os, sys, time
kind, gib, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
kind = ("torch", "cupy", "jax")[int(os.environ.get("BERTH_TASK") or 0) % 3] if kind == "any" else kind
n = int(gib * 2**30) // 4
if kind == "torch":
    import torch
    x = torch.ones(n, dtype=torch.float32, device="cuda"); step = lambda: float(x.sum())
elif kind == "cupy":
    import cupy
    x = cupy.ones(n, dtype=cupy.float32); step = lambda: float(x.sum())
else:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax.numpy as jnp
    x = jnp.ones(n // 2, dtype=jnp.float32); step = lambda: float(x.sum())
end = time.time() + seconds
while time.time() < end:
    assert step() > 0
    time.sleep(0.01)
print(kind, "done", os.environ["BERTH_JOB"], os.environ.get("BERTH_TASK"))
"""
failed = 0


def must(claim, holds, why=""):
    global failed
    failed += not holds
    print("PASS " if holds else "FAIL ", claim, "" if holds else why, flush=True)
    return holds


def berth(*args, user=None, check=True):
    env = {"PATH": os.environ["PATH"], "BERTH_SOCKET": SOCKET, "HOME": os.path.join(FOLDER, "home", user or "root")}
    extra = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}
    said = subprocess.run([BERTH, *args], env=env, cwd="/tmp", capture_output=True, text=True, timeout=500, **extra)
    if check and said.returncode:
        print("berth", *args, "->", said.returncode, said.stderr, flush=True)
    return said


def job(id):
    return json.loads(berth("job", id, "--json").stdout)


def smi():
    """Returns the GPU memory of each process, in MiB."""
    said = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True)
    return {int(p): int(m) for p, m in (line.split(",") for line in said.stdout.splitlines() if "," in line)}


class Seen(threading.Thread):
    """What nvidia-smi sees of each task, by the variables of its processes."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.over = {}, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.3):
            for pid, mib in smi().items():
                try:
                    with open("/proc/%d/environ" % pid, "rb") as f:
                        env = dict(v.split(b"=", 1) for v in f.read().split(b"\0") if b"=" in v)
                except OSError:
                    continue
                task = env.get(b"BERTH_LEASE", b"").decode()
                self.most[task] = max(self.most.get(task, 0), mib)


def main():
    script = os.path.join(FOLDER, "work.py")
    with open(script, "w") as f:
        f.write(WORK)
    for user in (*USERS, "root"):
        home = os.path.join(FOLDER, "home", user)
        os.makedirs(home)
        os.chown(home, pwd.getpwnam(user).pw_uid, -1)
    logs = os.path.join(FOLDER, "logs")
    os.mkdir(logs)
    os.chmod(logs, 0o1777)
    log = open(os.path.join(FOLDER, "daemon.log"), "w")
    config = os.path.join(FOLDER, "berth.yaml")
    with open(config, "w") as f:
        f.write("gpu:\n  max_pipelines: 8\n")
    os.chmod(config, 0o600)
    serve = [BERTH, "serve", "--config", config, "--socket", SOCKET, "--state-dir", os.path.join(FOLDER, "state"), "--listen", ""]
    daemon = subprocess.Popen(serve, stdout=log, stderr=log)
    end = time.monotonic() + 30
    while berth("whoami", check=False).returncode and time.monotonic() < end:
        time.sleep(0.2)
    seen, python = Seen(), sys.executable
    submit = lambda user, *args: berth("submit", "--output", logs + "/%j.log", *args, user=user).stdout.strip()  # noqa: E731
    arrays = [submit(u, "--name", "kinds", "--memory", "6GiB", "--array", "1-20", "--time", "3m", "--", python, script, "any", "2", "5") for u in USERS]
    hungry = submit(USERS[0], "--name", "hungry", "--memory", "4GiB", "--", python, script, "torch", "20", "5")
    hangs = submit(USERS[1], "--name", "hangs", "--memory", "3GiB", "--time", "20s", "--", python, script, "cupy", "1", "1000")
    moved = submit(USERS[0], "--name", "moved", "--memory", "8GiB", "--parkable", "--", python, script, "torch", "4", "25")
    must("five jobs are submitted", all([*arrays, hungry, hangs, moved]), (arrays, hungry, hangs, moved))
    end = time.monotonic() + 120
    while job(moved)["state"] != "running" and time.monotonic() < end:
        time.sleep(0.5)
    time.sleep(8)  # until it computes
    said = berth("park", moved)
    must("a job is parked", said.returncode == 0 and job(moved)["state"] == "parked", (said.stderr, job(moved)["state"]))
    daemon.kill()
    daemon.wait()
    daemon = subprocess.Popen(serve, stdout=log, stderr=log)
    end = time.monotonic() + 30
    while berth("whoami", check=False).returncode and time.monotonic() < end:
        time.sleep(0.2)
    said = berth("resume", moved)
    must("another daemon resumes it", said.returncode == 0, said.stderr)
    for id in [*arrays, hungry, hangs, moved]:
        berth("wait", id, check=False)
    seen.over.set()
    for id, user in zip(arrays, USERS):
        found = job(id)
        must("%s of %s: 20 tasks are done" % (id, user), found["tasks"].get("done") == 20 and found["user"] == user, found["tasks"])
        for t in found.get("list", []):
            with open(t["log"]) as f:
                text = f.read()
            if os.stat(t["log"]).st_uid != pwd.getpwnam(user).pw_uid or text.count("done") != 1:
                must("%s ran once, as %s" % (t["id"], user), False, (t["log"], text[-300:]))
        peaks = [(t["id"], t.get("peak_memory_mb", 0), seen.most.get(t["id"], 0)) for t in found.get("list", [])]
        close = [p for p in peaks if p[2] and abs(p[1] - p[2]) <= max(300, p[2] // 10)]
        must("%s: peaks are those that nvidia-smi saw (%d tasks compared)" % (id, len([p for p in peaks if p[2]])), len(close) >= 0.8 * max(1, len([p for p in peaks if p[2]])), peaks)
    h, g, m = job(hungry), job(hangs), job(moved)
    must("the one that takes too much fails, and says why: %s" % h.get("cause"), h["state"] == "failed" and h.get("exit_code") not in (None, 0), h)
    must("the one that hangs is ended at its time limit: %s" % g.get("cause"), g["state"] == "timed_out", g)
    must("the parked one is done, with exit code 0", m["state"] == "done" and m.get("exit_code") == 0, m)
    must("no lease is left", json.loads(berth("leases", "--json").stdout)["leases"] == [], berth("leases").stdout)
    print(berth("jobs", "--all").stdout)
    daemon.terminate()
    daemon.wait()
    print("%d failed" % failed)
    sys.exit(failed > 0)


main()
