"""The programs that park.py parks.

    parkprogram.py work KIND GIB FILE [SECONDS]

holds GIB of memory of a GPU by the library KIND (torch, jax, cupy), and computes
on all of it: every word x becomes x * A + C, again and again. After each round it
compares the sum of all words, and single words, with what they must be, and
appends "TIME ROUND ok" to FILE, or "TIME ROUND WRONG". It ends after SECONDS of
work, in which the time that a round hangs does not count, with a line "done". KIND
managed takes unified memory, which the driver cannot park; sim takes memory of a
simulated GPU; busy holds the GPU for 20 s at a time. The kinds graphs, pinned,
cudnn, streams, compile, loaders and nccl do the same with PyTorch, each by another
way; spawned does it in two processes, which write their names after each line.

    parkprogram.py share GIB FILE [COMMAND...]

computes like work, and lets a child open some of its memory (CUDA IPC), which it
starts by COMMAND, if there is one. Both write their names after each line.

    parkprogram.py bare PID STEP...

calls the driver itself, and prints how long each call took, as JSON.

    parkprogram.py cache KIND GIB FILE [deaf]

frees GIB of memory into the cache of the library, gives it back when berth asks
for it, unless it is deaf, and writes to FILE how much that is.
"""
import ctypes
import json
import os
import pickle
import subprocess
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


class Graphs(Torch):
    """A CUDA graph."""

    def __init__(self, arrays):
        super().__init__(arrays)
        before = [x.clone() for x in self.arrays]
        super().step()  # libraries load what they need
        self.graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(self.graph):
            super().step()
        for x, y in zip(self.arrays, before):
            x.copy_(y)

    def step(self):
        self.graph.replay()


class Pinned(Torch):
    """Pinned memory of the machine, which the words go through."""

    def __init__(self, arrays):
        super().__init__(arrays)
        self.host = [self.torch.empty(WORDS, dtype=self.torch.int32, pin_memory=True) for _ in range(arrays)]

    def step(self):
        for x, y in zip(self.arrays, self.host):
            y.copy_(x, non_blocking=True)
            x.zero_()
            x.copy_(y, non_blocking=True)
        super().step()


class Checked(Torch):
    """A program with a second result, which is wrong if the first one says so."""

    good = True

    def total(self):
        return super().total() if self.good else -1


class Cudnn(Checked):
    """A convolution, which must give the same as at first."""

    def __init__(self, arrays):
        super().__init__(arrays)
        torch = self.torch
        torch.backends.cudnn.deterministic = True
        torch.manual_seed(7)
        self.layer = torch.nn.Conv2d(16, 32, 3, padding=1).cuda()
        self.image = torch.randn(8, 16, 128, 128, device="cuda")
        self.first = self.layer(self.image).detach()

    def step(self):
        super().step()
        self.good &= self.torch.equal(self.layer(self.image).detach(), self.first)


class Streams(Torch):
    """Eight streams, each with a part of the words."""

    def __init__(self, arrays):
        super().__init__(arrays)
        self.streams = [self.torch.cuda.Stream() for _ in range(8)]
        self.torch.cuda.synchronize()

    def step(self):
        for x in self.arrays:
            for stream, part in zip(self.streams, x.chunk(8)):
                with self.torch.cuda.stream(stream):
                    part.mul_(A).add_(signed(C))
        self.torch.cuda.synchronize()


class Compile(Torch):
    """A function that torch.compile has compiled."""

    def __init__(self, arrays):
        super().__init__(arrays)
        self.next = self.torch.compile(lambda x: x * A + signed(C))

    def step(self):
        self.arrays = [self.next(x) for x in self.arrays]


class Loaders(Checked):
    """Two forked processes that load data, and do not use the GPU."""

    def __init__(self, arrays):
        super().__init__(arrays)
        data = self.torch.utils.data.TensorDataset(self.torch.arange(4096))
        self.loader = self.torch.utils.data.DataLoader(data, batch_size=1024, num_workers=2, multiprocessing_context="fork", persistent_workers=True)

    def step(self):
        super().step()
        self.good &= sum(int(batch.cuda().sum()) for batch, in self.loader) == 4096 * 4095 // 2


