"""Prints how long berth run and berth.map take with the same records, in turns."""
import json
import os
import subprocess
import sys
import time

import berth

folder, program, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.path.insert(0, folder)
records = [{"id": i, "text": "x" * (20 + i % 60)} for i in range(count)]
source, target, worker, module = (os.path.join(folder, name) for name in ("in.jsonl", "out.jsonl", "worker.py", "work.py"))
with open(source, "w") as file:
    file.writelines(json.dumps(record) + "\n" for record in records)
with open(module, "w") as file:  # work for each record: some 20 µs
    file.write("import zlib\n\n\ndef work(records):\n    return [{'id': r['id'], 'sum': zlib.crc32(r['text'].encode() * 1000)} for r in records]\n")
with open(worker, "w") as file:
    file.write("import sys\n\nimport berth\n\nsys.path.insert(0, %r)\nimport work\n\nberth.worker(work.work)\n" % folder)
import work  # noqa: E402: it was just written


def by_run():
    command = [program, "run", "--input", source, "--output", target, "--ordered", "--force", "--gpus", "1", "--memory", "1GiB", "--batch", "1024"]
    subprocess.run(command + ["--", sys.executable, worker], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def by_map():
    return berth.map(work.work, records, gpus=1, memory="1GiB", batch=1024, progress=False)


def took(way):
    start = time.perf_counter()
    answers = way()
    seconds = time.perf_counter() - start
    if answers is not None and [answer["id"] for answer in answers] != list(range(count)):
        sys.exit("the map has other records, or another order")
    return seconds


for _ in range(7):
    print(took(by_run), took(by_map), flush=True)
