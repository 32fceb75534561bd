"""The day of a scientist with a plate of 96 wells on four GPUs.

    make build
    python3 examples/days/pipelines.py

The plan is there before anything runs: a file with mistakes is refused with all of
them. Every well is a process with a lease of its own, on one GPU, twelve side by side
on each. One well is killed; the others go on, and its lease comes back.
docs/start/pipelines.md explains the commands.
"""

import json
import os
import signal
import sys

from machine import ROOT, Machine, say, see, until, use

PLATE = ROOT / "examples" / "pipelines" / "plate.yaml"

CONFIGURATION = """
gpu:
  monitor_interval: 0.1
  max_pipelines: 12
"""

MISTAKES = """
pipelines:
  - name: plate
    steps:
      - {name: load, input: numpi, output: numpy}
      - {name: nuclei, input: torch, output: torch, memory_mb: 400GiB}
      - {name: measure, input: numpy, output: numpy, after: nuclai}
"""

DIES = "plate[7]"


def well():
    """One well. A real one calls berth.compile and runs the steps of the plan."""
    run, gpus = os.environ["BERTH_RUN"], os.environ["CUDA_VISIBLE_DEVICES"]
    if run != "summary":
        use(gpus, int(os.environ["BERTH_MEMORY_MB"]) - 600)
    if run == DIES:
        os.kill(os.getpid(), signal.SIGKILL)
    with open(os.path.join(sys.argv[1], run), "x") as result:
        result.write(gpus)


def day(machine):
    import berth

    (machine.folder / "mistakes.yaml").write_text(MISTAKES)
    refused = machine.berth("plan", machine.folder / "mistakes.yaml", "--no-probe", code=4)
    for word in ("numpi", "nuclai", "400 GiB"):
        see(word in refused, "the refusal names %s, too:\n%s" % (word, refused))
    say("a file with three mistakes is refused with all three")

    plan = json.loads(machine.berth("plan", PLATE, "--no-probe", "--json"))
    see(plan == json.loads(machine.berth("plan", PLATE, "--no-probe", "--json")), "the same file gives the same plan")
    shown = machine.berth("plan", PLATE, "--no-probe")
    see("48 runs side by side, 2 waves" in shown, "96 wells go twelve by twelve:\n" + shown)
    say("the plan: 48 wells side by side, 2 waves")

    results = machine.folder / "results"
    results.mkdir()
    ran = machine.berth("plan", PLATE, "--no-probe", "--run", "--", sys.executable, "-S", __file__, results, code=1)
    see(DIES in ran, "the run names the well that was killed:\n" + ran)
    done = {path.name: path.read_text() for path in results.iterdir()}
    see(set(done) == {"plate[%d]" % n for n in range(96)} - {DIES} | {"summary"}, "all other wells are done: %s" % sorted(done))
    see(not done.pop("summary"), "the summary needs no GPU and sees none")
    say("95 wells and the summary are done; the killed one is named")

    until(lambda: not berth.leases().leases, "every lease comes back")
    until(lambda: len(berth.past_leases("screening", limit=1000)) >= 96, "each well had a lease of its own")
    past = berth.past_leases("screening", limit=1000)
    see(len(past) == 96, "no well had more than one; %d leases have ended" % len(past))
    see(set(done.values()) == {device.uuid for device in berth.devices()}, "each well saw one GPU: %s" % set(done.values()))
    for device in berth.devices():
        here = [lease for lease in past if lease.parts[0].gpu == device.uuid]
        most = max(sum(other.granted <= lease.granted < other.ended for other in here) for lease in here)
        see(most <= 12, "at most twelve wells run side by side on GPU %d; %d did" % (device.index, most))
        say("GPU %d had %d wells, at most %d side by side" % (device.index, len(here), most))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        well()
    else:
        with Machine("sim:4", CONFIGURATION) as machine:
            day(machine)
