"""How much GPU memory and time a piece of work took, as the libraries see it:
the sum of the most that each had in use, less what is known to be somebody
else's. The CUDA context is not in it."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any, Dict, Iterable, List, Optional, Set, Type

from .libraries import LIBRARIES


class Gauge:
    """The memory of one library on one GPU."""

    def __init__(self, module: Any, index: int):
        self.module, self.index = module, index

    def start(self) -> None:
        """Begins to look."""

    def stop(self) -> int:
        """The most bytes since then."""
        return 0


class TorchGauge(Gauge):
    def start(self) -> None:
        if self.module.cuda.is_initialized():
            self.module.cuda.reset_peak_memory_stats(self.index)

    def stop(self) -> int:
        cuda = self.module.cuda
        return int(cuda.max_memory_allocated(self.index)) if cuda.is_initialized() else 0


class CupyGauge(Gauge):
    """cupy keeps no peak: it is looked at after each allocation of this thread."""

    def start(self) -> None:
        pool, gauge = self.module.get_default_memory_pool(), self

        class Watch(self.module.cuda.MemoryHook):  # type: ignore[misc, name-defined]
            name = "berth-%d" % id(gauge)

            def malloc_postprocess(self, **_: Any) -> None:
                gauge.most = max(gauge.most, pool.used_bytes())

        with LIBRARIES["cupy"].using(self.index):
            self.most = int(pool.used_bytes())
        self.watch = Watch()
        self.watch.__enter__()

    def stop(self) -> int:
        self.watch.__exit__(None, None, None)
        return self.most


class JaxGauge(Gauge):
    """The peak of jax is that of the whole process; what a later step stayed
    below is known only from what it held before and after."""

    def _stats(self) -> Dict[str, int]:
        device = LIBRARIES["jax"]._device(self.index)  # type: ignore[attr-defined]
        return device.memory_stats() or {}

    def start(self) -> None:
        self.before = self._stats()

    def stop(self) -> int:
        after = self._stats()
        peak, held = "peak_bytes_in_use", "bytes_in_use"
        if after.get(peak, 0) > self.before.get(peak, 0):
            return int(after[peak])
        return int(max(after.get(held, 0), self.before.get(held, 0)))


class TensorflowGauge(Gauge):
    def start(self) -> None:
        self.module.config.experimental.reset_memory_stats("GPU:%d" % self.index)

    def stop(self) -> int:
        return int(self.module.config.experimental.get_memory_info("GPU:%d" % self.index)["peak"])


_GAUGES: Dict[str, Type[Gauge]] = {
    "torch": TorchGauge, "cupy": CupyGauge, "jax": JaxGauge, "tensorflow": TensorflowGauge,
}  # fmt: skip


class Meter:
    """Measures what happens inside a with statement, where ``others`` bytes on
    the GPU belong to somebody else."""

    def __init__(self, libraries: Iterable[str] = (), index: Optional[int] = None, others: int = 0):
        self._names = [name for name in libraries if name in _GAUGES] if index is not None else []
        self._index, self._others = index, others
        self._gauges: List[Gauge] = []
        self._shared = False  # another one ran meanwhile
        self.seconds = 0.0
        self.memory_mb: Optional[int] = 0  # None: it cannot be told from that of another thread

    def __enter__(self) -> "Meter":
        if self._names:
            self._join()
        for name in self._names:
            gauge = _GAUGES[name](LIBRARIES[name].module(), self._index or 0)
            with contextlib.suppress(Exception):  # what cannot be measured can be done all the same
                gauge.start()
                self._gauges.append(gauge)
        self._began = time.perf_counter()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            for name in self._names:
                LIBRARIES[name].synchronize(self._index or 0)
        self.seconds = time.perf_counter() - self._began
        most = 0
        for gauge in self._gauges:
            with contextlib.suppress(Exception):
                most += gauge.stop()
        with _LOCK:
            _RUNNING.discard(self)
        self.memory_mb = None if self._shared else -(-max(most - self._others, 0) >> 20)  # rounded up

    def _join(self) -> None:
        """The libraries count for the whole process: two meters at the same
        time see the sum."""
        with _LOCK:
            for other in _RUNNING:
                other._shared = self._shared = True
            _RUNNING.add(self)


_RUNNING: Set[Meter] = set()
_LOCK = threading.Lock()  # guards _RUNNING
