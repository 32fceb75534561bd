"""Meters, on stand-ins for the libraries."""

import types
import unittest

from berth.peaks import Meter

from . import fakes

MIB = 1 << 20


class Meters(unittest.TestCase):
    def test_torch_and_cupy_are_added(self):
        torch, cupy = fakes.torch(), fakes.cupy()
        state = {"peak": 900 * MIB, "used": 2 * MIB}
        torch.cuda.is_initialized = lambda: True
        torch.cuda.reset_peak_memory_stats = lambda i: state.update(peak=0)
        torch.cuda.max_memory_allocated = lambda i: state["peak"]
        torch.cuda.synchronize = lambda i: None
        hooks = {}

        class MemoryHook:
            def __enter__(self):
                hooks[self.name] = self

            def __exit__(self, *_):
                del hooks[self.name]

        cupy.cuda.MemoryHook = MemoryHook
        cupy.get_default_memory_pool = lambda: types.SimpleNamespace(used_bytes=lambda: state["used"])
        with fakes.installed(torch, cupy):
            with Meter(["torch", "cupy", "numpy"], 0) as meter:
                state["peak"] = 5 * MIB + 1
                for used in (30 * MIB, 10 * MIB):
                    state["used"] = used
                    for hook in hooks.values():
                        hook.malloc_postprocess(device_id=0, size=1)
        self.assertEqual(meter.memory_mb, 6 + 30)
        self.assertEqual(hooks, {})

    def test_jax(self):
        module, dlpack = fakes.jax(gpus=1)
        stats = {"peak_bytes_in_use": 8 * MIB, "bytes_in_use": 3 * MIB}
        (device,) = module.local_devices()
        device.memory_stats = lambda: dict(stats)
        with fakes.installed(module, dlpack):
            with Meter(["jax"], 0) as meter:
                stats["bytes_in_use"] = 5 * MIB
            self.assertEqual(meter.memory_mb, 5)  # below the peak: only what is held is known
            with Meter(["jax"], 0) as meter:
                stats["peak_bytes_in_use"] = 20 * MIB
            self.assertEqual(meter.memory_mb, 20)

    def test_what_cannot_be_measured_is_done_all_the_same(self):
        module, dlpack = fakes.jax(gpus=1)
        with fakes.installed(module, dlpack):
            with Meter(["jax"], 0) as meter:
                pass
        self.assertEqual(meter.memory_mb, 0)

    def test_without_a_gpu_only_time_is_measured(self):
        with Meter(["torch"], None) as meter:
            pass
        self.assertEqual(meter.memory_mb, 0)
        self.assertGreaterEqual(meter.seconds, 0)
