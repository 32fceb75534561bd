#!/usr/bin/env bash
# Pushes 200,000 records through an embedding-like PyTorch worker on this
# machine's NVIDIA GPU, with 1, 2 and 4 workers, and kills one worker during a
# run. Needs bin/berth and a Python with PyTorch; downloads nothing. Prints PASS
# or FAIL for each claim; exits non-zero if one of them does not hold. RECORDS
# sets another number of records; DEVICES=sim:1 tries it without a GPU.
set -u
cd "$(dirname "$0")/../../.."
berth=$PWD/bin/berth
records=${RECORDS:-200000}
devices=${DEVICES:-nvml}
dir=$(mktemp -d)
failures=0
export BERTH_SOCKET=$dir/berth.sock PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1
daemon=
finish() { [ -n "$daemon" ] && kill "$daemon" 2>/dev/null; wait; rm -rf "$dir"; }
trap finish EXIT

say() { printf '\n== %s\n' "$*"; }
must() { # must "what is true" command…
  local what=$1; shift
  if "$@"; then printf 'PASS  %s\n' "$what"; else printf 'FAIL  %s\n' "$what"; failures=$((failures + 1)); fi
}
pause() { read -rt "$1" <> <(:) || true; }

cat >"$dir/worker.py" <<'PY'
"""Turns texts into vectors: random projections of their bytes through a few
layers, on the GPU if there is one."""
import os
import berth

WIDTH, LAYERS, TOKENS = 2048, 6, 64


def load():
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    table = torch.randn(256, WIDTH, device=device, dtype=kind)
    layers = [torch.randn(WIDTH, WIDTH, device=device, dtype=kind) / WIDTH**0.5 for _ in range(LAYERS)]
    print(f"process {os.getpid()} on {device}, sees {os.environ.get('CUDA_VISIBLE_DEVICES')}", flush=True)
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


berth.worker(embed, init=load)
PY
cat >"$dir/check.py" <<'PY'
import json, sys
ids, failed = [], 0
for line in open(sys.argv[1]):
    outcome = json.loads(line)
    ids.append(outcome["id"])
    failed += "_error" in outcome or len(outcome.get("vector", [])) != 8
want = int(sys.argv[2])
print(f"{len(ids)} lines, {len(set(ids))} different ids, {failed} failed")
sys.exit(not (len(ids) == want and set(ids) == set(range(want)) and failed == 0))
PY

say "machine"
echo "commit   $($berth version 2>/dev/null | head -1)"
echo "kernel   $(uname -r), $(nproc) CPUs"
[ "$devices" = nvml ] && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
python3 -c 'import torch; print("torch   ", torch.__version__)'
python3 -c '
import json, random, sys
chance = random.Random(1)
for i in range(int(sys.argv[1])):
    print(json.dumps({"id": i, "text": "%x" % chance.getrandbits(8 * chance.randint(8, 40))}))' "$records" >"$dir/in.jsonl"
echo "input    $records records, $(du -h "$dir/in.jsonl" | cut -f1)"

$berth serve --devices "$devices" --state-dir "$dir/state" --listen '' 2>"$dir/log" &
daemon=$!
for _ in $(seq 100); do [ -S "$BERTH_SOCKET" ] && $berth leases >/dev/null 2>&1 && break; pause 0.1; done
must "the daemon is ready" $berth leases
$berth config set gpu.max_pipelines=8 >/dev/null

run() { # run WORKERS OUTPUT
  timeout 100 $berth run --input "$dir/in.jsonl" --output "$2" --gpus 1 --workers-per-gpu "$1" --workers "$1" --memory 4GiB --batch 1024 \
    --json -- python3 "$dir/worker.py" >"$2.summary" 2>"$2.log"
}
rate() { python3 -c 'import json,sys; s=json.load(open(sys.argv[1])); print("%.0f" % (s["records"]/s["seconds"]), s["restarts"], s["retries"])' "$1"; }

for workers in 1 2 4; do
  say "workers on the GPU: $workers"
  out=$dir/out-$workers.jsonl
  must "the run succeeds" run "$workers" "$out"
  grep -v 'records/s' "$out.log" | head -8
  read -r speed restarts retries < <(rate "$out.summary")
  echo "workers: $workers, $speed records/s including the start of the workers, $restarts restarts, $retries records given out again"
  must "every id is in the output exactly once" python3 "$dir/check.py" "$out" "$records"
done

say "2 workers on the GPU, one of them killed during the run"
out=$dir/out-killed.jsonl
run 2 "$out" &
job=$!
victim=
for _ in $(seq 600); do
  pause 0.1
  kill -0 "$job" 2>/dev/null || break
  [ -s "$out.berth/outcomes" ] || continue
  victim=$(sed -n 's/.*process \([0-9]*\) on .*/\1/p' "$out.log" | head -1)
  [ -n "$victim" ] && kill -9 "$victim" && break
done
wait "$job"; code=$?
must "a worker was killed while it worked (process ${victim:-none})" [ -n "$victim" ]
must "the run succeeds nevertheless" [ "$code" = 0 ]
read -r speed restarts retries < <(rate "$out.summary")
echo "$speed records/s, $restarts restarts, $retries records given out again"
must "the run gave its records out again" [ "${retries:-0}" -gt 0 ]
grep 'berth: worker' "$out.log"
must "every id is in the output exactly once" python3 "$dir/check.py" "$out" "$records"
must "nobody holds a lease afterwards" sh -c "$berth leases | grep -q ^Nobody"
$berth events | grep batch: | tail -8

printf '\n%d failed\n' "$failures"
exit "$failures"