class Nccl(Checked):
    """NCCL with one rank."""

    def __init__(self, arrays):
        super().__init__(arrays)
        import torch.distributed

        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
        self.sums = torch.arange(1024, dtype=torch.int64, device="cuda")

    def step(self):
        super().step()
        self.torch.distributed.all_reduce(self.sums)
        self.good &= int(self.sums.sum()) == 1024 * 1023 // 2


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

    imported = 0  # MiB of other processes

    def __init__(self, arrays):
        folder = os.path.join(os.environ["BERTH_SIM_GUESTS"], os.environ["CUDA_VISIBLE_DEVICES"].split(",")[0])
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, str(os.getpid()))
        self.parked = self.path + ".parked"
        self.count, self.a, self.c = arrays, 1, 0
        self.load(50)

    def load(self, percent):
        start = open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]
        with open(self.path + ".new", "w") as f:
            json.dump({"memory_mb": self.count * WORDS * 4 // 2**20, "load": percent, "start_time": int(start), "imported_mb": self.imported}, f)
        os.rename(self.path + ".new", self.path)

    def step(self):
        while os.path.exists(self.parked):
            time.sleep(0.01)
        self.a, self.c = self.a * A % BITS, (self.c * A + C) % BITS

    def total(self):
        n = self.count * WORDS
        return self.a * (n * (n - 1) // 2) + n * self.c

    def words(self, at):
        return [self.a * (i * WORDS + j) + self.c for i in range(self.count) for j in at]


KINDS = {
    "torch": Torch, "cupy": Cupy, "jax": Jax, "managed": Managed, "sim": Sim, "graphs": Graphs, "pinned": Pinned,
    "cudnn": Cudnn, "streams": Streams, "compile": Compile, "loaders": Loaders, "nccl": Nccl,
}
RESTS_AFTER = 20 if "RESTS" in os.environ else 0  # rounds after which it does nothing for RESTS seconds
PLAIN = "sim" if "BERTH_SIM_GUESTS" in os.environ else "torch"


def work(kind, gib, name, seconds="0", who="", also=lambda: True):
    out = open(name, "a", buffering=1)
    if kind == "busy":
        return busy(out)
    if kind == "spawned":
        return spawned(gib, name)
    try:
        arrays = max(1, round(float(gib) * 2**30 / WORDS / 4))
        memory, n, at = KINDS[kind](arrays), arrays * WORDS, (0, WORDS // 3, WORDS - 1)
        a, c, rounds, worked, last = 1, 0, 0, 0.0, time.time()
        while not float(seconds) or worked < float(seconds):
            memory.step()
            a, c, rounds = a * A % BITS, (c * A + C) % BITS, rounds + 1
            right = memory.total() % BITS == (a * (n * (n - 1) // 2) + n * c) % BITS
            right &= also()
            right &= [w % BITS for w in memory.words(at)] == [(a * (i * WORDS + j) + c) % BITS for i in range(arrays) for j in at]
            time.sleep(0.01)
            now = time.time()
            worked, last = worked + min(now - last, 0.5), now
            print("%.3f" % now, rounds, "ok" if right else "WRONG", who, file=out)
            if not right:
                sys.exit(1)
            if rounds == RESTS_AFTER:
                if kind == "sim":
                    memory.load(0)
                time.sleep(float(os.environ["RESTS"]))
        print("%.3f" % time.time(), rounds, "done", file=out)
    except Exception as e:  # out of memory, above all
        print("%.3f" % time.time(), 0, "FAILED", repr(e).replace("\n", " ")[:300], file=out)
        raise


def spawned(gib, name):
    """Computes in two processes, and uses no GPU itself."""
    import multiprocessing

    spawn = multiprocessing.get_context("spawn")
    both = [spawn.Process(target=work, args=(PLAIN, gib, name, "0", who)) for who in ("one", "two")]
    for p in both:
        p.start()
    for p in both:
        p.join()


def share(gib, name, *command):
    if PLAIN == "torch":
        import torch
        from torch.multiprocessing.reductions import reduce_tensor

        shared = torch.full((WORDS // 4,), 9, dtype=torch.int32, device="cuda")
        torch.cuda.synchronize()
        with open(name + ".handle", "wb") as f:
            pickle.dump(reduce_tensor(shared), f)
    child = subprocess.Popen([*command, sys.executable, os.path.abspath(__file__), "opened", gib, name])
    work(PLAIN, gib, name, "0", "parent", lambda: child.poll() is None and (PLAIN == "sim" or int(shared.sum()) == 9 * shared.numel()))


def opened(gib, name):
    """The child of share, which has opened some of its memory."""
    right = lambda: True  # noqa: E731
    if PLAIN == "torch":
        with open(name + ".handle", "rb") as f:
            rebuild, arguments = pickle.load(f)
        got = rebuild(*arguments)
        right = lambda: int(got.sum()) == 9 * got.numel()  # noqa: E731
    Sim.imported = WORDS // 2**20
    work(PLAIN, gib, name, "0", "child", right)


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
    {"work": work, "share": share, "opened": opened, "bare": bare, "cache": cache, "serve": serve}[sys.argv[1]](*sys.argv[2:])
