"""Limits on the GPU memory of this process, set in the libraries themselves.

An environment variable does it for cupy, jax and a recent torch, but only if it
is there before the library starts; tensorflow and an older torch have to be told
in code. A program that berth started under a memory lease gets both when it
imports this package.

Each library counts its own pool, and none the CUDA context, which takes 200 to
500 MiB of the lease: what the daemon keeps for it (BERTH_CONTEXT_MB) is taken
off first.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import re
import sys
import threading
import warnings
from typing import Any, Callable, Dict, Iterable, Optional, Sequence

from .client import BerthError, Client
from .libraries import LIBRARIES
from .memorytypes import Amount, mib

_MPS = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"  # what the driver refuses more than, under MPS
CAPPED = ("cupy", "torch", "tensorflow", "jax")


def cap(memory: Amount, libraries: Optional[Iterable[str]] = None) -> Dict[str, str]:
    """Limits the libraries that are loaded, or those that are named, to an
    amount of memory on every GPU that they see. Returns what was done for each,
    in words; a limit that came too late is among them, and is no limit."""
    amount = mib(memory)
    if libraries is None:
        names = [name for name in CAPPED if LIBRARIES[name].loaded]
    else:
        names = [libraries] if isinstance(libraries, str) else list(libraries)
    for name in names:
        if name not in CAPPED:
            raise ValueError("%r has no limit that could be set: there are %s" % (name, ", ".join(CAPPED)))
    return {name: _CAPS[name](LIBRARIES[name].module(), amount) for name in names}


def _jax_name() -> str:
    newer = "XLA_CLIENT_MEM_FRACTION"
    return newer if newer in os.environ else "XLA_PYTHON_CLIENT_MEM_FRACTION"


def environment(memory_mb: int, total_mb: int) -> Dict[str, str]:
    """The variables that limit libraries which start later, on a GPU with
    ``total_mb`` of memory."""
    fraction = "%.6f" % (int(1e6 * memory_mb / total_mb) / 1e6 if 0 < memory_mb < total_mb else 1)
    variables = {
        "CUPY_GPU_MEMORY_LIMIT": str(memory_mb << 20),
        # One name only: where both are set, a jax that knows the newer one raises
        # an error and then quietly runs on the CPU (seen with 0.11 on an H200).
        _jax_name(): fraction,
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }
    if _torch_takes_fraction():
        for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
            variables[name] = _with_fraction(os.environ.get(name, ""), fraction)
    return variables


def _torch_takes_fraction() -> bool:
    """Before 2.10 torch refuses to start when it is told a fraction this way."""
    from importlib import metadata  # slow to import, and rarely needed

    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return False
    found = re.match(r"(\d+)\.(\d+)", version)
    return bool(found) and (int(found[1]), int(found[2])) >= (2, 10)


def _with_fraction(settings: str, fraction: str) -> str:
    kept = [s for s in settings.split(",") if s.strip() and not s.strip().startswith("per_process_memory_fraction")]
    return ",".join(kept + ["per_process_memory_fraction:" + fraction])


def _cap_cupy(cupy: Any, memory_mb: int) -> str:
    for index in range(LIBRARIES["cupy"].gpus()):
        with cupy.cuda.Device(index):
            cupy.get_default_memory_pool().set_limit(size=memory_mb << 20)
    return "limited to %d MiB by its memory pool" % memory_mb


def _cap_torch(torch: Any, memory_mb: int) -> str:
    def limit() -> None:
        for index in range(torch.cuda.device_count()):
            total = torch.cuda.get_device_properties(index).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, (memory_mb << 20) / total), index)

    if not (torch.version.cuda or getattr(torch.version, "hip", None)):
        return "not limited: this build uses no GPU"
    if torch.cuda.is_initialized() or not hasattr(torch.cuda, "_lazy_call"):
        limit()
    else:
        torch.cuda._lazy_call(limit)  # to start CUDA now would break programs that fork
    return "limited to %d MiB by its allocator" % memory_mb


def _cap_tensorflow(tf: Any, memory_mb: int) -> str:
    try:
        for device in tf.config.list_physical_devices("GPU"):
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=memory_mb)
            tf.config.set_logical_device_configuration(device, [limit])
    except RuntimeError:
        return "not limited: it uses the GPU already; cap it right after importing it"
    return "limited to %d MiB by a logical device" % memory_mb


def _cap_jax(jax: Any, memory_mb: int) -> str:
    if _MPS in os.environ:
        return "limited to %s by MPS" % os.environ[_MPS]
    fraction = os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION") or os.environ.get("XLA_CLIENT_MEM_FRACTION")
    if fraction:
        return "limited to %s of the GPU by its environment" % fraction
    return "not limited: it only takes a limit from XLA_PYTHON_CLIENT_MEM_FRACTION, set before it starts"


_CAPS: Dict[str, Callable[[Any, int], str]] = {
    "cupy": _cap_cupy, "torch": _cap_torch, "tensorflow": _cap_tensorflow, "jax": _cap_jax,
}  # fmt: skip


def install_caps(memory: Optional[Amount] = None) -> bool:
    """Limits every library from the moment it is imported. Without an amount
    it is what the lease that this program was started under has for data;
    False if there is none. A later call changes the amount."""
    amount = mib(memory) if memory is not None else _leased()
    if not amount:
        return False
    os.environ.setdefault("CUPY_GPU_MEMORY_LIMIT", str(amount << 20))
    with _WATCH.lock:
        _WATCH.memory_mb = amount
        if _WATCH not in sys.meta_path:
            sys.meta_path.insert(0, _WATCH)
    for name in CAPPED:
        if LIBRARIES[name].loaded:
            _WATCH.act(name)
    return True


def follow(memory_mb: int) -> Dict[str, str]:
    """Changes the limits that :func:`install_caps` set, after or before the lease got
    another size. Returns for each library that is loaded what became of its limit;
    nothing if no limits were set."""
    with _WATCH.lock:
        if not _WATCH.memory_mb:
            return {}
        _WATCH.memory_mb = memory_mb
    if "CUPY_GPU_MEMORY_LIMIT" in os.environ:
        os.environ["CUPY_GPU_MEMORY_LIMIT"] = str(memory_mb << 20)
    return {name: _followed(name, memory_mb) for name in CAPPED if LIBRARIES[name].loaded}


def _followed(name: str, memory_mb: int) -> str:
    if name == "jax":
        return _KEEPS
    try:
        done = _CAPS[name](LIBRARIES[name].module(), memory_mb)
    except Exception as why:  # of a class that only the library has
        return "keeps the limit that it has: %s" % why
    return _KEEPS if name == "tensorflow" and done.startswith("not limited") else done


_KEEPS = "keeps the limit that it started with: it takes another one only before it uses the GPU"


def _leased() -> int:
    memory = _told("BERTH_MEMORY_MB")
    return pool(memory, _told("BERTH_CONTEXT_MB")) if memory else 0


def _told(name: str) -> int:
    try:
        return mib(os.environ.get(name) or "0")
    except ValueError as why:
        warnings.warn("berth: %s: %s" % (name, why), RuntimeWarning, stacklevel=4)
        return 0


def pool(memory_mb: int, context_mb: int) -> int:
    """What a lease has for data. One that is hardly larger than a context is
    shared out evenly, as the launcher does: zero would be taken for no limit."""
    return max(memory_mb - min(context_mb, memory_mb // 2), 1)


def _tell_jax(memory_mb: int) -> None:
    """Sets the share that jax reads when it starts. How much memory the GPU of
    the lease has, the daemon knows."""
    if _MPS in os.environ:
        return  # jax may be shown that limit as the size of the GPU, and would take a share of it
    gpu = os.environ.get("BERTH_GPUS", "").partition(",")[0]
    if not gpu or "XLA_PYTHON_CLIENT_MEM_FRACTION" in os.environ or "XLA_CLIENT_MEM_FRACTION" in os.environ:
        return
    try:
        device = Client().call("GET", "/api/gpu/status", query={"gpu": gpu}, timeout=5.0)["device"]
    except BerthError:
        return  # that jax is not limited is said once it is there
    for key, value in environment(memory_mb, device["memory_total_mb"]).items():
        if key.startswith("XLA_"):
            os.environ[key] = value


class _ImportWatch(importlib.abc.MetaPathFinder):
    """Finds nothing by itself: it lets the others find a library, and adds one
    thing to be done once that is imported."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # guards changes of memory_mb and sys.meta_path
        self.memory_mb = 0

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname not in CAPPED:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(fullname, path, target) if find else None
            if spec is not None:
                self._follow(fullname, spec.loader)
                return spec
        return None

    def _follow(self, name: str, loader: Any) -> None:
        run = getattr(loader, "exec_module", None)
        if run is None:
            return

        def exec_module(module: Any) -> None:
            del loader.exec_module  # the loader is as it was
            if name == "jax":
                _tell_jax(self.memory_mb)
            run(module)
            if name != "cupy":  # it has read its variable, and to ask it for GPUs would start CUDA
                self.act(name)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass  # a loader of its own kind: the program can still call cap

    def act(self, name: str) -> None:
        """Whatever goes wrong here must not break the import."""
        try:
            done = _CAPS[name](sys.modules[name], self.memory_mb)
        except Exception as why:
            done = "not limited: %s" % why
        if done.startswith("not limited") and not done.endswith("uses no GPU"):
            warnings.warn("berth: %s is %s" % (name, done), RuntimeWarning, stacklevel=2)


_WATCH = _ImportWatch()
