"""Looks for a sign by which a process that shares GPU memory can be told from others.

    python3 test/bench/gpu/ipcsigns.py [KIND...]

starts pairs of processes, a parent that owns memory of the GPU and a child:

alone        each has its own memory, and nothing is shared
ipc          the child opens memory of the parent (cuIpcOpenMemHandle)
closed       it has opened it, and closed it again
event        it opens an event of the parent (cuIpcOpenEventHandle)
vmm          it imports memory of the parent by a descriptor (cuMemImportFromShareableHandle)
torch-alone  torch.multiprocessing; each has its own tensor
torch-ipc    torch.multiprocessing; the child has a tensor of the parent
torch-vmm    the same with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True

For each pair it prints all that can be seen from outside of the processes, one
line for each sign with its value in each kind, and then what the driver's
checkpoint does to the child, to the parent and to both. Needs root, a GPU of
NVIDIA with driver 570 or newer that nobody else uses, and PyTorch for the kinds
that begin with torch.
"""
import array
import collections
import ctypes
import fcntl
import hashlib
import json
import os
import re
import select
import socket
import subprocess
import sys
import time

MIB = 2**20
OWN, SHARED = 64 * MIB, 512 * MIB
KINDS = ["alone", "ipc", "closed", "event", "vmm", "torch-alone", "torch-ipc", "torch-vmm"]
ME = os.path.abspath(__file__)


