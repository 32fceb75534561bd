"""The package as a whole: how it is built, and what importing it costs."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

import berth

ROOT = pathlib.Path(__file__).resolve().parent.parent


def backend():
    spec = importlib.util.spec_from_file_location("backend", ROOT / "build_backend" / "backend.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Building(unittest.TestCase):
    def test_wheel(self):
        with tempfile.TemporaryDirectory() as folder:
            name = backend().build_wheel(folder)
            self.assertEqual(name, "berth-%s-py3-none-any.whl" % berth.__version__)
            with zipfile.ZipFile(os.path.join(folder, name)) as wheel:
                files = wheel.namelist()
                metadata = wheel.read("berth-%s.dist-info/METADATA" % berth.__version__).decode()
                record = wheel.read("berth-%s.dist-info/RECORD" % berth.__version__).decode()
            again = pathlib.Path(folder, name).read_bytes()
            backend().build_wheel(folder)
            self.assertEqual(pathlib.Path(folder, name).read_bytes(), again)  # the same from the same
        self.assertIn("berth/py.typed", files)
        self.assertIn("berth/probe_child.py", files)
        self.assertFalse([f for f in files if "test" in f or "__pycache__" in f])
        self.assertEqual(sorted(line.split(",")[0] for line in record.splitlines()), sorted(files))
        self.assertIn("\nVersion: %s\n" % berth.__version__, metadata)
        self.assertIn("Requires-Python: >=3.9", metadata)

    def test_sdist_builds_the_same_wheel(self):
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(os.path.join(folder, backend().build_sdist(folder))) as archive:
                archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
            copy = os.path.join(folder, "berth-%s" % berth.__version__)
            code = "import sys; sys.path.insert(0, 'build_backend'); import backend; print(backend.build_wheel('..'))"
            done = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True, check=True)
            direct = backend().build_wheel(copy)
            self.assertEqual(
                pathlib.Path(folder, done.stdout.strip()).read_bytes(), pathlib.Path(copy, direct).read_bytes()
            )


class Importing(unittest.TestCase):
    def test_no_library_is_imported(self):
        code = "import berth, sys; print([n for n in berth.MEMORY_TYPES if n in sys.modules])"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "[]")

    def test_names_are_those_that_are_promised(self):
        self.assertEqual(dir(berth), sorted([*berth.__all__, "__version__"]))
        self.assertNotIn("calls", dir(berth))

    def test_everything_that_is_promised_is_there(self):
        self.assertEqual([name for name in berth.__all__ if not hasattr(berth, name)], [])
