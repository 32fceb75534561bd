#!/usr/bin/env python3
"""Checks the conversions and memory caps of the Python package on a real GPU.

    PYTHONPATH=python python3 test/bench/gpu/conversions.py

Needs bin/berth (make build). Converts in every direction between torch, cupy,
jax and numpy, every data type that two of them share, and every kind of array
that is difficult. Compares the values with NumPy, and checks a claim of zero
copies with the pointers of the libraries. Then runs each library in a process of
its own under a lease of 4 GiB: it must get 2 GiB and be refused 8 GiB, only
because it imports the package. Exits with 1 if anything is wrong, and with 2 if
there is nothing to check.
"""

import concurrent.futures
import contextlib
import importlib
import importlib.util
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import time

# jax reads these when it starts: use 64-bit types, and take memory only as needed.
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import berth

BERTH = str(pathlib.Path(__file__).resolve().parents[3] / "bin" / "berth")
LIBRARIES = ("torch", "cupy", "jax")
TYPES = (
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
# DLPack does not know these types everywhere, so they may be copied on the GPU.
MAY_BE_COPIED = ("bool", "bfloat16")
MARKS = {"zero_copy": "zero", "device_copy": "device", "host_copy": "host"}


class Findings:
    def __init__(self):
        self.checks, self.wrong = 0, []

    def check(self, true, *what):
        self.checks += 1
        if not true:
            self.wrong.append(" ".join(str(w) for w in what))
        return bool(true)


def native_pointer(x):
    """Returns the pointer of the library itself, without the package under test."""
    kind = berth.memory_type(x)
    if kind == "torch":
        return x.data_ptr()
    return x.data.ptr if kind == "cupy" else x.unsafe_buffer_pointer()


def example(numpy, dtype):
    numbers = numpy.arange(-32, 32).reshape(8, 8)
    if dtype == "bool":
        return numbers % 3 == 0
    if dtype == "bfloat16":
        import ml_dtypes

        return numbers.astype(ml_dtypes.bfloat16)
    made = numbers.astype(dtype)
    return made * (1 + 2j) if dtype.startswith("complex") else made


def same(numpy, a, b):
    return a.dtype == b.dtype and a.shape == b.shape and numpy.array_equal(a, b)


def make(library, a):
    """Returns the array in a library, or None if the library has no such type."""
    try:
        return berth.convert(a, to=library, device=0)
    except Exception as why:  # each library has its own exception
        if os.environ.get("BERTH_VERBOSE"):
            print("%s has no %s: %s" % (library, a.dtype, why), file=sys.stderr)
        return None


def check_types(found, numpy, here):
    """Prints the table: the cost of each direction for each type."""
    directions = list(itertools.permutations(here, 2))
    print("\n%-11s" % "" + "".join("%-14s" % ("%s→%s" % d) for d in directions))
    for dtype in TYPES:
        if dtype == "bfloat16" and importlib.util.find_spec("ml_dtypes") is None:
            continue  # NumPy has no bfloat16 to compare with
        a = example(numpy, dtype)
        made = {library: make(library, a) for library in here}
        for library, x in made.items():
            if x is not None:
                found.check(same(numpy, berth.convert(x, to="numpy"), a), dtype, library, "to numpy is wrong")
        cells = [check_direction(found, numpy, a, dtype, made, *d) for d in directions]
        print("%-11s" % dtype + "".join("%-14s" % cell for cell in cells))


def check_direction(found, numpy, a, dtype, made, source, target):
    if made[source] is None or made[target] is None:
        return "-"
    what = (dtype, source, "to", target)
    try:
        done = berth.conversion(made[source], to=target)
        back = berth.convert(done.value, to="numpy")
    except Exception as why:
        found.check(False, *what, "failed:", type(why).__name__, str(why)[:300])
        return "FAILED"
    right = found.check(berth.memory_type(done.value) == target and same(numpy, back, a), *what, "is wrong")
    equal = native_pointer(done.value) == native_pointer(made[source])
    true = found.check(equal == (done.cost == "zero_copy"), *what, "claims", done.cost, "with pointers equal:", equal)
    enough = done.cost == "zero_copy" or dtype in MAY_BE_COPIED and done.cost == "device_copy"
    enough = found.check(enough, *what, "is no zero-copy:", done)
    return MARKS.get(done.cost, done.cost) if right and true and enough else "WRONG"


def check_shapes(found, numpy, here):
    """Converts difficult arrays between all libraries."""
    a = numpy.arange(48, dtype="float32").reshape(6, 8)
    fixed = a.copy()
    fixed.flags.writeable = False
    shapes = {
        "plain": a, "transposed": a.T, "sliced": a[::2, 1:5], "backwards": a[::-1], "0-d": a[2, 3].reshape(()),
        "empty": a[:0], "read-only": fixed, "swapped bytes": a.astype(">f4"), "fortran": numpy.asfortranarray(a),
        "offset": a[1:],
    }  # fmt: skip
    for name, shape in shapes.items():
        want = shape.astype("float32")
        for source, target in itertools.permutations(here + ["numpy"], 2):
            try:
                there = berth.convert(shape, to=source, device=None if source == "numpy" else 0)
                back = berth.convert(berth.convert(there, to=target), to="numpy")
                found.check(same(numpy, back, want), name, source, "to", target, "is wrong")
            except Exception as why:
                found.check(False, name, source, "to", target, "failed:", type(why).__name__, str(why)[:300])
    print("\n%d kinds of array between %s and numpy" % (len(shapes), ", ".join(here)))


def check_views(found, here):
    """Converts views on the GPU, which a host copy would have put in order."""
    makers = {}
    if "torch" in here:
        import torch

        base = torch.arange(48, dtype=torch.float32, device="cuda").reshape(6, 8)
        makers["torch"] = {"transposed": base.T, "sliced": base[::2, 1:5], "expanded": base[:1].expand(6, 8)}
    if "cupy" in here:
        import cupy

        base = cupy.arange(48, dtype="float32").reshape(6, 8)
        makers["cupy"] = {"transposed": base.T, "sliced": base[::2, 1:5], "backwards": base[::-1]}
    import numpy

    print("\nviews on the GPU")
    for source, views in makers.items():
        for (name, x), target in itertools.product(views.items(), [t for t in here if t != source]):
            try:
                done = berth.conversion(x, to=target)
                back = berth.convert(done.value, to="numpy")
                found.check(same(numpy, back, berth.convert(x, to="numpy")), name, source, "to", target, "is wrong")
                equal = native_pointer(done.value) == native_pointer(x)
                found.check(equal == (done.cost == "zero_copy"), name, source, "to", target, "claims", done.cost)
                found.check(done.cost != "host_copy", name, source, "to", target, "left the GPU:", done)
                print("  %-11s %s" % (name, done))
            except Exception as why:
                found.check(False, name, source, "to", target, "failed:", type(why).__name__, str(why)[:300])


def check_sharing(found, here):
    """Checks that one library reads what the other writes."""
    if not {"torch", "cupy"} <= set(here):
        return
    import cupy
    import torch

    x = torch.zeros(1000, device="cuda")
    y = berth.convert(x, to="cupy")
    y[:] = 7
    found.check(float(x.sum()) == 7000, "torch does not see what cupy wrote")
    z = cupy.zeros(1000)
    with cupy.cuda.Stream(non_blocking=True):
        z += cupy.random.rand(1000) * 0 + 3  # another stream: the conversion has to wait for it
        t = berth.convert(z, to="torch")
        found.check(float(t.sum()) == 3000, "torch did not wait for the stream of cupy")


def time_directions(here, numpy):
    """Prints how long conversions of 256 MiB take."""
    a = numpy.ones(64 << 20, dtype="float32")
    print("\n256 MiB, median of 20")
    for source, target in itertools.permutations(here + ["numpy"], 2):
        x = berth.convert(a, to=source, device=None if source == "numpy" else 0)
        spans = []
        for _ in range(20):
            began = time.perf_counter()
            done = berth.conversion(x, to=target)
            synchronize(done.value)
            spans.append(time.perf_counter() - began)
        print("  %-14s %-12s %10.1f µs" % ("%s→%s" % (source, target), done.cost, sorted(spans)[10] * 1e6))


def synchronize(x):
    kind = berth.memory_type(x)
    if kind == "jax":
        x.block_until_ready()
    elif kind == "torch":
        sys.modules["torch"].cuda.synchronize()
    elif kind == "cupy":
        sys.modules["cupy"].cuda.Device().synchronize()


# The parts of a program that must get 2 GiB and not 8.
ALLOCATE = {
    "torch": "import torch\ndef take(n): return torch.ones(n << 28, device='cuda')",
    "cupy": "import cupy\ndef take(n): return cupy.ones(n << 28, dtype='float32')",
    "jax": "import jax.numpy as jnp\ndef take(n): return jnp.ones(n << 28, dtype='float32').block_until_ready()",
}
REFUSED = """
x = take(2)
try:
    y = take(8)
except Exception as why:
    from berth.workers import out_of_memory
    assert out_of_memory(why), why
    print('refused')
else:
    print('granted')
"""


def check_caps(found, here):
    """Runs each library in its own process, with and without a limit. The process
    does not get the variables that a launcher sets for libraries: the package
    must find and set everything itself."""
    print("\n8 GiB under a limit of 4 GiB")
    programs = []
    with daemon() as client, berth.lease("4GiB", client=client) as lease:
        told = {k: v for k, v in lease.env.items() if k.startswith(("BERTH_", "CUDA_"))}
        told["BERTH_SOCKET"] = client.sockets[0]
        print("  " + ", ".join("%s=%s" % pair for pair in sorted(told.items()) if "SOCKET" not in pair[0]))
        for library in here:
            programs.append((library, "no limit", "", {}, "granted"))
            programs.append((library, "under a lease", "", told, "refused"))
            if library != "jax":  # jax takes a limit only before it starts
                programs.append((library, "berth.cap", "berth.cap('4GiB', %r)\n" % library, {}, "refused"))
        with concurrent.futures.ThreadPoolExecutor(4) as lanes:  # they spend most of their time on imports
            codes = ["import berth\n" + head + ALLOCATE[library] + REFUSED for library, _, head, _, _ in programs]
            answers = list(lanes.map(program, codes, [variables for _, _, _, variables, _ in programs]))
    for (library, way, _, _, want), said in zip(programs, answers):
        found.check(said == want, library, way + ":", said, "instead of", want)
        print("  %-6s %-14s %s" % (library, way, said))


@contextlib.contextmanager
def daemon():
    """Starts a daemon for this machine's GPUs and yields a client of it."""
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:
        client = berth.Client(socket=os.path.join(folder, "berth.sock"))
        command = [BERTH, "serve", "--devices", "nvml", "--state-dir", folder]
        command += ["--socket", client.sockets[0], "--listen", ""]
        serving = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            while True:
                try:
                    client.call("GET", "/readyz")
                    break
                except berth.BerthError:
                    if serving.poll() is not None:
                        raise
                    time.sleep(0.05)
            yield client
        finally:
            serving.terminate()
            serving.wait()


def program(code, variables):
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "CUPY_GPU", "XLA_", "PYTORCH_"))}
    env = {**plain, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", **variables}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300)
    lines = done.stdout.strip().splitlines()
    return lines[-1] if done.returncode == 0 and lines else "failed: " + done.stderr.strip()[-500:]


def machine():
    """Describes the machine that is checked."""
    version = subprocess.run([BERTH, "version"], capture_output=True, text=True).stdout.partition("\n")[0]
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    gpus = subprocess.run(query, capture_output=True, text=True).stdout.strip()
    return "commit   %s\nkernel   %s, %d CPUs\n%s" % (version, os.uname().release, os.cpu_count(), gpus)


def sees_gpu(here):
    for library in here:
        try:
            berth.convert(sys.modules["numpy"].ones(1), to=library, device=0)
            return True
        except Exception as why:
            print("%s: %s" % (library, why), file=sys.stderr)
    return False


def main():
    here = [name for name in LIBRARIES if importlib.util.find_spec(name)]
    found = Findings()
    for name in LIBRARIES:
        found.check(name in here or "--allow-missing" in sys.argv, name, "is not installed, so it is not checked")
    if not here or importlib.util.find_spec("numpy") is None:
        print("%s has no numpy, or none of %s: install them" % (sys.executable, ", ".join(LIBRARIES)), file=sys.stderr)
        return 2
    import numpy

    if not sees_gpu(here):
        print("no library sees a GPU", file=sys.stderr)
        return 2
    print(machine())
    versions = ["%s %s" % (n, importlib.import_module(n).__version__) for n in ["numpy"] + here]
    print("Python %s, %s" % (sys.version.split()[0], ", ".join(versions)))
    check_types(found, numpy, here)
    check_shapes(found, numpy, here)
    check_views(found, here)
    check_sharing(found, here)
    time_directions(here, numpy)
    print("\ntrimmed %d MiB" % (berth.trim() >> 20))
    check_caps(found, here)
    print("\n%d checks, %d wrong" % (found.checks, len(found.wrong)))
    for wrong in found.wrong:
        print("WRONG: " + wrong)
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
