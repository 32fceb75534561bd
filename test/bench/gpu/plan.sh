#!/usr/bin/env bash
# Plans and runs pipelines on this machine's NVIDIA GPU, end to end. Needs
# bin/berth (make build) and a python3 with NumPy, CuPy, PyTorch and JAX. Prints
# PASS or FAIL for each claim; exits non-zero if one of them does not hold.
set -u
cd "$(dirname "$0")/../../.."
berth=$PWD/bin/berth
dir=$(mktemp -d)
failures=0
export BERTH_SOCKET=$dir/berth.sock XDG_CACHE_HOME=$dir/cache PYTHONPATH=$PWD/python PYTHONUNBUFFERED=1
daemon=
finish() { [ -n "$daemon" ] && kill "$daemon" 2>/dev/null; wait; rm -rf "$dir"; }
trap finish EXIT

say() { printf '\n== %s\n' "$*"; }
must() { # must "what is true" command…
  local what=$1; shift
  if "$@"; then printf 'PASS  %s\n' "$what"; else printf 'FAIL  %s\n' "$what"; failures=$((failures + 1)); fi
}
value() { python3 -c "import json,sys; d=json.load(open('$1')); print($2)"; }
is() { [ "$(value "$1" "$2")" = "$3" ]; }
none_held() { for _ in $(seq 50); do $berth leases | grep -q '^Nobody' && return; read -rt 0.1 <> <(:); done; $berth leases; return 1; }

say "machine"
echo "commit   $($berth version 2>/dev/null | head -1)"
echo "kernel   $(uname -r), $(nproc) CPUs, $(python3 --version)"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
uuid=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | head -1)

say "the daemon"
$berth serve --devices nvml --state-dir "$dir/state" --listen '' 2>"$dir/log" &
daemon=$!
for _ in $(seq 100); do $berth status >/dev/null 2>&1 && [ -S "$BERTH_SOCKET" ] && break; read -rt 0.1 <> <(:); done
must "the daemon answers" "$berth" leases

say "a plan, with the libraries that python3 really has"
start=$(date +%s.%N)
$berth plan examples/pipelines/image.yaml; code=$?
first=$(date +%s.%N)
must "examples/pipelines/image.yaml can be planned" [ $code = 0 ]
$berth plan examples/pipelines/image.yaml --json >"$dir/image.json"
second=$(date +%s.%N)
python3 -c "print(f'planned in {$first-$start:.2f} s, and again with the cached libraries in {$second-$first:.2f} s')"
must "the run is on $uuid" is "$dir/image.json" "d['pipelines'][0]['runs'][0]['gpu']" "$uuid"
must "cupy to torch is zero copy" is "$dir/image.json" "d['pipelines'][0]['steps'][2]['conversions'][0]['cost']" zero_copy
must "the versions are those of python3" is "$dir/image.json" \
  "{l['name']: l['version'] for s in d['pipelines'][0]['steps'] for l in s['libraries']}['torch']" "$(python3 -c 'import torch; print(torch.__version__)')"
cat >"$dir/three.yaml" <<'YAML'
pipelines:
- name: three
  steps:
  - {name: a, input: torch, output: torch, memory_mb: 1GiB}
  - {name: b, input: cupy, output: cupy, memory_mb: 1GiB}
  - {name: c, input: jax, output: jax, memory_mb: 1GiB}
YAML
must "torch, cupy and jax all see the GPU" "$berth" plan "$dir/three.yaml"

say "what cannot work"
sed 's/memory_mb: 4GiB/memory_mb: 900GiB/' examples/pipelines/image.yaml >"$dir/large.yaml"
$berth plan "$dir/large.yaml"; code=$?
must "berth plan refuses a step larger than the GPU with code 4" [ $code = 4 ]
sed 's/output: cupy/output: cupy\n        libraries: no_such_library/' examples/pipelines/image.yaml >"$dir/missing.yaml"
$berth plan "$dir/missing.yaml"; code=$?
must "berth plan refuses a missing library with code 4" [ $code = 4 ]

says() { # says "text" command…: the command succeeds and prints the text
  local text=$1; shift
  "$@" | tee "$dir/said"; [ "${PIPESTATUS[0]}" = 0 ] && grep -qF -- "$text" "$dir/said"
}
say "the image pipeline, by itself: planned, leased, checked against NumPy"
must "it runs on the GPU, correct and without a copy between cupy and torch" \
  says "planned by itself, ran on $uuid, as planned" python3 examples/python/image_pipeline.py
must "its lease is given back" none_held

say "the same under berth plan --run"
must "it follows the plan and uses the lease of the plan" \
  says "planned by examples/pipelines/image.yaml, ran on $uuid, as planned" \
  "$berth" plan examples/pipelines/image.yaml --run -- python3 examples/python/image_pipeline.py
must "its lease is given back" none_held

say "what berth learned about the functions, for every pipeline that calls them"
cat >"$dir/learned.yaml" <<'YAML'
pipelines:
- name: another
  steps:
  - {name: smooth, input: cupy, output: cupy, function: image_pipeline.denoise}
  - {name: find, input: torch, output: torch, function: image_pipeline.segment}
YAML
$berth plan "$dir/learned.yaml" --no-probe
$berth plan "$dir/learned.yaml" --no-probe --json >"$dir/learned.json"
must "the next plan knows the memory of both runs" is "$dir/learned.json" \
  "[(s['memory_from'], s['measured']) for s in d['pipelines'][0]['steps']]" "[('learned', 2), ('learned', 2)]"

say "four wells side by side; one asks for more than its lease, one is killed"
cat >"$dir/well.py" <<'PY'
import os, signal, torch
well = int(os.environ["BERTH_RUN"].split("[")[1].rstrip("]"))
assert torch.cuda.device_count() == 1
x = torch.ones(1 << 28, device="cuda")  # 1 GiB
if well == 1:
    try:
        torch.ones(1 << 31, device="cuda")  # 8 GiB
        print("got 8 GiB under a lease of", os.environ["BERTH_MEMORY_MB"], "MiB")
        raise SystemExit(9)
    except torch.cuda.OutOfMemoryError:
        print("8 GiB were refused")
if well == 2:
    os.kill(os.getpid(), signal.SIGKILL)
print("sum", int(x.sum()))
PY
cat >"$dir/wells.yaml" <<YAML
pipelines:
- name: well
  count: 4
  command: [python3, $dir/well.py]
  steps: [{name: work, input: torch, output: torch, memory_mb: 2GiB}]
YAML
$berth plan "$dir/wells.yaml" --run --json >"$dir/wells.json"; code=$?
must "the command reports that one failed" [ $code = 1 ]
must "all four were placed" is "$dir/wells.json" "[r['placement'] for r in d['runs']]" "['confirmed', 'confirmed', 'confirmed', 'confirmed']"
must "the killed one failed, the others are done" is "$dir/wells.json" "[r['exit_status'] for r in d['runs']]" "[0, 0, -1, 0]"
must "the library refused more than the lease" is "$dir/wells.json" "d['runs'][1]['lease']['enforced_by'] in ('framework', 'mps')" True
must "every lease is given back" none_held

say "events"
$berth events | grep plan
cat "$dir/log"

printf '\n%d failed\n' "$failures"
exit "$failures"
