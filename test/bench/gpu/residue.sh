#!/usr/bin/env bash
# Looks whether memory of an NVIDIA GPU still holds what an earlier program wrote:
# a process fills GIB (default 30) GiB with a pattern and exits, or is killed with
# -9; the next process takes all memory that is free, never writes to it, and
# counts the bytes that are not zero. First it shows that it would see them.
# Ends with 0 if nothing was left, 1 if something was, and 2 if that could not be
# found out. Needs Python, the driver, and a GPU that nobody else uses; GPU=1
# takes another one than the first.
#   residue.sh [--keep STATE_DIR] [RESULT.json]
# writes the result to RESULT.json; --keep adds it to residue.json in the state
# folder of the daemon (/var/lib/berth), where receipts get cleared_by from.
set -u
keep= result=
while [ $# -gt 0 ]; do
  case $1 in
  --keep) keep=${2:?--keep needs the state folder of the daemon, as in --keep /var/lib/berth}; shift 2 ;;
  -*) echo "residue.sh: there is no flag $1: use --keep STATE_DIR, and the name of a file for the result" >&2; exit 2 ;;
  *) result=$1; shift ;;
  esac
done
gib=${GIB:-30}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cannot() { echo "could not be asked: $*"; exit 2; }

about=$(nvidia-smi -i "${GPU:-0}" --query-gpu=name,driver_version,uuid --format=csv,noheader 2>/dev/null) || cannot "nvidia-smi shows no GPU ${GPU:-0}"
IFS=, read -r device driver uuid <<<"$about"
driver=${driver# } uuid=${uuid# }
others=$(nvidia-smi -i "${GPU:-0}" --query-compute-apps=pid --format=csv,noheader | wc -l)
[ "$others" = 0 ] || cannot "$others other processes use the GPU"
echo "$device, driver $driver, $uuid"

cat >"$dir/memory.py" <<'PY'
"""Takes memory of the GPU through the driver alone: no library in between
writes to it."""
import ctypes, os, sys

PATTERN = bytes.fromhex("b31e7a5c")
PIECE = 1 << 30  # bytes that are taken at a time
COPY = 256 << 20  # bytes that are read at a time
cuda, libc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def ask(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        print("could not be asked: %s: %s" % (name, (text.value or b"error %d" % code).decode()))
        sys.stdout.flush()
        os._exit(2)


def begin():
    device, context = ctypes.c_int(), ctypes.c_void_p()
    ask("cuInit", 0)
    ask("cuDeviceGet", ctypes.byref(device), 0)
    ask("cuCtxCreate_v2", ctypes.byref(context), 0, device)


def take(size):
    """The address of so much memory; None if there is no more."""
    address = ctypes.c_uint64()
    if cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)):
        return None
    return address


def give(address):
    ask("cuMemFree_v2", address)


