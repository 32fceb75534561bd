"""What the array libraries of this program hold on GPUs: arrays, and memory that they
keep for later."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

from . import calls
from .asking import run
from .leasing import Lease, current
from .libraries import LIBRARIES

Bytes = Tuple[int, int]  # in arrays, and kept for later


def library_memory(report: bool = False, lease: Optional[Lease] = None) -> Dict[str, Dict[str, int]]:
    """Returns what each library that is loaded holds on all GPUs together, in MiB::

        {"torch": {"allocated_mb": 1200, "cached_mb": 300}}

    ``allocated_mb`` is in arrays, and ``cached_mb`` is kept for later, which
    :func:`trim` gives back as far as the library does. A library that was not loaded,
    or has not used a GPU, is left out; nothing is imported, and no GPU is started.

    With ``report``, the daemon is told, and shows it for the lease: the current one, or
    ``lease``. Without a lease, that does nothing."""
    found: Dict[str, Dict[str, int]] = {}
    for name, read in _READERS.items():
        module = LIBRARIES[name].loaded
        held = _held(read, module) if module else None
        if held is not None and any(held):
            found[name] = {"allocated_mb": -(-held[0] >> 20), "cached_mb": -(-held[1] >> 20)}
    mine = (lease or current()) if report else None
    if mine is not None:
        run(calls.report_libraries(mine.id, found, fence=mine.fence or None, client=mine._client))
    return found


def _held(read: Callable[[Any], Bytes], module: Any) -> Optional[Bytes]:
    try:
        return read(module)
    except Exception:  # a version of the library that does not say it, or not so
        return None


def _torch(torch: Any) -> Bytes:
    if not torch.cuda.is_initialized():
        return 0, 0
    devices = range(torch.cuda.device_count())
    allocated = sum(int(torch.cuda.memory_allocated(i)) for i in devices)
    return allocated, sum(int(torch.cuda.memory_reserved(i)) for i in devices) - allocated


def _cupy(cupy: Any) -> Bytes:
    pool, used, total = cupy.get_default_memory_pool(), 0, 0
    for index in range(LIBRARIES["cupy"].gpus()):
        with cupy.cuda.Device(index):
            used, total = used + int(pool.used_bytes()), total + int(pool.total_bytes())
    return used, total - used


def _jax(jax: Any) -> Bytes:
    used = total = 0
    for device in jax.local_devices():
        stats = device.memory_stats() or {}
        in_use = int(stats.get("bytes_in_use") or 0)
        used += in_use
        total += max(int(stats.get("pool_bytes") or in_use), in_use)
    return used, total - used


def _tensorflow(tensorflow: Any) -> Bytes:
    found = tensorflow.config.list_logical_devices("GPU")
    infos = [tensorflow.config.experimental.get_memory_info(each.name) for each in found]
    return sum(int(info["current"]) for info in infos), 0


_READERS: Dict[str, Callable[[Any], Bytes]] = {"torch": _torch, "cupy": _cupy, "jax": _jax, "tensorflow": _tensorflow}
