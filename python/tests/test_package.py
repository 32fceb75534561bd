"""The package as a whole: how it is built, and what importing it costs."""

import ast
import email
import graphlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock
import zipfile

import berth

ROOT = pathlib.Path(__file__).resolve().parent.parent


def backend():
    spec = importlib.util.spec_from_file_location("backend", ROOT / "build_backend" / "backend.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Building(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        patch = unittest.mock.patch.dict(os.environ, BERTH_VERSION="1.2.3-dev+0abc")
        patch.start()
        self.addCleanup(patch.stop)

    def test_wheel(self):
        name = backend().build_wheel(self.folder)
        self.assertEqual(name, "berth_gpu-1.2.3.dev0+0abc-py3-none-any.whl")
        info = "berth_gpu-1.2.3.dev0+0abc.dist-info/"
        with zipfile.ZipFile(os.path.join(self.folder, name)) as wheel:
            files = wheel.namelist()
            metadata = email.message_from_bytes(wheel.read(info + "METADATA"))
            record = wheel.read(info + "RECORD").decode()
            package = wheel.read("berth/__init__.py").decode()
        again = pathlib.Path(self.folder, name).read_bytes()
        backend().build_wheel(self.folder)
        self.assertEqual(pathlib.Path(self.folder, name).read_bytes(), again)  # the same from the same
        self.assertIn("berth/py.typed", files)
        self.assertIn("berth/probe_child.py", files)
        self.assertIn("berth_gpu.py", files)
        self.assertIn(info + "licenses/LICENSE", files)
        self.assertFalse([f for f in files if "test" in f or "__pycache__" in f])
        self.assertEqual(sorted(line.split(",")[0] for line in record.splitlines()), sorted(files))
        self.assertIn('\n__version__ = "1.2.3.dev0+0abc"\n', package)
        for field, value in {
            "Name": "berth-gpu", "Version": "1.2.3.dev0+0abc", "Requires-Python": ">=3.9",
            "License-Expression": "Apache-2.0", "Author": "The berth project",
        }.items():  # fmt: skip
            self.assertEqual(metadata[field], value)
        self.assertIn("Programming Language :: Python :: 3.9", metadata.get_all("Classifier"))
        self.assertIn("Homepage, https://github.com/berth-gpu/berth", metadata.get_all("Project-URL"))
        self.assertIn("import berth", metadata.get_payload())

    def test_sdist_builds_the_same_wheel(self):
        archived = backend().build_sdist(self.folder)
        self.assertEqual(archived, "berth_gpu-1.2.3.dev0+0abc.tar.gz")
        with tarfile.open(os.path.join(self.folder, archived)) as archive:
            archive.extractall(self.folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        copy = os.path.join(self.folder, archived[: -len(".tar.gz")])
        code = "import sys; sys.path.insert(0, 'build_backend'); import backend; print(backend.build_wheel('..'))"
        bare = {name: value for name, value in os.environ.items() if name != "BERTH_VERSION"}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=copy, env=bare, stdout=subprocess.PIPE, universal_newlines=True, check=True
        )
        direct = backend().build_wheel(copy)
        self.assertEqual(
            pathlib.Path(self.folder, done.stdout.strip()).read_bytes(), pathlib.Path(copy, direct).read_bytes()
        )

    def test_command(self):
        program = pathlib.Path(self.folder, "berth")
        program.write_bytes(b"#!/bin/sh\necho a command\n")
        name = backend().build_command_wheel(self.folder, program, "arm64")
        systems = "manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64"
        self.assertEqual(name, "berth_gpu-1.2.3.dev0+0abc-py3-none-%s.whl" % systems)
        with zipfile.ZipFile(os.path.join(self.folder, name)) as wheel:
            command = wheel.getinfo("berth_gpu-1.2.3.dev0+0abc.data/scripts/berth")
            self.assertEqual(command.external_attr >> 16 & 0o777, 0o755)
            self.assertEqual(wheel.read(command), program.read_bytes())
            about = wheel.read("berth_gpu-1.2.3.dev0+0abc.dist-info/WHEEL").decode().splitlines()
        self.assertIn("Root-Is-Purelib: false", about)
        self.assertEqual([line for line in about if line.startswith("Tag")], ["Tag: py3-none-" + s for s in systems.split(".")])

    def test_version_is_that_of_the_repository(self):
        self.assertEqual((ROOT.parent / "VERSION").read_text().strip(), berth.__version__)


class Rivals(unittest.TestCase):
    """Another distribution at PyPI is called berth, and has a package of that name."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.packages = pathlib.Path(folder.name, "site-packages")
        with unittest.mock.patch.dict(os.environ, BERTH_VERSION="1.2.3"):
            wheel = backend().build_wheel(folder.name)
        with zipfile.ZipFile(pathlib.Path(folder.name, wheel)) as archive:
            archive.extractall(self.packages)

    def imported(self, module):
        code = "import %s as berth; print(berth.__version__)" % module
        env = {**os.environ, "PYTHONPATH": str(self.packages)}
        return subprocess.run(
            [sys.executable, "-c", code], cwd=self.packages.parent, env=env,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
        )  # fmt: skip

    def test_alone(self):
        for module in ("berth", "berth_gpu"):
            self.assertEqual(self.imported(module).stdout, "1.2.3\n")

    def test_installed_before(self):
        for record in ("berth-0.1.3.dist-info", "Berth-0.1.3-py3.11.egg-info"):
            with self.subTest(record):
                (self.packages / record).mkdir()
                done = self.imported("berth")
                self.assertIn("ImportError: Two distributions", done.stdout)
                self.assertIn("pip uninstall -y berth berth-gpu && pip install berth-gpu", done.stdout)
                (self.packages / record).rmdir()

    def test_installed_after(self):
        (self.packages / "berth" / "__init__.py").write_text('__version__ = "0.1.3"\n')
        done = self.imported("berth_gpu")
        self.assertIn("is not the one of berth-gpu", done.stdout)
        self.assertIn("pip install berth-gpu", done.stdout)


class Importing(unittest.TestCase):
    def test_no_library_is_imported(self):
        code = "import berth, sys; print([n for n in berth.MEMORY_TYPES if n in sys.modules])"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "[]")

    def test_no_circles(self):
        """A module below the package imports none that imports it, inside of functions and
        for types included."""
        files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in (ROOT / "berth").rglob("*.py")}
        imported = {}
        for name, path in files.items():
            found = imported[name] = set()
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.level:
                    base = ".".join([*name.split(".")[: -node.level], *filter(None, [node.module])])
                    found.update({base, *("%s.%s" % (base, alias.name) for alias in node.names)} & files.keys())
        self.assertIn("berth.client", imported["berth.calls"])
        self.assertIn("berth.leasing", imported["berth.aio.leasing"])
        try:
            graphlib.TopologicalSorter(imported).prepare()
        except graphlib.CycleError as error:
            self.fail(" imports ".join(reversed(error.args[1])))

    def test_names_are_those_that_are_promised(self):
        self.assertEqual(dir(berth), sorted([*berth.__all__, "__version__"]))
        self.assertNotIn("calls", dir(berth))

    def test_everything_that_is_promised_is_there(self):
        self.assertEqual([name for name in berth.__all__ if not hasattr(berth, name)], [])
