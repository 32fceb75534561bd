"""A worker that takes a known time for each record: MS milliseconds, twice as long at
half the SPEED. What it prints at its start tells where it runs."""

import json
import os
import sys
import time

source = os.fdopen(int(os.environ["BERTH_WORKER_IN"]), "rb")
sink = os.fdopen(int(os.environ["BERTH_WORKER_OUT"]), "wb")
each = float(sys.argv[1]) / 1000 / float(os.environ.get("SPEED", "1"))


def say(**message):
    sink.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
    sink.flush()


say(type="ready", protocol=1)
until = time.monotonic()
for line in source:
    message = json.loads(line)
    if message["type"] == "bye":
        break
    if message["type"] == "batch":
        # Time that was lost between two batches is lost; waking up late is not.
        until = max(until, time.monotonic() - 0.02) + each * len(message["records"])
        time.sleep(max(0, until - time.monotonic()))
        say(type="result", id=message["id"], outcomes=message["records"])
