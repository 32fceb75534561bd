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


RESIZED = "lease_resized"

_CACHES: Dict[str, Callable[[Any], int]] = {"torch": _trim_torch, "cupy": _trim_cupy}


def trim_when_asked(client: Client, stop: Stop, lease: str, fence: int, resized: Callable[[], None]) -> None:
    """Listens until stopped, trims when the daemon asks for it, and calls a function
    when the lease has another size. A daemon that goes away is waited for."""
    after, codes = -1, ("reclaim", RESIZED)  # not known yet
    while not stop.is_set():
        try:
            if after < 0:  # pids are used again, so what was said before is not for us
                after = max((int(e["id"]) for e in client.events(follow=False, code=codes)), default=0)
            for event in client.events(after, stop=stop, code=codes):
                after = int(event["id"])
                if asks(event, lease, fence, os.getpid()):
                    trim()
                elif event.get("code") == RESIZED and _is_of(event, lease, fence):
                    resized()
        except BerthError:
            stop.wait(1.0)


def asks(event: Dict[str, Any], lease: str, fence: int, pid: int) -> bool:
    """Whether an event asks this holder for memory: by its lease, which a user
    may call as another user does, or by its process if the event names no
    lease."""
    if event.get("code") != "reclaim":
        return False
    if event.get("lease"):
        return _is_of(event, lease, fence)
    return bool((event.get("data") or {}).get("pid") == pid)


def _is_of(event: Dict[str, Any], lease: str, fence: int) -> bool:
    data = event.get("data") or {}
    return bool(event.get("lease") == lease and (not fence or data.get("fence", fence) == fence))
