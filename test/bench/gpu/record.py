#!/usr/bin/env python3
"""record.py records what one GPU does under a varied load, ten times a second.

  test/bench/gpu/record.py FILE.csv [--gpu N] [--seed N] [--plan SECONDS:LOAD,...]

It reads the GPU through libnvidia-ml and makes the load with torch in a child
process. It changes no clock, no power limit and no mode of the GPU.

A plan is a list of phases. A load is idle, matmul, small, memory (with /DUTY and
/DUTY/PERIOD for a share of the time, such as matmul/0.5/0.2) or steps (a random
load every two to six seconds). Without --plan, the plan holds all of them.
"""
import argparse
import ctypes
import os
import random
import select
import subprocess
import sys
import threading
import time

PLAN = ("20:idle,30:matmul/0.4/5,35:matmul,15:idle,30:memory,25:matmul/0.5/0.4,"
        "60:steps,10:small,25:matmul,30:idle")
HEADER = ("t_s", "temp_c", "power_w", "util", "mem_util", "mem_used_mb", "memtemp_c",
          "sm_mhz", "energy_j", "power_now_w", "throttle")


class Field(ctypes.Structure):
    """Field is nvmlFieldValue_t."""
    _fields_ = [("id", ctypes.c_uint), ("scope", ctypes.c_uint), ("at", ctypes.c_longlong),
                ("latency", ctypes.c_longlong), ("kind", ctypes.c_uint),
                ("result", ctypes.c_uint), ("value", ctypes.c_ulonglong)]


