"""Builds the package (PEP 517 and 660) with the standard library alone.

A package of plain Python files is a zip archive with three more files in it;
this is all that is needed to make one, on a machine that can reach nothing.

    python3 backend.py wheel DIRECTORY [PROGRAM ARCH]   without PROGRAM for every machine
    python3 backend.py sdist DIRECTORY

With PROGRAM, the wheel carries the command berth, and is for Linux on ARCH
(amd64, arm64) alone.
"""

import base64
import gzip
import hashlib
import io
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same files always make the same archive
DECLARED = re.compile(r'^__version__ = "(.*)"$', re.MULTILINE)
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, _contents(_sources()))


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, {"berth-gpu.pth": (str(ROOT) + "\n").encode()})


def build_sdist(sdist_directory, config_settings=None):
    folder = "berth_gpu-%s" % _version()
    extra = ["pyproject.toml", "README.md", "build_backend/backend.py"]
    files = _contents(_sources() + [ROOT / name for name in extra])
    files["LICENSE"] = _licence()
    files["PKG-INFO"] = _metadata().encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo("%s/%s" % (folder, name))
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    path = pathlib.Path(sdist_directory, folder + ".tar.gz")
    with path.open("wb") as out, gzip.GzipFile("", "wb", fileobj=out, mtime=0) as zipped:
        zipped.write(packed.getvalue())
    return path.name


def build_command_wheel(directory, program, arch):
    """Builds the wheel that carries the command. The command is one static
    program, so it runs under every C library."""
    machine = MACHINES[arch]
    files = _contents(_sources())
    command = "berth_gpu-%s.data/scripts/berth" % _version()
    files[command] = pathlib.Path(program).read_bytes()
    systems = ("manylinux2014_%s", "manylinux_2_17_%s", "musllinux_1_1_%s")
    return _wheel(directory, files, ".".join(sorted(s % machine for s in systems)), executable=command)


def _sources():
    found = sorted((ROOT / "berth").rglob("*"))
    return [p for p in found if p.is_file() and p.suffix in (".py", ".typed")] + [ROOT / "berth_gpu.py"]


def _contents(paths):
    """The files by name. The package says the version that it is built as."""
    files = {str(p.relative_to(ROOT)): p.read_bytes() for p in paths}
    said = files["berth/__init__.py"].decode()
    files["berth/__init__.py"] = DECLARED.sub('__version__ = "%s"' % _version(), said).encode()
    return files


def _version():
    """The version to build: that of the repository, or of the sdist that this is in."""
    script = ROOT.parent / "deploy" / "version.sh"
    if ROOT.name == "python" and script.is_file():
        return subprocess.run([str(script), "python"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    return DECLARED.search((ROOT / "berth" / "__init__.py").read_text()).group(1)


def _licence():
    beside = ROOT / "LICENSE"
    return (beside if beside.is_file() else ROOT.parent / "LICENSE").read_bytes()


def _table(name):
    """A table of pyproject.toml, as far as it is texts and lists of them: Python
    has had no parser for the format before 3.11."""
    text = (ROOT / "pyproject.toml").read_text().split("[%s]\n" % name)[1].split("\n\n[")[0]
    table = dict(re.findall(r'^([\w-]+) = "(.*)"$', text, re.MULTILINE))
    for key, entries in re.findall(r"^([\w-]+) = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL):
        table[key] = re.findall(r'"(.*?)"', entries)
    return table


def _metadata():
    project = _table("project")
    lines = [
        "Metadata-Version: 2.4",
        "Name: %s" % project["name"],
        "Version: %s" % _version(),
        "Summary: %s" % project["description"],
        *("Project-URL: %s, %s" % of for of in _table("project.urls").items()),
        "Author: %s" % project["authors"][0],
        "Maintainer: %s" % project["maintainers"][0],
        "License-Expression: %s" % project["license"],
        *("License-File: %s" % name for name in project["license-files"]),
        "Keywords: %s" % ",".join(project["keywords"]),
        *("Classifier: %s" % name for name in project["classifiers"]),
        "Requires-Python: %s" % project["requires-python"],
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (ROOT / project["readme"]).read_text()


def _wheel(directory, files, system="any", executable=None):
    name = "berth_gpu-%s" % _version()
    info = name + ".dist-info/"
    files = dict(files)
    files[info + "licenses/LICENSE"] = _licence()
    files[info + "METADATA"] = _metadata().encode()
    tags = "".join("Tag: py3-none-%s\n" % one for one in system.split("."))
    pure = "true" if system == "any" else "false"
    files[info + "WHEEL"] = ("Wheel-Version: 1.0\nGenerator: berth\nRoot-Is-Purelib: %s\n%s" % (pure, tags)).encode()
    record = "".join("%s,sha256=%s,%d\n" % (path, _digest(content), len(content)) for path, content in files.items())
    files[info + "RECORD"] = (record + info + "RECORD,,\n").encode()
    wheel = "%s-py3-none-%s.whl" % (name, system)
    with zipfile.ZipFile(pathlib.Path(directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, EPOCH)
            mode = 0o755 if path == executable else 0o644
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
            archive.writestr(entry, content)
    return wheel


def _digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main(args):
    if args[:1] == ["wheel"] and len(args) == 2:
        print(build_wheel(args[1]))
    elif args[:1] == ["wheel"] and len(args) == 4 and args[3] in MACHINES:
        print(build_command_wheel(*args[1:]))
    elif args[:1] == ["sdist"] and len(args) == 2:
        print(build_sdist(args[1]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
