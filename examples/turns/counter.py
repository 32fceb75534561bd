"""A program that keeps all the memory of its lease in use, and counts.

    berth exec --parkable --memory 5GiB -- python3 counter.py 40

It needs no GPU and no library: it is a guest of the simulated card that berth gave
it, as docs/guide/simulator.md explains. A call to the driver of a program that is parked
waits until the program is resumed, and so does every step of this one. It does not
notice more than that, and the sum at the end is right.
"""

import json
import os
import pathlib
import sys
import time

STEP = 0.1  # seconds of work between two calls to the driver


class Card:
    """The simulated card, as far as this program sees it."""

    def __init__(self):
        folder = pathlib.Path(os.environ["BERTH_SIM_GUESTS"], os.environ["BERTH_GPUS"])
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / str(os.getpid())
        self.parked = folder / f"{os.getpid()}.parked"
        self.waited = []  # seconds, once for each time that the program was parked

    def allocate(self, mebibytes, load):
        """Take memory, and work for a share of the time, in percent."""
        stat = pathlib.Path("/proc/self/stat").read_text()
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps({
            "memory_mb": mebibytes,
            "load": load,
            "start_time": int(stat.rpartition(")")[2].split()[19]),
        }))
        fresh.rename(self.file)

    def call(self):
        """Do what every call to the driver does: wait while the program is parked."""
        if not self.parked.exists():
            return
        began = time.monotonic()
        while self.parked.exists():
            time.sleep(0.02)
        self.waited.append(time.monotonic() - began)

    def free(self):
        self.file.unlink(missing_ok=True)


def main():
    steps = int(sys.argv[1])
    name, memory = os.environ["BERTH_LEASE"], int(os.environ["BERTH_MEMORY_MB"])
    card = Card()
    card.allocate(memory, load=80)
    try:
        total = 0
        for i in range(1, steps + 1):
            card.call()
            total += i
            time.sleep(STEP)
    finally:
        card.free()
    right = "right" if total == steps * (steps + 1) // 2 else "WRONG"
    times = "once" if len(card.waited) == 1 else f"{len(card.waited)} times"
    print(f"{name}: counted to {steps}, the sum is {right}; it was parked {times}, {sum(card.waited):.1f} s in all", flush=True)
    return 0 if right == "right" else 1


if __name__ == "__main__":
    sys.exit(main())