def fill(address, size):
    ask("cuMemsetD32_v2", address, ctypes.c_uint(int.from_bytes(PATTERN, "little")), ctypes.c_size_t(size // 4))
    ask("cuCtxSynchronize")


class Reader:
    def __init__(self):
        self.page = ctypes.c_void_p()
        ask("cuMemHostAlloc", ctypes.byref(self.page), ctypes.c_size_t(COPY), 0)

    def count(self, address, size):
        """How many bytes are not zero, and how many are the pattern's."""
        left = pattern = 0
        for at in range(0, size, COPY):
            length = min(COPY, size - at)
            ask("cuMemcpyDtoH_v2", self.page, ctypes.c_uint64(address.value + at), ctypes.c_size_t(length))
            start = self.page.value
            first = ctypes.string_at(start, 8)
            if first == bytes(8) and libc.memcmp(start, start + 8, length - 8) == 0:
                continue  # all zero
            raw = ctypes.string_at(start, length)
            left += length - raw.count(0)
            pattern += len(PATTERN) * raw.count(PATTERN)
        return left, pattern
PY
cat >"$dir/fill.py" <<'PY'
import sys, signal
from memory import *
begin()
for _ in range(int(sys.argv[1])):
    address = take(PIECE)
    if address is None:
        print("could not be asked: the GPU has no %s GiB to fill" % sys.argv[1])
        sys.exit(2)
    fill(address, PIECE)
print("filled", flush=True)
if sys.argv[2] == "killed":
    signal.pause()
PY
cat >"$dir/look.py" <<'PY'
import json, sys
from memory import *
begin()
reader = Reader()
if sys.argv[1] == "control":
    address = take(PIECE)
    fill(address, PIECE)
    seen = reader.count(address, PIECE)
    give(address)
    address = take(PIECE)
    again = reader.count(address, PIECE)
    print("control: of %d bytes that were written and not freed, the reader sees %d as the pattern" % (PIECE, seen[1]))
    print("         freed and taken again by the same process, %d of them are left" % again[1])
    sys.exit(0 if seen == (PIECE, PIECE) else 2)
pieces = []
for size in (PIECE, PIECE >> 2, PIECE >> 4, PIECE >> 6):
    while (address := take(size)) is not None:
        pieces.append((address, size))
looked = left = pattern = 0
for address, size in pieces:
    found = reader.count(address, size)
    looked, left, pattern = looked + size, left + found[0], pattern + found[1]
print("%d bytes left of %d looked at, %d of them the pattern" % (left, looked, pattern))
json.dump({"looked": looked, "left": left}, open(sys.argv[2], "w"))
sys.exit(2 if looked < int(sys.argv[3]) * PIECE else 0)
PY
export CUDA_VISIBLE_DEVICES=$uuid PYTHONDONTWRITEBYTECODE=1
gone() { # gone: waits until the driver has let go of the process
  for _ in $(seq 300); do
    [ "$(nvidia-smi -i "$uuid" --query-compute-apps=pid --format=csv,noheader | wc -l)" = 0 ] && return 0
    read -rt 0.1 <> <(:)
  done
  return 1
}

python3 "$dir/look.py" control || cannot "the reader does not see a pattern that is there"
for way in exited killed; do
  : >"$dir/filled"
  python3 "$dir/fill.py" "$gib" "$way" >"$dir/filled" 2>&1 &
  pid=$!
  if [ "$way" = killed ]; then
    until grep -q . "$dir/filled" || ! kill -0 "$pid" 2>/dev/null; do read -rt 0.1 <> <(:); done
    kill -9 "$pid" 2>/dev/null
  fi
  wait "$pid" 2>/dev/null
  grep -q '^filled' "$dir/filled" || cannot "$(sed 's/^could not be asked: //' "$dir/filled")"
  gone || cannot "the process that filled the memory does not go away"
  echo "$gib GiB were filled by a process that $([ $way = killed ] && echo 'was killed with -9' || echo exited):"
  python3 "$dir/look.py" look "$dir/$way.json" "$gib" || cannot "the next process did not get as much memory as was filled"
done

python3 - "$dir" "$device" "$driver" "$keep" "${result:-$dir/result.json}" <<'PY'
import datetime, json, os, sys
folder, device, driver, keep, result = sys.argv[1:]
sums = {"looked": 0, "left": 0}
for way in ("exited", "killed"):
    for key, value in json.load(open(os.path.join(folder, way + ".json"))).items():
        sums[key] += value
proof = {
    "driver": driver, "device": device, "checked": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    "looked_bytes": sums["looked"], "left_bytes": sums["left"], "by": "test/bench/gpu/residue.sh",
}


def write(path, proofs):
    new = path + ".new"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump({"version": 1, "proofs": proofs}, file, indent=2)
        file.write("\n")
    os.rename(new, path)


write(result, [proof])
print(json.dumps(proof))
if keep:
    path, others = os.path.join(keep, "residue.json"), []
    if os.path.exists(path):
        others = [p for p in json.load(open(path))["proofs"] if (p["driver"], p["device"]) != (driver, device)]
    write(path, others + [proof])
    print("kept in " + path)
print("%s: %d bytes left of %d looked at" % ("residue" if sums["left"] else "clean", sums["left"], sums["looked"]))
sys.exit(9 if sums["left"] else 0)
PY
case $? in
0) exit 0 ;;
9) exit 1 ;;
*) cannot "the result could not be written" ;;
esac
