"""Limits, on stand-ins for the libraries: what each is told, and when."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import warnings
from unittest import mock

import berth
from berth import caps

from . import fakes
from .doors import Door

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def torch(initialized=False):
    module = fakes.torch(gpus=2)
    module.told, module.later = {}, []
    module.version = types.SimpleNamespace(cuda="13.0")
    module.cuda.is_initialized = lambda: initialized
    module.cuda.get_device_properties = lambda i: types.SimpleNamespace(total_memory=16 << 30)
    module.cuda.set_per_process_memory_fraction = lambda share, i: module.told.update({i: share})
    module.cuda._lazy_call = module.later.append
    return module


class Caps(unittest.TestCase):
    def test_torch(self):
        module = torch(initialized=True)
        with fakes.installed(module):
            done = berth.cap("4GiB")
        self.assertEqual(module.told, {0: 0.25, 1: 0.25})
        self.assertEqual(done, {"torch": "limited to 4096 MiB by its allocator"})

    def test_torch_is_not_started_for_it(self):
        module = torch()
        with fakes.installed(module):
            berth.cap(4096)
        self.assertEqual(module.told, {})
        module.later[0]()  # what torch does when CUDA starts
        self.assertEqual(module.told, {0: 0.25, 1: 0.25})

    def test_cupy(self):
        module, told = fakes.cupy(gpus=2), []
        pool = types.SimpleNamespace(set_limit=lambda size: told.append(size))
        module.get_default_memory_pool = lambda: pool
        with fakes.installed(module):
            berth.cap("1GiB", "cupy")
        self.assertEqual(told, [1 << 30, 1 << 30])

    def test_tensorflow(self):
        told = {}
        config = types.SimpleNamespace(
            list_physical_devices=lambda kind: ["a", "b"],
            LogicalDeviceConfiguration=lambda memory_limit: memory_limit,
            set_logical_device_configuration=lambda device, limits: told.update({device: limits}),
        )
        module = types.ModuleType("tensorflow")
        module.config = config
        with fakes.installed(module):
            berth.cap(512)
            self.assertEqual(told, {"a": [512], "b": [512]})
            config.set_logical_device_configuration = mock.Mock(side_effect=RuntimeError("initialized"))
            self.assertIn("not limited: it uses the GPU already", berth.cap(512)["tensorflow"])

    def test_jax_takes_it_from_its_environment_only(self):
        with fakes.installed(types.ModuleType("jax")):
            with mock.patch.dict(os.environ, {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.25"}):
                self.assertIn("limited to 0.25", berth.cap(512)["jax"])
            with mock.patch.dict(os.environ, clear=True):
                self.assertIn("not limited", berth.cap(512)["jax"])

    def test_others(self):
        with self.assertRaisesRegex(ValueError, "'numpy' has no limit"):
            berth.cap(512, ["numpy"])
        with fakes.installed():
            self.assertEqual(berth.cap(512), {})


class Environment(unittest.TestCase):
    def test_fractions_are_never_too_large(self):
        for memory, total, want in ((4096, 143771, "0.028489"), (1, 3, "0.333333"), (100, 50, "1.000000")):
            self.assertEqual(caps.environment(memory, total)["XLA_PYTHON_CLIENT_MEM_FRACTION"], want)

    def test_torch_is_told_only_if_it_understands(self):
        for version, told in (("2.9.1", False), ("2.11.0+cu130", True), ("1.13.0a0", False), ("3.0", True)):
            with mock.patch("importlib.metadata.version", return_value=version):
                self.assertEqual("PYTORCH_ALLOC_CONF" in caps.environment(1, 4), told, version)

    def test_what_the_user_told_torch_stays(self):
        before = {"PYTORCH_ALLOC_CONF": "expandable_segments:True,per_process_memory_fraction:0.9"}
        with mock.patch("importlib.metadata.version", return_value="2.11"), mock.patch.dict(os.environ, before):
            text = caps.environment(1, 4)["PYTORCH_ALLOC_CONF"]
        self.assertEqual(text, "expandable_segments:True,per_process_memory_fraction:0.250000")


LIBRARY = """
import os, types
seen = os.environ.get("CUPY_GPU_MEMORY_LIMIT")
share = os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION")
version = types.SimpleNamespace(cuda="13.0")
told = []
class cuda:
    is_initialized = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    get_device_properties = staticmethod(lambda i: types.SimpleNamespace(total_memory=8 << 30))
    set_per_process_memory_fraction = staticmethod(lambda share, i: told.append(share))
