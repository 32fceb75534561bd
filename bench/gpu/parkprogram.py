"""The programs that park.py parks.

    parkprogram.py work KIND GIB FILE [SECONDS]

holds GIB of memory of a GPU by the library KIND (torch, jax, cupy), and computes
on all of it: every word x becomes x * A + C, again and again. After each round it
compares the sum of all words, and single words, with what they must be, and
appends "TIME ROUND ok" to FILE, or "TIME ROUND WRONG". It ends after SECONDS of
work, in which the time that a round hangs does not count, with a line "done". KIND
managed takes unified memory, which the driver cannot park; sim takes memory of a
simulated GPU; busy holds the GPU for 20 s at a time.

    parkprogram.py bare PID STEP...

calls the driver itself, and prints how long each call took, as JSON.

    parkprogram.py cache KIND GIB FILE [deaf]

frees GIB of memory into the cache of the library, gives it back when berth asks
for it, unless it is deaf, and writes to FILE how much that is.
"""
import ctypes
import json
import os
import sys
import time

A, C, BITS = 1664525, 1013904223, 2**32
WORDS = 2**26  # of one array: 256 MiB


def signed(n):
    n %= BITS
    return n - BITS if n >= BITS // 2 else n


class Torch:
    def __init__(self, arrays):
        import torch

        self.torch = torch
        base = torch.arange(WORDS, dtype=torch.int32, device="cuda")
        self.arrays = [base + signed(i * WORDS) for i in range(arrays)]
        del base
        torch.cuda.empty_cache()

    def step(self):
        for x in self.arrays:
            x.mul_(A).add_(signed(C))

    def total(self):
        return int(self.torch.stack([x.sum(dtype=self.torch.int64) for x in self.arrays]).sum())

    def words(self, at):
        return self.torch.stack([x[i] for x in self.arrays for i in at]).tolist()


class Cupy:
    def __init__(self, arrays):
        import cupy

        self.cupy = cupy
        base = cupy.arange(WORDS, dtype=cupy.uint32)
        self.arrays = [base + cupy.uint32(i * WORDS % BITS) for i in range(arrays)]
        del base
        cupy.get_default_memory_pool().free_all_blocks()

    def step(self):
        for x in self.arrays:
            x *= self.cupy.uint32(A)
            x += self.cupy.uint32(C)

    def total(self):
        return int(self.cupy.stack([x.sum(dtype=self.cupy.uint64) for x in self.arrays]).sum())

    def words(self, at):
        return self.cupy.stack([x[i] for x in self.arrays for i in at]).get().tolist()


class Managed(Cupy):
    def __init__(self, arrays):
        import cupy

        cupy.cuda.set_allocator(cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc)
        super().__init__(arrays)


class Jax:
    def __init__(self, arrays):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax
        import jax.numpy as jnp

        self.np = jnp
        first = jax.jit(lambda start: jnp.arange(WORDS, dtype=jnp.uint32) + start)
        self.next = jax.jit(lambda x: x * jnp.uint32(A) + jnp.uint32(C), donate_argnums=0)
        self.sum = jax.jit(lambda x: jnp.sum(x, dtype=jnp.uint32))
        self.arrays = [first(jnp.uint32(i * WORDS % BITS)) for i in range(arrays)]

    def step(self):
        self.arrays = [self.next(x) for x in self.arrays]

    def total(self):
        return sum(int(n) for n in [self.sum(x) for x in self.arrays])

    def words(self, at):
        return [int(x[i]) for x in self.arrays for i in at]


