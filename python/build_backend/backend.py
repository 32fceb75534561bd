"""Builds the package (PEP 517 and 660) with the standard library alone.

A package of plain Python files is a zip archive with three more files in it;
this is all that is needed to make one, on a machine that can reach nothing.
"""

import base64
import hashlib
import io
import pathlib
import re
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same files always make the same archive


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, {str(p.relative_to(ROOT)): p.read_bytes() for p in _sources()})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, {"berth.pth": (str(ROOT) + "\n").encode()})


def build_sdist(sdist_directory, config_settings=None):
    project = _project()
    folder = "%s-%s" % (project["name"], project["version"])
    extra = ["pyproject.toml", "README.md", "build_backend/backend.py"]
    files = {str(p.relative_to(ROOT)): p.read_bytes() for p in _sources() + [ROOT / name for name in extra]}
    files["PKG-INFO"] = _metadata(project).encode()
    with tarfile.open(pathlib.Path(sdist_directory, folder + ".tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo("%s/%s" % (folder, name))
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return folder + ".tar.gz"


def _sources():
    found = sorted((ROOT / "berth").rglob("*"))
    return [p for p in found if p.is_file() and p.suffix in (".py", ".typed")]


def _project():
    """The [project] table of pyproject.toml, as far as it is texts: Python has
    had no parser for the format before 3.11."""
    text = (ROOT / "pyproject.toml").read_text()
    table = text.split("[project]\n")[1].split("\n[")[0]
    return dict(re.findall(r'^([\w-]+) = "(.*)"$', table, re.MULTILINE))


def _metadata(project):
    return "".join((
        "Metadata-Version: 2.1\n",
        "Name: %s\n" % project["name"],
        "Version: %s\n" % project["version"],
        "Summary: %s\n" % project["description"],
        "License: %s\n" % project["license"],
        "Requires-Python: %s\n" % project["requires-python"],
        "Description-Content-Type: text/markdown\n\n",
        (ROOT / project["readme"]).read_text(),
    ))  # fmt: skip


def _wheel(directory, files):
    project = _project()
    name = "%s-%s" % (project["name"], project["version"])
    info = name + ".dist-info/"
    files = dict(files)
    files[info + "METADATA"] = _metadata(project).encode()
    files[info + "WHEEL"] = b"Wheel-Version: 1.0\nGenerator: berth\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join("%s,sha256=%s,%d\n" % (path, _digest(content), len(content)) for path, content in files.items())
    files[info + "RECORD"] = (record + info + "RECORD,,\n").encode()
    wheel = name + "-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, content)
    return wheel


def _digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
