"""The day of a person with a list of 100,000 records in a notebook.

    make build
    python3 examples/days/notebook.py

The cells below run as in a notebook: their functions have no module, and their variables
live in the notebook alone. The list goes over every GPU, in order. A worker is
killed on the way, a few records fail and go on after the function is mended, and a
generator is mapped without its records ever being in memory together.
docs/start/batches.md explains the calls.
"""

import linecache
import os
import signal
import threading

from machine import Machine, say, see

import berth

CELLS = [
    """
import berth

def load():
    return {"width": 4}                    # a real one loads its model here

def embed(texts, model):
    return [[len(text) % (k + 2) for k in range(model["width"])] for text in texts]

texts = ["record %d" % i for i in range(100_000)]
""",
    """
vectors = berth.map(embed, texts, init=load, batch=1024, progress=False)
""",
    """
def halves(numbers):
    return [ValueError("odd") if number % 50_000 == 1 else number / 2 for number in numbers]

try:
    berth.map(halves, range(100_000), batch=1024, name="halves", progress=False)
except berth.MapError as why:
    failures = why.failures
""",
    """
def halves(numbers):                       # mended
    return [number // 2 for number in numbers]

mended = berth.map(halves, range(100_000), batch=1024, name="halves", progress=False)
""",
    """
total = sum(berth.imap(halves, (n for n in range(10_000)), batch=1024, progress=False))
""",
    """
bias = 3

def biased(numbers):
    return [number + bias for number in numbers]

try:
    berth.map(biased, [1, 2, 3], progress=False)
except berth.BerthError as why:
    refusal = str(why)
""",
]


class Notebook:
    """Notebook runs cells as Jupyter does: each is a file of its own for tracebacks
    and sources, and all share their variables."""

    def __init__(self):
        self.variables = {"__name__": "__main__"}

    def run(self, cell):
        number = len(self.variables.setdefault("In", []))
        self.variables["In"].append(cell)
        name = "<ipython-input-%d>" % number
        linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
        exec(compile(cell, name, "exec"), self.variables)
        return self.variables


def day():
    killed = threading.Event()

    def kill_one():
        """Kills the first worker. The run takes the lease of a worker, and hands it
        to the worker when that has started."""
        for event in berth.events("lease_bound"):
            os.kill(berth.find_lease(event.lease).holder.pid, signal.SIGKILL)
            killed.set()
            return

    notebook = Notebook()
    made = notebook.run(CELLS[0])
    threading.Thread(target=kill_one, daemon=True).start()
    vectors = notebook.run(CELLS[1])["vectors"]
    see(killed.is_set(), "a worker is killed on the way")
    want = [[len(text) % (k + 2) for k in range(4)] for text in made["texts"]]
    see(vectors == want, "every record has its outcome, once and in order")
    say("100,000 records came back in order over two GPUs, though a worker was killed")

    failures = notebook.run(CELLS[2])["failures"]
    see([failure.index for failure in failures] == [1, 50_001], "records 1 and 50,001 fail, and not %s" % (failures,))
    say("2 records failed: %s" % failures[0].error)
    want = [number // 2 if number in (1, 50_001) else number / 2 for number in range(100_000)]
    see(notebook.run(CELLS[3])["mended"] == want, "the mended function does the records that failed, and no others")
    say("the mended function did these 2, and the other 99,998 were kept")

    see(notebook.run(CELLS[4])["total"] == sum(n // 2 for n in range(10_000)), "a generator is mapped as it goes")
    refusal = notebook.run(CELLS[5])["refusal"]
    see("bias" in refusal, "a function with globals is refused with their names: " + refusal)
    say("refused: " + refusal)
    see(not berth.leases().leases, "no worker is left, and no lease")


if __name__ == "__main__":
    with Machine("sim:2") as machine:
        os.environ["XDG_STATE_HOME"] = str(machine.folder / "kept")
        day()
