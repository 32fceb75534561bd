"""The day of three people who share a machine with two GPUs.

    make build
    python3 examples/days/shared.py

Ada trains, and evaluates when the training is done. Bob has twelve small fits. Carol
needs both GPUs. Each submits and goes home: the daemon is killed and started again in
between, and nothing is lost. docs/start/shared-machine.md explains the commands.

Root plays it as three users of the machine. Anybody else plays all three: a daemon
that is not root runs only jobs of its own user.
"""

import json
import os
import pathlib
import pwd
import re

from machine import Machine, say, see, until

TRAIN = """#!/bin/sh
#BERTH --name train --memory 60GiB --time 8h
echo "epoch 1 as $(id -un) under $BERTH_LEASE"
touch training
while [ ! -e {folder}/trained ]; do sleep 0.05; done
echo "epoch 2"
"""

FIT = """echo fit $BERTH_TASK
while [ ! -e {folder}/fitted ]; do sleep 0.05; done
[ $BERTH_TASK != 7 ] || [ -e {folder}/mended ]"""


def day(machine):
    ada, bob, carol = people(machine)

    (ada.home / "train.sh").write_text(TRAIN.format(folder=machine.folder))
    train = ada.berth("submit", "train.sh").strip()
    see(re.fullmatch(r"train-\d+", train), "submit prints the id: " + train)
    (ada.home / "train.sh").write_text("#!/bin/sh\nexit 99\n")  # the job runs what it was submitted with
    evaluate = ada.berth("submit", "--name", "eval", "--memory", "8GiB", "--after", "train", "--", "sh", "-c", "echo accuracy 0.93").strip()
    sweep = bob.berth("submit", "--name", "sweep", "--memory", "30GiB", "--time", "1h", "--array", "1-12%3", "--", "sh", "-c", FIT.format(folder=machine.folder)).strip()
    until((ada.home / "training").exists, "the training begins")
    until(lambda: state(bob, sweep)["tasks"].get("running") == 3, "three fits run at a time")
    big = carol.berth("submit", "--name", "big", "--gpus", "2", "--memory", "130GiB", "--", "sh", "-c", "echo both GPUs").strip()
    say("three people have submitted four jobs")

    table = carol.berth("jobs")
    for job in (train, evaluate, sweep, big):
        see(job in table, "berth jobs shows %s:\n%s" % (job, table))
    see(max(map(len, table.splitlines())) <= 80, "the table fits into 80 columns:\n" + table)
    if carol.uid is not None:
        seen = carol.berth("job", train)
        see("train.sh" not in seen and str(ada.home) not in seen, "Carol sees neither the command nor the folder of Ada:\n" + seen)
        carol.berth("cancel", train, code=4)
        carol.berth("logs", train, code=4)
    why = carol.berth("job", big)
    see("waiting" in why, "Carol's job waits:\n" + why)
    say("everybody sees who runs and who waits")

    machine.kill()
    (machine.folder / "fitted").touch()
    (machine.folder / "trained").touch()
    machine.start_daemon()
    say("the daemon was killed, and started again; the training and the fits ended meanwhile or went on")

    see("train-" in ada.berth("wait", train), "the exit code of the training is known")
    log = ada.berth("logs", "train")
    see("epoch 1 as %s under %s\nepoch 2" % (ada.name, train) in log, "the log of the training is whole:\n" + log)
    see((ada.home / ("berth-%s.log" % train)).exists(), "the log is a file in Ada's folder")
    ada.berth("wait", evaluate)
    see("accuracy 0.93" in ada.berth("logs", evaluate), "the evaluation ran after the training")
    say("the training is done, and so is the evaluation behind it")

    bob.berth("wait", sweep, code=1)
    tasks = {task["id"]: task["state"] for task in state(bob, sweep)["list"]}
    see(tasks.pop(sweep + ".7") == "failed", "task 7 failed")
    see(set(tasks.values()) == {"done"} and len(tasks) == 11, "the other eleven fits are done: %s" % tasks)
    (machine.folder / "mended").touch()
    again = bob.berth("redo", "--failed", sweep).strip()
    bob.berth("wait", again)
    see([task["id"] for task in state(bob, again)["list"]] == [again + ".7"], "only the one that failed ran again")
    say("of twelve fits one failed, and was done again")

    carol.berth("wait", big)
    see("both GPUs" in carol.berth("logs", big), "Carol's job had both GPUs")
    ends = {job: state(carol, job)["ended"] for job in (train, big)}
    see(ends[train] < ends[big], "Carol's job came after the training, which held what it needed")
    say("Carol had both GPUs, although small jobs came and went")

    held = carol.berth("submit", "--hold", "--name", "night", "--begin", "23:59", "--", "true").strip()
    see(state(carol, held)["state"] == "held", "a job can be held")
    carol.berth("cancel", held)
    carol.berth("wait", held, code=122)
    see(not json.loads(carol.berth("--json", "leases"))["leases"], "nobody holds anything at the end of the day")
    say("nobody holds anything at the end of the day")


def people(machine):
    """Returns Ada, Bob and Carol: three users of the machine if this is root."""
    users = [pwd.getpwnam(name) for name in ("daemon", "bin", "nobody")] if os.geteuid() == 0 else [None] * 3
    return [Person(machine, name, user) for name, user in zip(("ada", "bob", "carol"), users)]


class Person:
    """A user with a folder, who runs berth in it."""

    def __init__(self, machine, name, user):
        self.machine, self.uid, self.gid = machine, user and user.pw_uid, user and user.pw_gid
        self.name = user.pw_name if user else pwd.getpwuid(os.geteuid()).pw_name
        self.home = pathlib.Path(machine.folder, name)
        self.home.mkdir()
        if user:
            os.chown(self.home, self.uid, self.gid)

    def berth(self, *arguments, code=0):
        return self.machine.berth(*arguments, code=code, cwd=self.home, uid=self.uid, gid=self.gid)

    def run(self, *command):
        return self.machine.run(*command, cwd=self.home, uid=self.uid, gid=self.gid)


def state(person, job):
    return json.loads(person.berth("--json", "job", job))


if __name__ == "__main__":
    with Machine("sim:2", "gpu: {max_pipelines: 8}\n", shared=True) as machine:
        day(machine)
