"""A worker for berth in Python, with nothing but the standard library.

It shows the whole protocol of docs/reference/batch-protocol.md. The berth package for
Python has the real one, berth.worker(process, init=load_model).

Its process() doubles the field "n" of every record; a record without one is an
error of that record alone.
"""

import json
import os


def worker(process):
    source = os.fdopen(int(os.environ["BERTH_WORKER_IN"]), "rb", 1 << 20)
    sink = os.fdopen(int(os.environ["BERTH_WORKER_OUT"]), "wb", 1 << 20)

    def say(frame):
        try:  # allow_nan: NaN is no JSON
            text = json.dumps(frame, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            text = json.dumps(frame, allow_nan=False, separators=(",", ":")).encode()
        sink.write(text + b"\n")
        sink.flush()

    say({"type": "ready", "protocol": 1})
    for line in source:
        frame = json.loads(line)
        if frame["type"] == "bye":
            return
        if frame["type"] != "batch":
            continue
        try:
            outcomes, errors = process(frame["records"])
            say({"type": "result", "id": frame["id"], "outcomes": outcomes, "errors": errors})
        except MemoryError as e:
            say({"type": "oom", "id": frame["id"], "text": str(e)})
        except Exception as e:
            say({"type": "error", "id": frame["id"], "text": f"{type(e).__name__}: {e}"})


def double(records):
    outcomes, errors = [], {}
    for i, record in enumerate(records):
        try:
            outcomes.append({"n": record["n"], "double": 2 * record["n"]})
        except (KeyError, TypeError) as e:
            outcomes.append(None)
            errors[i] = f"{type(e).__name__}: {e}"
    return outcomes, errors


if __name__ == "__main__":
    print("this goes to the log, not into the protocol")
    worker(double)