# The programs: a parent and its child, which answer a line with ok or what is wrong.


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("windows", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class Driver:
    """The driver library, with a context on the first GPU."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self("cuCtxSetCurrent", context)

    def __call__(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise RuntimeError("%s: code %d" % (name, code))

    def allocate(self, size):
        at = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
        return at.value

    def fill(self, at, size, word):
        self("cuMemsetD32_v2", ctypes.c_uint64(at), ctypes.c_uint(word), ctypes.c_size_t(size // 4))
        self("cuCtxSynchronize")

    def word(self, at):
        value = ctypes.c_uint()
        self("cuMemcpyDtoH_v2", ctypes.byref(value), ctypes.c_uint64(at), ctypes.c_size_t(4))
        return value.value

    def map(self, handle):
        at = ctypes.c_uint64()
        self("cuMemAddressReserve", ctypes.byref(at), ctypes.c_size_t(SHARED), ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
        self("cuMemMap", at, ctypes.c_size_t(SHARED), ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
        self("cuMemSetAccess", at, ctypes.c_size_t(SHARED), ctypes.byref(Access(Location(1, 0), 3)), ctypes.c_size_t(1))
        return at.value


def pair(kind):
    """The parent, without libraries."""
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = subprocess.Popen([sys.executable, ME, "child", kind, str(its.fileno())], pass_fds=[its.fileno()])
    its.close()
    d = Driver()
    own = d.allocate(OWN)
    d.fill(own, OWN, 7)
    shared, handle = 0, Handle()
    if kind == "vmm":
        made, fd = ctypes.c_uint64(), ctypes.c_int(-1)
        d("cuMemCreate", ctypes.byref(made), ctypes.c_size_t(SHARED), ctypes.byref(Properties(1, 1, Location(1, 0))), ctypes.c_uint64(0))
        shared = d.map(made)
        d("cuMemExportToShareableHandle", ctypes.byref(fd), made, 1, ctypes.c_uint64(0))
        mine.sendmsg([b"x" * 64], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd.value]))])
        os.close(fd.value)
    else:
        shared = d.allocate(SHARED)
        if kind in ("ipc", "closed"):
            d("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(shared))
        elif kind == "event":
            event = ctypes.c_void_p()
            d("cuEventCreate", ctypes.byref(event), 6)  # without timing, for other processes
            d("cuIpcGetEventHandle", ctypes.byref(handle), event)
        mine.send(bytes(handle.bytes))
    d.fill(shared, SHARED, 9)
    mine.recv(1)
    print(json.dumps([os.getpid(), child.pid]), flush=True)
    for _ in sys.stdin:
        print("ok" if (d.word(own), d.word(shared)) == (7, 9) else "WRONG", flush=True)


def child(kind, fd):
    wire = socket.socket(fileno=int(fd))
    d = Driver()
    own = d.allocate(OWN)
    d.fill(own, OWN, 7)
    data, passed, _, _ = wire.recvmsg(64, 64)
    at = ctypes.c_uint64()
    if kind in ("ipc", "closed"):
        d("cuIpcOpenMemHandle_v2", ctypes.byref(at), Handle.from_buffer_copy(data), 1)
    if kind == "closed":
        d("cuIpcCloseMemHandle", at)
        at.value = 0
    if kind == "event":
        event = ctypes.c_void_p()
        d("cuIpcOpenEventHandle", ctypes.byref(event), Handle.from_buffer_copy(data))
    if kind == "vmm":
        got = array.array("i")
        got.frombytes(passed[0][2][:4])
        handle = ctypes.c_uint64()
        d("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(got[0]), 1)
        os.close(got[0])
        at.value = d.map(handle)
    wire.send(b".")
    answer("/tmp/ipcsigns.%d" % os.getpid(), lambda: d.word(own) == 7 and (at.value == 0 or d.word(at.value) == 9))


def answer(name, right):
    """Answers whoever connects to the socket."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(name)
    listener.listen()
    while True:
        asker = listener.accept()[0]
        try:
            asker.send(b"ok" if right() else b"WRONG")
        except Exception as e:
            asker.send(repr(e).encode()[:200])
        asker.close()


def torch_pair(kind):
    if kind == "torch-vmm":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    import torch
    import torch.multiprocessing as mp

    spawn = mp.get_context("spawn")
    there, back = spawn.Queue(), spawn.Queue()
    other = spawn.Process(target=torch_child, args=(there, back), daemon=True)
    other.start()
    x = torch.full((SHARED // 4,), 9, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    there.put(None if kind == "torch-alone" else x)
    back.get(timeout=100)
    print(json.dumps([os.getpid(), other.pid]), flush=True)
    for _ in sys.stdin:
        print("ok" if int(x[-1]) == 9 and int(x.sum()) == 9 * x.numel() else "WRONG", flush=True)


def torch_child(there, back):
    import torch

    own = torch.full((OWN // 4,), 7, dtype=torch.int32, device="cuda")
    got = there.get(timeout=100)
    torch.cuda.synchronize()
    back.put("ready")
    answer("/tmp/ipcsigns.%d" % os.getpid(), lambda: int(own.sum()) == 7 * own.numel() and (got is None or int(got[-1]) == 9))


class Pair:
    """A parent and a child that run, or what went wrong."""

    def __init__(self, kind):
        self.p = subprocess.Popen([sys.executable, ME, "pair" if not kind.startswith("torch") else "torch", kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        line = self.line(120)
        self.parent, self.child = json.loads(line) if line.startswith("[") else (0, 0)
        if not self.parent:
            self.p.kill()
            self.why = "%s %s" % (line, self.p.communicate()[1][-400:])

    def line(self, seconds):
        if not select.select([self.p.stdout], [], [], seconds)[0]:
            return "hangs"
        return self.p.stdout.readline().strip() or "ended with %s" % self.p.poll()

    def well(self, seconds=10):
        """What the parent and the child say of their memory."""
        try:
            self.p.stdin.write("\n")
            self.p.stdin.flush()
            parent = self.line(seconds)
        except OSError:
            parent = "ended"
        wire = socket.socket(socket.AF_UNIX)
        wire.settimeout(seconds)
        try:
            wire.connect("/tmp/ipcsigns.%d" % self.child)
            said = wire.recv(300).decode() or "ended"
        except socket.timeout:
            said = "hangs"
        except OSError as e:
            said = "ended (%s)" % e.strerror
        wire.close()
        return {"parent": parent, "child": said}

    def kill(self):
        for pid in (self.child, self.parent):
            try:
                os.kill(pid, 9)
            except (OSError, OverflowError):
                pass
        self.p.wait()
        try:
            os.unlink("/tmp/ipcsigns.%d" % self.child)
        except OSError:
            pass


# What can be seen from outside.


class Info(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Card:
    """The first GPU: NVML, and the calls of the kernel driver below it."""

    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.nvml.nvmlInit_v2()
        self.handle = ctypes.c_void_p()
        self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle))
        try:
            self.kernel, self.why = Kernel(), ""
        except OSError as e:
            self.kernel, self.why = None, repr(e)

    def used(self):
        m = Memory()
        self.nvml.nvmlDeviceGetMemoryInfo(self.handle, ctypes.byref(m))
        return m.used // MIB

    def of(self, pid):
        """What NVML says that a process uses, in MiB."""
        count, list = ctypes.c_uint(64), (Info * 64)()
        self.nvml.nvmlDeviceGetComputeRunningProcesses_v3(self.handle, ctypes.byref(count), list)
        return {one.pid: one.used // MIB for one in list[: count.value]}.get(pid)

    def shares(self, pid):
        """What the kernel driver says: private, shared and owned, shared and duplicated."""
        if not self.kernel:
            return self.why
        try:
            return " ".join("%d" % (n // MIB) for n in self.kernel.memory(pid))
        except OSError as e:
            return str(e)


class Kernel:
    """The control calls of NVIDIA's kernel driver that NVML makes too (nvos.h, ctrl2080gpu.h
    of the open kernel modules). The driver refuses a call whose size is not its own."""

    def __init__(self):
        self.control_fd = os.open("/dev/nvidiactl", os.O_RDWR | os.O_CLOEXEC)
        self.root = self.allocate(0, 0, 0x41)
        self.card_fd = os.open("/dev/nvidia0", os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(self.card_fd, 0xC0004600 | 4 << 16 | 0xC9, bytearray(array.array("i", [self.control_fd])))  # NV_ESC_REGISTER_FD
        ids = (ctypes.c_uint * 32)()
        self.control(self.root, 0x201, ids)
        about = (ctypes.c_uint * 8)(ids[0])
        self.control(self.root, 0x205, about)
        device = (ctypes.c_uint64 * 7)()
        ctypes.cast(device, ctypes.POINTER(ctypes.c_uint))[0] = about[2]
        self.device = self.allocate(self.root, self.root, 0x80, device)
        self.part = self.allocate(self.root, self.device, 0x2080, (ctypes.c_uint * 1)(about[3]))

    def allocate(self, root, parent, kind, parameters=None):
        """NV_ESC_RM_ALLOC with NVOS21_PARAMETERS."""
        at = ctypes.addressof(parameters) if parameters is not None else 0
        size = ctypes.sizeof(parameters) if parameters is not None else 0
        call = bytearray(32)
        memoryview(call)[:16].cast("I")[:] = array.array("I", [root, parent, 0, kind])
        memoryview(call)[16:24].cast("Q")[0] = at
        memoryview(call)[24:28].cast("I")[0] = size
        fcntl.ioctl(self.control_fd, 0xC0004600 | 32 << 16 | 0x2B, call)
        said = memoryview(call).cast("I")
        if said[7] != 0:
            raise OSError("allocate %#x: status %#x" % (kind, said[7]))
        return said[2]

    def control(self, object, command, parameters):
        """NV_ESC_RM_CONTROL with NVOS54_PARAMETERS."""
        call = bytearray(32)
        memoryview(call)[:16].cast("I")[:] = array.array("I", [self.root, object, command, 0])
        memoryview(call)[16:24].cast("Q")[0] = ctypes.addressof(parameters)
        memoryview(call)[24:28].cast("I")[0] = ctypes.sizeof(parameters)
        fcntl.ioctl(self.control_fd, 0xC0004600 | 32 << 16 | 0x2A, call)
        status = memoryview(call).cast("I")[7]
        if status != 0:
            raise OSError("control %#x: status %#x" % (command, status))

    def memory(self, pid):
        """NV2080_CTRL_CMD_GPU_GET_PID_INFO for one process: 200 entries of nine words
        (pid and index, result, six figures, partition) after a count."""
        list = (ctypes.c_uint64 * (1 + 200 * 9))()
        list[0], list[1] = 1, pid
        self.control(self.part, 0x2080018E, list)
        return list[3], list[4], list[5]


def counts(names):
    return dict(sorted(collections.Counter(re.sub(r"[0-9a-f]*[0-9]+[0-9a-f]*", "N", re.sub(r"nvidia0", "nvidiaX", n)) for n in names).items()))


def read(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except OSError as e:
        return e.strerror or ""


def links(pid):
    out = {}
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            out[fd] = os.readlink("/proc/%d/fd/%s" % (pid, fd))
        except OSError:
            pass
    return out


def maps(pid):
    kib = collections.Counter()
    for line in read("/proc/%d/maps" % pid).splitlines():
        parts = line.split(None, 5)
        begin, end = (int(n, 16) for n in parts[0].split("-"))
        name = parts[5] if len(parts) > 5 else "anonymous"
        if re.search("nvidia|/dev/|memfd|anon_inode|deleted|anonymous|SYSV", name):
            kib[parts[1] + " " + re.sub(r"[0-9]{2,}|torch_.*|cuda\.shm.*", "N", name)] += (end - begin) // 1024
    return dict(sorted(kib.items()))


def sockets(pid):
    inodes = {m.group(1) for t in links(pid).values() for m in [re.match(r"socket:\[(\d+)\]", t)] if m}
    rows = [line.split() for line in read("/proc/net/unix").splitlines()[1:]]
    return counts(" ".join(["state", r[5], "refs", r[1]] + r[7:]) for r in rows if r[6] in inodes)


def infos(pid):
    lines = []
    for fd, target in links(pid).items():
        if re.search("nvidia|anon_inode|dmabuf|memfd|/dev/", target):
            extra = [line for line in read("/proc/%d/fdinfo/%s" % (pid, fd)).splitlines() if not re.match("pos:|mnt_id:|ino:", line)]
            lines.append(target + " " + " ".join(extra))
    return counts(lines)


def tree(top):
    out = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            out[path] = hashlib.sha256(read(path).encode()).hexdigest()[:8] if name not in ("suspend", "suspend_depth") else ""
    return out


def signs(card, p, empty):
    out = {}
    for who, pid in (("child", p.child), ("parent", p.parent)):
        state = bare([pid], "state")
        out.update({
            who + ": NVML, MiB": card.of(pid),
            who + ": kernel driver, MiB private, owned, duplicated": card.shares(pid),
            who + ": descriptors": counts(links(pid).values()),
            who + ": fdinfo": infos(pid),
            who + ": maps, KiB": maps(pid),
            who + ": unix sockets": sockets(pid),
            who + ": threads": counts(read("/proc/%d/task/%s/comm" % (pid, t)).strip() for t in os.listdir("/proc/%d/task" % pid)),
            who + ": cuCheckpointProcessGetState": state,
        })
    out["device: used beyond empty, MiB"] = card.used() - empty
    out["device: sum over processes, MiB"] = (card.of(p.child) or 0) + (card.of(p.parent) or 0)
    out["files in /dev/shm"] = counts(os.listdir("/dev/shm"))
    out["/proc/driver"] = tree("/proc/driver")
    out["/proc/locks"] = len(read("/proc/locks").splitlines())
    return out


# What the driver's checkpoint does.


def bare(pids, *steps):
    """Calls the driver in a process of its own: each step for all, with the code of each call."""
    try:
        said = subprocess.run([sys.executable, ME, "bare", json.dumps(pids), *steps], capture_output=True, text=True, timeout=40)
    except subprocess.TimeoutExpired:
        return "hangs"
    return said.stdout.strip() or said.stderr[-200:]


class LockArguments(ctypes.Structure):
    _fields_ = [("timeout", ctypes.c_uint), ("reserved", ctypes.c_uint), ("more", ctypes.c_uint64 * 7)]


def call(pids, *steps):
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuInit(0)
    out = []
    for step in steps:
        for pid in json.loads(pids):
            if step == "state":
                state = ctypes.c_int(-1)
                code = driver.cuCheckpointProcessGetState(pid, ctypes.byref(state))
                out.append("state %d code %d" % (state.value, code))
            else:
                arguments = ctypes.byref(LockArguments(timeout=8000)) if step == "lock" else None
                out.append("%s %d" % (step, getattr(driver, "cuCheckpointProcess" + step.capitalize())(pid, arguments)))
    print("; ".join(out))


def checkpoint(card, kind, who):
    p = Pair(kind)
    if not p.parent:
        return p.kill()
    pids = {"child": [p.child], "parent": [p.parent], "both": [p.child, p.parent]}[who]
    before = card.used()
    away = bare(pids, "lock", "checkpoint")
    freed = before - card.used()
    after = [card.shares(pid) for pid in (p.child, p.parent)]
    back = bare(pids, "restore", "unlock")
    print("%-12s %-7s %s; freed %d MiB of %d; kernel: child %s, parent %s; %s; then %s" % (kind, who, away, freed, before, after[0], after[1], back, p.well()), flush=True)
    p.kill()


def main(kinds):
    card = Card()
    print("driver", read("/proc/driver/nvidia/version").splitlines()[:1], "kernel calls:", card.why or "work", flush=True)
    seen, begin = {}, time.monotonic()
    for kind in kinds:
        empty = card.used()
        p = Pair(kind)
        if p.parent:
            seen[kind] = {**signs(card, p, empty), "both compute": p.well()}
            p.kill()
        else:
            print("%s did not start: %s" % (kind, p.why), flush=True)
    for sign in next(iter(seen.values()), {}):
        print("\n%s" % sign)
        for groups in (("torch" not in k and k for k in seen), ("torch" in k and k for k in seen)):
            first = None
            for kind in filter(None, groups):
                value = seen[kind][sign]
                if first is None:
                    first = value
                    print("   %-12s %s" % (kind, value))
                elif value == first:
                    print("   %-12s the same" % kind)
                elif isinstance(value, dict):
                    changed = {k: (first.get(k), value.get(k)) for k in sorted({*first, *value}) if first.get(k) != value.get(k)}
                    print("   %-12s %s" % (kind, changed))
                else:
                    print("   %-12s %s" % (kind, value))
    print("\nThe driver's checkpoint (codes: 0 is success)", flush=True)
    for kind in seen:
        for who in ("child", "parent", "both"):
            checkpoint(card, kind, who)
    print("%.0f s" % (time.monotonic() - begin))


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] not in KINDS:
        {"pair": pair, "child": child, "torch": torch_pair, "bare": call}[sys.argv[1]](*sys.argv[2:])
    else:
        main(sys.argv[1:] or KINDS)
