"""What libraries hold, and what the daemon shows of it."""

import types
import unittest

import berth

from . import fakes
from .daemon import DaemonCase

MIB = 1 << 20


def torch():
    module = fakes.torch(gpus=2)
    module.cuda.is_initialized = lambda: True
    module.cuda.memory_allocated = lambda i: [100 * MIB, 50 * MIB][i]
    module.cuda.memory_reserved = lambda i: [400 * MIB, 50 * MIB][i]
    return module


def cupy():
    module = fakes.cupy(gpus=1)
    pool = types.SimpleNamespace(used_bytes=lambda: 7 * MIB, total_bytes=lambda: 9 * MIB + 1)
    module.get_default_memory_pool = lambda: pool
    return module


class Reading(unittest.TestCase):
    def test_what_is_loaded(self):
        with fakes.installed(torch(), cupy()):
            self.assertEqual(
                berth.library_memory(),
                {"torch": {"allocated_mb": 150, "cached_mb": 300}, "cupy": {"allocated_mb": 7, "cached_mb": 3}},
            )

    def test_nothing_is_loaded_or_started(self):
        idle = fakes.torch(gpus=1)
        idle.cuda.is_initialized = lambda: False
        odd = fakes.cupy(gpus=1)  # a version without pools
        for loaded in ((), (idle,), (odd,)):
            with fakes.installed(*loaded):
                self.assertEqual(berth.library_memory(), {})


class Reporting(DaemonCase):
    def test_the_lease_shows_it(self):
        with fakes.installed(torch()), berth.lease(memory="1GiB") as gpu:
            berth.library_memory(report=True)
            (shown,) = berth.find_lease(gpu.id).libraries.libraries
            self.assertEqual((shown.name, shown.allocated_mb, shown.cached_mb), ("torch", 150, 300))
            (listed,) = berth.leases().leases
            self.assertEqual(listed.libraries.libraries, [shown])
            with self.assertRaises(berth.Problem):
                berth.report_libraries(gpu.id, {"TORCH!": {"allocated_mb": 1, "cached_mb": 1}})
            with self.assertRaises(berth.Problem):
                berth.report_libraries(gpu.id, {}, fence=gpu.fence + 1)

    def test_without_a_lease(self):
        with fakes.installed(torch()):
            self.assertIn("torch", berth.library_memory(report=True))
