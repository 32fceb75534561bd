#!/usr/bin/env bash
# Compares berth.map over a list of 200,000 records with berth run over a file of
# the same records, with the same PyTorch model on this machine's NVIDIA GPU. Each
# is tried three times, in turns; the quickest ones count. Needs bin/berth and a
# Python with PyTorch; downloads nothing. Prints PASS or FAIL for each claim; exits
# non-zero if one of them does not hold. RECORDS sets another number of records;
# DEVICES=sim:1 tries it without a GPU.
set -u
cd "$(dirname "$0")/../../.."
berth=$PWD/bin/berth
records=${RECORDS:-200000}
devices=${DEVICES:-nvml}
dir=$(mktemp -d)
failures=0
export BERTH_BIN=$berth BERTH_SOCKET=$dir/berth.sock PYTHONPATH=$PWD/python:$dir PYTHONDONTWRITEBYTECODE=1
daemon=
finish() { [ -n "$daemon" ] && kill "$daemon" 2>/dev/null; wait; rm -rf "$dir"; }
trap finish EXIT

say() { printf '\n== %s\n' "$*"; }
must() { # must "what is true" command…
  local what=$1; shift
  if "$@"; then printf 'PASS  %s\n' "$what"; else printf 'FAIL  %s\n' "$what"; failures=$((failures + 1)); fi
}
pause() { read -rt "$1" <> <(:) || true; }

cat >"$dir/embedding.py" <<'PY'
"""Turns texts into vectors: random projections of their bytes through a few
layers, on the GPU if there is one."""

WIDTH, LAYERS, TOKENS = 2048, 6, 64


def load():
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    table = torch.randn(256, WIDTH, device=device, dtype=kind)
    layers = [torch.randn(WIDTH, WIDTH, device=device, dtype=kind) / WIDTH**0.5 for _ in range(LAYERS)]
    return torch, device, table, layers


def embed(records, model):
    torch, device, table, layers = model
    tokens = [list(r["text"].encode()[:TOKENS].ljust(TOKENS)) for r in records]
    with torch.inference_mode():
        x = table[torch.tensor(tokens, device=device)]
        for layer in layers:
            x = torch.nn.functional.gelu(x @ layer)
        vectors = torch.nn.functional.normalize(x.mean(1).float(), dim=1)[:, :8].cpu().tolist()
    return [{"id": r["id"], "vector": [round(v, 5) for v in vector]} for r, vector in zip(records, vectors)]
PY
cat >"$dir/worker.py" <<'PY'
import berth
import embedding

berth.worker(embedding.embed, init=embedding.load)
PY
cat >"$dir/compare.py" <<'PY'
"""Prints how long each way takes, and exits with 1 if the map is more than a
tenth slower."""
import json, os, random, subprocess, sys, time

import berth
import embedding

folder, count = sys.argv[1], int(sys.argv[2])
chance = random.Random(1)
records = [{"id": i, "text": "%x" % chance.getrandbits(8 * chance.randint(8, 40))} for i in range(count)]
source, target = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
with open(source, "w") as file:
    file.writelines(json.dumps(record) + "\n" for record in records)


def by_run():
    command = [os.environ["BERTH_BIN"], "run", "--input", source, "--output", target, "--ordered", "--force", "--gpus", "1"]
    command += ["--memory", "8GiB", "--batch", "1024", "--", sys.executable, os.path.join(folder, "worker.py")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def by_map():
    return berth.map(embedding.embed, records, init=embedding.load, gpus=1, memory="8GiB", batch=1024, progress=False)


def took(way):
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


times = [(took(by_run), took(by_map)) for _ in range(3)]
for run, mapped in times:
    print("berth run %.2f s, berth.map %.2f s" % (run, mapped))
run, mapped = (min(way) for way in zip(*times))
print("%d records: berth run %.0f records/s, berth.map %.0f records/s, %.3f times as long" % (count, count / run, count / mapped, mapped / run))
with open(target) as file:
    same = [outcome["id"] for outcome in map(json.loads, file)] == [outcome["id"] for outcome in by_map()] == list(range(count))
print("the same records in the same order: %s" % same)
sys.exit(not (same and mapped <= 1.1 * run))
PY

say "machine"
echo "commit   $($berth version 2>/dev/null | head -1)"
echo "kernel   $(uname -r), $(nproc) CPUs"
[ "$devices" = nvml ] && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
python3 -c 'import torch; print("torch   ", torch.__version__)'

$berth serve --devices "$devices" --state-dir "$dir/state" --listen '' 2>"$dir/log" &
daemon=$!
for _ in $(seq 100); do [ -S "$BERTH_SOCKET" ] && $berth leases >/dev/null 2>&1 && break; pause 0.1; done
must "the daemon is ready" $berth leases

say "a list and a file of $records records"
must "berth.map is at most a tenth slower than berth run" timeout 400 python3 "$dir/compare.py" "$dir" "$records"
must "nobody holds a lease afterwards" sh -c "$berth leases | grep -q ^Nobody"

printf '\n%d failed\n' "$failures"
exit "$failures"
