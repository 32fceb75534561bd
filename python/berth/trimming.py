"""Giving memory back that libraries keep for later. Their caches make the next
allocation fast, and to everybody else they look like memory in use."""

from __future__ import annotations

import gc
import os
from typing import Any, Callable, Dict, Iterable

from .client import BerthError, Client, Stop
from .libraries import LIBRARIES


def trim() -> int:
    """Frees the caches of the libraries that are loaded. Returns how many bytes
    of GPU memory they gave back. jax and tensorflow keep their pools for as long
    as the process lives, and give back nothing."""
    gc.collect()  # an array in a cycle is still an array
    return empty_pools(_CACHES)


def empty_pools(libraries: Iterable[str]) -> int:
    """Frees the caches of some libraries, if they are loaded and have any."""
    loaded = [(_CACHES[name], LIBRARIES[name].loaded) for name in libraries if name in _CACHES]
    return sum(free(module) for free, module in loaded if module)


def _trim_torch(torch: Any) -> int:
    if not torch.cuda.is_initialized():
        return 0
    devices = range(torch.cuda.device_count())
    before = sum(torch.cuda.memory_reserved(i) for i in devices)
    torch.cuda.empty_cache()
    return int(before - sum(torch.cuda.memory_reserved(i) for i in devices))


def _trim_cupy(cupy: Any) -> int:
    pool, freed = cupy.get_default_memory_pool(), 0
    for index in range(LIBRARIES["cupy"].gpus()):
        with cupy.cuda.Device(index):
            before = pool.total_bytes()
            if before:
                pool.free_all_blocks()
                freed += before - pool.total_bytes()
    cupy.get_default_pinned_memory_pool().free_all_blocks()
    return int(freed)


_CACHES: Dict[str, Callable[[Any], int]] = {"torch": _trim_torch, "cupy": _trim_cupy}


def trim_when_asked(client: Client, stop: Stop, lease: str, fence: int) -> None:
    """Listens until stopped. A daemon that goes away is waited for."""
    after = -1  # not known yet
    while not stop.is_set():
        try:
            if after < 0:  # pids are used again, so what was said before is not for us
                after = max((int(e["id"]) for e in client.events(follow=False)), default=0)
            for event in client.events(after, stop=stop):
                after = int(event["id"])
                if asks(event, lease, fence, os.getpid()):
                    trim()
        except BerthError:
            stop.wait(1.0)


def asks(event: Dict[str, Any], lease: str, fence: int, pid: int) -> bool:
    """Whether an event asks this holder for memory: by its lease, which a user
    may call as another user does, or by its process if the event names no
    lease."""
    if event.get("code") != "reclaim":
        return False
    data = event.get("data") or {}
    if event.get("lease"):
        return bool(event["lease"] == lease and (not fence or data.get("fence", fence) == fence))
    return bool(data.get("pid") == pid)