class GPU:
    """GPU reads one device through NVML. What cannot be read is None."""

    def __init__(self, index):
        self.lib = ctypes.CDLL("libnvidia-ml.so.1")
        code = self.lib.nvmlInit_v2()
        if code:
            sys.exit(f"record.py: NVML does not start (code {code}): is the driver loaded?")
        self.device = ctypes.c_void_p()
        code = self.lib.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(self.device))
        if code:
            sys.exit(f"record.py: there is no GPU {index} (code {code})")

    def number(self, name, kind, *before):
        out = kind()
        if getattr(self.lib, name)(self.device, *before, ctypes.byref(out)):
            return None
        return out.value

    def pair(self, name, kind, count):
        out = (kind * count)()
        if getattr(self.lib, name)(self.device, out):
            return [None] * count
        return list(out)

    def field(self, number):
        f = Field(id=number)
        if self.lib.nvmlDeviceGetFieldValues(self.device, 1, ctypes.byref(f)) or f.result:
            return None
        return f.value & 0xffffffff

    def sample(self, energy):
        watts = self.number("nvmlDeviceGetPowerUsage", ctypes.c_uint)
        now = self.field(186)  # NVML_FI_DEV_POWER_INSTANT
        util, mem_util = self.pair("nvmlDeviceGetUtilizationRates", ctypes.c_uint, 2)
        _, _, used = self.pair("nvmlDeviceGetMemoryInfo", ctypes.c_ulonglong, 3)
        joules = None
        if energy:
            joules = self.number("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong)
        return {
            "temp_c": self.number("nvmlDeviceGetTemperature", ctypes.c_uint, 0),
            "power_w": None if watts is None else round(watts / 1000, 1),
            "util": util, "mem_util": mem_util,
            "mem_used_mb": None if used is None else used >> 20,
            "memtemp_c": self.field(82),  # NVML_FI_DEV_MEMORY_TEMP
            "sm_mhz": self.number("nvmlDeviceGetClockInfo", ctypes.c_uint, 1),
            "energy_j": None if joules is None else round(joules / 1000, 3),
            "power_now_w": None if now is None else round(now / 1000, 1),
            "throttle": self.number("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong),
        }


class Sampler(threading.Thread):
    """Sampler writes a line every tenth of a second until stop is called."""

    def __init__(self, gpu, path, also=None):
        super().__init__(daemon=True)
        self.gpu, self.path, self.also = gpu, path, also
        self.ending = threading.Event()

    def run(self):
        start = time.monotonic()
        with open(self.path, "w", encoding="utf-8") as out:
            print(",".join(HEADER), file=out)
            turn = 0
            while not self.ending.is_set():
                t = time.monotonic() - start
                got = self.gpu.sample(energy=turn % 10 == 0)
                got["t_s"] = f"{t:.3f}"
                print(",".join("" if got[k] is None else str(got[k]) for k in HEADER), file=out)
                if self.also:
                    self.also(t)
                turn += 1
                time.sleep(max(0, start + turn * 0.1 - time.monotonic()))

    def stop(self):
        self.ending.set()
        self.join()


class Load:
    """Load is a child process that does what it is told, line by line."""

    def __init__(self, *more):
        self.child = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--work", *more],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ready(self):
        if self.child.stdout.readline().strip() != "ready":
            sys.exit("record.py: the child process made no load: can torch use the GPU?")

    def tell(self, load):
        print(load, file=self.child.stdin, flush=True)

    def end(self):
        self.child.stdin.close()
        self.child.wait()


def work(count):
    """work makes the load that its standard input names, until that closes."""
    import torch
    big = [torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    small = [torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    rows = [torch.empty(1 << 30, device="cuda", dtype=torch.uint8) for _ in range(2)]
    torch.matmul(big[0], big[1], out=big[2])
    torch.matmul(small[0], small[1], out=small[2])
    torch.cuda.synchronize()
    turns = {
        "matmul": (4, lambda: torch.matmul(big[0], big[1], out=big[2])),
        "small": (16, lambda: torch.matmul(small[0], small[1], out=small[2])),
        "memory": (8, lambda: rows[1].copy_(rows[0])),
    }
    print("ready", flush=True)
    kind, duty, period = "idle", 1.0, 1.0
    counted, said = 0, 0.0
    log = open(count, "w", encoding="utf-8") if count else None
    while True:
        resting = kind == "idle" or (time.monotonic() % period) >= duty * period
        if select.select([sys.stdin], [], [], 0.005 if resting else 0)[0]:
            told = os.read(0, 4096).decode()
            if not told:
                return
            parts = told.split()[-1].split("/")
            kind = parts[0]
            duty = float(parts[1]) if len(parts) > 1 else 1.0
            period = float(parts[2]) if len(parts) > 2 else 1.0
            continue
        if not resting:
            times, one = turns[kind]
            for _ in range(times):
                one()
            torch.cuda.synchronize()
            counted += times
        if log and time.time() - said >= 0.05:
            said = time.time()
            print(f"{said:.4f} {counted}", file=log, flush=True)


def follow(plan, load, chance):
    """follow tells the child process each phase of the plan in its time."""
    at = time.monotonic()
    for phase in plan.split(","):
        seconds, name = phase.split(":")
        end = at + float(seconds)
        print(f"record.py: {name} for {seconds} s", file=sys.stderr, flush=True)
        while at < end:
            step, what = end - at, name
            if name == "steps":
                step = min(step, chance.uniform(2, 6))
                kind = chance.choice(["idle", "matmul", "matmul", "small", "memory"])
                what = f"{kind}/{chance.choice([0.15, 0.3, 0.5, 0.7, 0.85, 1])}/0.2"
            load.tell(what)
            at += step
            time.sleep(max(0, at - time.monotonic()))


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("file", nargs="?", help="the CSV file to write")
    args.add_argument("--gpu", type=int, default=0)
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--plan", default=PLAN)
    args.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args.add_argument("--count", help=argparse.SUPPRESS)
    given = args.parse_args()
    if given.work:
        return work(given.count)
    if not given.file:
        args.error("name the CSV file to write")
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", str(given.gpu))
    gpu = GPU(given.gpu)
    load = Load()
    load.ready()
    sampler = Sampler(gpu, given.file)
    sampler.start()
    follow(given.plan, load, random.Random(given.seed))
    sampler.stop()
    load.end()


if __name__ == "__main__":
    main()
