"""What goes to other machines with ``berth.map(hosts=…)``: the program of the workers,
this package, the modules of the functions, and files of the caller. The machines need
Python and the libraries that the functions import.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from typing import Any, Dict, Iterable, List, Optional, Union

from .client import BerthError

PACKAGE = os.path.dirname(os.path.abspath(__file__))


POD_OPTIONS = ("image", "workers", "namespace", "context", "berth_image")


def away(hosts: Union[str, Iterable[str], None], kubernetes: Optional[Dict[str, Any]]) -> List[str]:
    """Returns the arguments of berth run for workers on other machines or in pods, and
    none for workers on this one."""
    if hosts is not None and kubernetes is not None:
        raise ValueError("map: give hosts or kubernetes, not both")
    if kubernetes is not None:
        wrong = sorted(set(kubernetes) - set(POD_OPTIONS))
        if wrong or not kubernetes.get("image"):
            raise ValueError('map: kubernetes has an "image", and may have %s, not %r' % (", ".join(POD_OPTIONS[1:]), kubernetes))
        flags = [word for key in POD_OPTIONS if key in kubernetes for word in ("--" + key.replace("_", "-"), str(kubernetes[key]))]
        return ["--kubernetes", "--files", "."] + flags
    return [] if hosts is None else ["--hosts", host_list(hosts), "--files", "."]


def host_list(hosts: Union[str, Iterable[str]]) -> str:
    """Returns hosts as berth run takes them."""
    names = [hosts] if isinstance(hosts, str) else list(hosts)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError('map: hosts are names for ssh, such as "gpu1,gpu2:2" or ["gpu1", "gpu2:2"], not %r' % (hosts,))
    return ",".join(names)


def gather(folder: str, modules: Iterable[str], files: Iterable[str]) -> None:
    """Copies this package, modules and files into a folder."""
    sources: Dict[str, str] = {}
    _copy(PACKAGE, os.path.join(folder, "berth"), sources)
    for name in sorted({module.split(".")[0] for module in modules if module} - {"berth"}):
        source = _home(name)
        if source is not None:
            _copy(source, os.path.join(folder, os.path.basename(source)), sources)
    for path in files:
        relative = os.path.relpath(path)
        if relative.startswith(os.pardir) or os.path.isabs(path):
            relative = os.path.basename(os.path.abspath(path))
        _copy(os.path.abspath(path), os.path.join(folder, relative), sources)


def _home(module: str) -> Optional[str]:
    """Returns the file or folder of a module of the caller, or None if it is one that
    is installed: the hosts have to have it."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return None
    file = os.path.abspath(file)
    installed: List[str] = [sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    if "site-packages" in file or "dist-packages" in file or any(file.startswith(path + os.sep) for path in installed):
        return None
    return os.path.dirname(file) if os.path.basename(file) == "__init__.py" else file


def _copy(source: str, target: str, sources: Dict[str, str]) -> None:
    """Copies a file, or a folder with what is in it. ``sources`` has where each file came
    from: none is left out because another one has its name."""
    try:
        if os.path.isdir(source):
            os.makedirs(target, exist_ok=True)
            for name in sorted({*os.listdir(source)} - {"__pycache__", ".git"}):
                _copy(os.path.join(source, name), os.path.join(target, name), sources)
            return
        there = sources.setdefault(target, source)
        if os.path.isdir(target) or os.path.realpath(there) != os.path.realpath(source):
            other = there if there != source else "a folder of the modules or files"
            raise BerthError(
                "map: %s and %s would have one name on the hosts: rename one, or put them into different folders below this one"
                % (other, source)
            )
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(source, target)
    except OSError as why:
        raise BerthError("map: %s cannot go to the hosts: %s" % (source, why)) from None