class Sim:
    """Memory of a simulated GPU: a file says how much, and nothing is computed. Its
    calls wait while it is parked, as those to a driver do."""

    def __init__(self, arrays):
        folder = os.path.join(os.environ["BERTH_SIM_GUESTS"], os.environ["CUDA_VISIBLE_DEVICES"].split(",")[0])
        os.makedirs(folder, exist_ok=True)
        start = open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]
        path = os.path.join(folder, str(os.getpid()))
        with open(path + ".new", "w") as f:
            json.dump({"memory_mb": arrays * WORDS * 4 // 2**20, "load": 50, "start_time": int(start)}, f)
        os.rename(path + ".new", path)
        self.parked = path + ".parked"
        self.count, self.a, self.c = arrays, 1, 0

    def step(self):
        while os.path.exists(self.parked):
            time.sleep(0.01)
        self.a, self.c = self.a * A % BITS, (self.c * A + C) % BITS

    def total(self):
        n = self.count * WORDS
        return self.a * (n * (n - 1) // 2) + n * self.c

    def words(self, at):
        return [self.a * (i * WORDS + j) + self.c for i in range(self.count) for j in at]


KINDS = {"torch": Torch, "cupy": Cupy, "jax": Jax, "managed": Managed, "sim": Sim}


def work(kind, gib, name, seconds="0"):
    out = open(name, "a", buffering=1)
    if kind == "busy":
        return busy(out)
    try:
        arrays = max(1, round(float(gib) * 2**30 / WORDS / 4))
        memory, n, at = KINDS[kind](arrays), arrays * WORDS, (0, WORDS // 3, WORDS - 1)
        a, c, rounds, worked, last = 1, 0, 0, 0.0, time.time()
        while not float(seconds) or worked < float(seconds):
            memory.step()
            a, c, rounds = a * A % BITS, (c * A + C) % BITS, rounds + 1
            right = memory.total() % BITS == (a * (n * (n - 1) // 2) + n * c) % BITS
            right &= [w % BITS for w in memory.words(at)] == [(a * (i * WORDS + j) + c) % BITS for i in range(arrays) for j in at]
            time.sleep(0.01)
            now = time.time()
            worked, last = worked + min(now - last, 0.5), now
            print("%.3f" % now, rounds, "ok" if right else "WRONG", file=out)
            if not right:
                sys.exit(1)
        print("%.3f" % time.time(), rounds, "done", file=out)
    except Exception as e:  # out of memory, above all
        print("%.3f" % time.time(), 0, "FAILED", repr(e).replace("\n", " ")[:300], file=out)
        raise


def busy(out):
    import torch

    rate = 0
    x = torch.ones(1 << 20, device="cuda")
    for cycles in (10**8, 0):
        begin = time.time()
        torch.cuda._sleep(cycles or int(rate * 20))
        torch.cuda.synchronize()
        rate = cycles / (time.time() - begin) if cycles else rate
        print("%.3f" % time.time(), 1, "ok" if float(x.sum()) == 1 << 20 else "WRONG", file=out)
    while True:
        time.sleep(0.2)
        print("%.3f" % time.time(), 2, "ok" if float(x.sum()) == 1 << 20 else "WRONG", file=out)


class LockArguments(ctypes.Structure):
    _fields_ = [("timeout", ctypes.c_uint), ("reserved", ctypes.c_uint), ("more", ctypes.c_uint64 * 7)]


def bare(pid, *steps):
    driver = ctypes.CDLL("libcuda.so.1")
    code, took = driver.cuInit(0), {}
    for step in steps:
        begin = time.monotonic()
        if step == "state":
            state = ctypes.c_int(-1)
            code = code or driver.cuCheckpointProcessGetState(int(pid), ctypes.byref(state))
            took[step] = state.value
            continue
        arguments = ctypes.byref(LockArguments(timeout=8000)) if step == "lock" else None
        code = code or getattr(driver, "cuCheckpointProcess" + step.capitalize())(int(pid), arguments)
        took[step] = time.monotonic() - begin
    print(json.dumps({"code": code, "took": took}))


def cache(kind, gib, name, deaf=""):
    size = int(float(gib) * 2**30)
    keep = 0
    if kind == "torch":
        import torch

        x = torch.ones(size // 4, dtype=torch.float32, device="cuda")
        torch.cuda.synchronize()
        del x
        keep = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    elif kind == "cupy":
        import cupy

        x = cupy.ones(size // 4, dtype=cupy.float32)
        cupy.cuda.Device().synchronize()
        del x
        pool = cupy.get_default_memory_pool()
        keep = pool.total_bytes() - pool.used_bytes()
    elif kind == "jax":
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax.numpy as jnp

        x = jnp.ones(size // 4, dtype=jnp.float32)
        x.block_until_ready()
        x.delete()
        del x
    if not deaf:
        import berth

        berth.trim_on_request()
    with open(name + ".new", "w") as f:
        json.dump({"kind": kind, "pid": os.getpid(), "cached": keep}, f)
    os.rename(name + ".new", name)
    while True:
        time.sleep(1)


def serve(kind, gib):
    """Computes once for each line of input, and wakes its lease before."""
    import berth

    memory, a, c = KINDS[kind](max(1, round(float(gib) * 2**30 / WORDS / 4))), 1, 0
    n = len(memory.arrays) * WORDS if kind != "sim" else memory.count * WORDS
    for _ in sys.stdin:
        with berth.current():
            memory.step()
            a, c = a * A % BITS, (c * A + C) % BITS
            right = memory.total() % BITS == (a * (n * (n - 1) // 2) + n * c) % BITS
        print("ok" if right else "WRONG", flush=True)


if __name__ == "__main__":
    {"work": work, "bare": bare, "cache": cache, "serve": serve}[sys.argv[1]](*sys.argv[2:])