"""


class OnImport(unittest.TestCase):
    """Programs of their own: imports happen once."""

    def program(self, code, **environment):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("torch", "cupy", "jax"):
                package = pathlib.Path(folder, name)
                package.mkdir()
                (package / "__init__.py").write_text(LIBRARY)
            paths = os.pathsep.join([folder, ROOT])
            clean = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "CUPY_", "XLA_", "PYTHON"))}
            return subprocess.run(
                [sys.executable, "-W", "error", "-c", code], env=dict(clean, PYTHONPATH=paths, **environment),
                capture_output=True, text=True, check=False,
            )  # fmt: skip

    def assertPrints(self, code, text, **environment):
        done = self.program(code, **environment)
        self.assertEqual((done.stdout.strip(), done.stderr), (text, ""))

    def test_a_program_under_a_lease(self):
        code = "import berth, torch, cupy; print(torch.told, cupy.seen, torch.__spec__.loader is torch.__loader__)"
        self.assertPrints(code, "[0.25] 2147483648 True", BERTH_MEMORY_MB="2048")

    def test_the_context_is_taken_off(self):
        code = "import berth, torch, cupy; print(torch.told, int(cupy.seen) >> 20)"
        for memory, context, share, pool in (("2648", "600", 0.25, 2048), ("512", "600", 0.03125, 256)):
            self.assertPrints(code, "[%s] %d" % (share, pool), BERTH_MEMORY_MB=memory, BERTH_CONTEXT_MB=context)

    def test_libraries_that_were_there_before(self):
        self.assertPrints("import torch, berth; print(torch.told)", "[0.25]", BERTH_MEMORY_MB="2048")

    def test_a_program_without_a_lease_is_left_alone(self):
        code = (
            "import berth, torch, cupy, sys\n"
            "print(torch.told, cupy.seen, len([f for f in sys.meta_path if 'berth' in repr(f)]))"
        )
        self.assertPrints(code, "[] None 0")
        self.assertPrints(code, "[] None 0", BERTH_MEMORY_MB="0")

    def test_asked_for(self):
        code = "import berth; berth.install_caps('1GiB'); berth.install_caps('2GiB'); import torch; print(torch.told)"
        self.assertPrints(code, "[0.25]")

    def test_a_library_that_does_not_like_it_is_imported_all_the_same(self):
        code = (
            "import warnings; warnings.simplefilter('always')\n"
            "import berth\n"
            "berth.caps._CAPS['torch'] = lambda *_: 1 / 0\n"
            "import torch; print('imported')"
        )
        done = self.program(code, BERTH_MEMORY_MB="2048")
        self.assertEqual(done.stdout.strip(), "imported")
        self.assertIn("berth: torch is not limited: division by zero", done.stderr)

    @unittest.skipIf(importlib.util.find_spec("tensorflow"), "tensorflow is installed")
    def test_what_cannot_be_found_is_still_missing(self):
        done = self.program("import berth, tensorflow", BERTH_MEMORY_MB="1")
        self.assertIn("No module named 'tensorflow'", done.stderr)

    def test_jax_is_told_before_it_starts(self):
        with Door(lambda *_: (200, {"device": {"memory_total_mb": 16384}})) as door:
            code = "import berth, jax; print(jax.share)"
            lease = {"BERTH_MEMORY_MB": "4096", "BERTH_GPUS": "GPU-7,GPU-8", "BERTH_SOCKET": door.path}
            self.assertPrints(code, "0.250000", **lease)
            self.assertEqual(door.calls[0][1], "/api/gpu/status?gpu=GPU-7")
            self.assertPrints(code, "0.5", **lease, XLA_PYTHON_CLIENT_MEM_FRACTION="0.5")
            self.assertPrints(code, "None", **lease, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=4096M")
        code = "import warnings; warnings.simplefilter('always')\n" + code
        self.assertIn("berth: jax is not limited", self.program(code, **lease).stderr)

    def test_a_number_that_is_none(self):
        code = "import warnings; warnings.simplefilter('always')\nimport berth; print('imported')"
        done = self.program(code, BERTH_MEMORY_MB="x")
        self.assertEqual(done.stdout.strip(), "imported")
        self.assertIn("BERTH_MEMORY_MB", done.stderr)


class Quiet(unittest.TestCase):
    def test_a_build_without_gpus_is_no_cause_for_a_warning(self):
        module = torch()
        module.version.cuda = None
        with fakes.installed(module), warnings.catch_warnings():
            warnings.simplefilter("error")
            caps._WATCH.act("torch")
            self.assertEqual(module.told, {})
