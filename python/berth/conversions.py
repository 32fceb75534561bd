"""Turns arrays of one library into arrays of another, on the device where they
are wanted, with as little copying as the two allow."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, List, Optional, Tuple

from .libraries import CARRIERS, LIBRARIES, NUMPY, Index, Library, library_of
from .memorytypes import check_type
from .visible import Device, index_of

# What a conversion did, from least to most.
NONE = "none"  # it is the same array
ZERO_COPY = "zero_copy"  # another name for the same memory
DEVICE_COPY = "device_copy"  # copied without leaving the GPUs
HOST_COPY = "host_copy"  # the data went through host memory


@dataclasses.dataclass(frozen=True)
class Conversion:
    """What was done, and the array that came out."""

    value: Any = dataclasses.field(repr=False)
    source: str
    target: str
    device: str  # "cpu" or "gpu:0"
    cost: str  # none, zero_copy, device_copy or host_copy
    why: str = ""  # why it is not zero_copy, if it could have been

    def __str__(self) -> str:
        text = "%s → %s on %s: %s" % (self.source, self.target, self.device, self.cost.replace("_", " "))
        return text + (" (%s)" % self.why if self.why else "")


def memory_type(x: Any) -> str:
    """The memory type of an array."""
    return library_of(x).name


def pointer(x: Any) -> int:
    """Where the data of an array begins: on the GPU, if it is there. Two arrays
    with the same pointer share their memory."""
    library = library_of(x)
    return library.pointer(library.plain(x))


def convert(x: Any, to: str, device: Device = None) -> Any:
    """Turns an array into one of another library; :func:`conversion` also says
    how. A result that shares memory with ``x`` must not be written to if either
    of them is of jax, which takes its arrays for unchangeable."""
    return conversion(x, to, device).value


def conversion(x: Any, to: str, device: Device = None) -> Conversion:
    """Turns an array into one of another library, and says what that took.

    ``device`` is a number, ``"cpu"``, ``"cuda:1"``, a UUID or a lease. Without
    it an array stays on the GPU where it is, and one in host memory goes to the
    GPU of the lease that is held, or else to the first."""
    source, target = library_of(x), LIBRARIES[check_type(to)]
    index = _destination(source.index(x), target, device)
    if source is target and source.index(x) == index:
        return Conversion(x, source.name, target.name, place(index), NONE)
    value, cost, why = _Way(source, target, index).go(source.plain(x))
    return Conversion(value, source.name, target.name, place(index), cost, why)


def place(index: Index) -> str:
    return "cpu" if index is None else "gpu:%d" % index


def _destination(here: Index, target: Library, device: Device) -> Index:
    if target is NUMPY:
        return None
    if device is not None:
        index = index_of(device)
    elif here is not None:
        index = here
    else:
        index = _default_index()
    if index is None and not target.on_host:
        raise TypeError("%s has no arrays in host memory: use numpy there" % target.name)
    if index is not None and not 0 <= index < target.gpus():
        raise RuntimeError(_unseen(target, index))
    return index


def _unseen(target: Library, index: int) -> str:
    count = target.gpus()
    if count:
        return "%s sees %d GPUs in this process, and number %d is not one of them" % (target.name, count, index)
    text = "%s sees no GPU in this process" % target.name
    return text + ('; for an array in host memory say device="cpu"' if target.on_host else "")


def _default_index() -> int:
    from .leasing import current

    held = current()
    return (index_of(held) or 0) if held is not None and held.uuids else 0


class _Way:
    """The way from one library to another: the cheapest that works."""

    def __init__(self, source: Library, target: Library, index: Index):
        self.source, self.target, self.index = source, target, index
        self.reasons: List[str] = []

    def go(self, x: Any) -> Tuple[Any, str, str]:
        here = self.source.index(x)
        if self.source is self.target:
            cost = HOST_COPY if here is None or self.index is None else DEVICE_COPY
            return self.source.move(x, self.index), cost, ""
        shareable = self.source.exchanges and self.target.exchanges and self.source.size(x) > 0
        if shareable and here is not None and self.index is not None:
            found = self._over_dlpack(x, here)
            if found is not None:
                return found
        return self._over_host(x)

    def _over_dlpack(self, x: Any, here: int) -> Optional[Tuple[Any, str, str]]:
        """Every step of the ladder costs more than the one before. That the
        memory is shared is not believed but seen, by the pointers."""
        moved = x
        if here != self.index:
            try:
                moved = self.source.move(x, self.index)
            except TypeError as why:
                self.reasons.append(str(why))
                return None
            self.reasons.append("it was on %s" % place(here))
        for exchange in (self._direct, self._in_order, self._carried):
            value = self._attempt(exchange, moved)
            if value is not None:
                same = self.target.pointer(value) == self.source.pointer(x)
                return value, ZERO_COPY if same else DEVICE_COPY, "" if same else self._why()
        return None

    def _attempt(self, exchange: Callable[[Any], Any], x: Any) -> Any:
        dtype = self.source.dtype(x)
        try:
            value = exchange(x)
        except Exception as why:  # each library raises something else for what it cannot take
            self.reasons.append(_first_line(why))
            return None
        if value is not None and self.target.dtype(value) != dtype:
            self.reasons.append("%s made %s of it" % (self.target.name, self.target.dtype(value)))
            return None
        return value

    def _direct(self, x: Any) -> Any:
        return self.target.take(self.source.export(x), self.index)

    def _in_order(self, x: Any) -> Any:
        """For those that take no strides."""
        ordered = self.source.contiguous(x)
        return None if ordered is x else self._direct(ordered)

    def _carried(self, x: Any) -> Any:
        """For those that do not exchange the type, as one that they do."""
        dtype = self.source.dtype(x)
        if dtype not in CARRIERS:
            return None
        carrier = self.source.view(self.source.contiguous(x), CARRIERS[dtype])
        return self.target.view(self._direct(carrier), dtype)

    def _over_host(self, x: Any) -> Tuple[Any, str, str]:
        dtype = self.source.dtype(x)
        a = self.source.to_host(x)
        if a.dtype.kind in "OSUMm" or a.dtype.names:
            raise TypeError("an array of %s is not numbers, and %s cannot take it" % (a.dtype, self.target.name))
        value = self.target.from_host(NUMPY.contiguous(a) if self.target is not NUMPY else a, self.index)
        if self.target.dtype(value) != dtype:
            raise TypeError(
                "%s has no %s and would make %s of it: convert it first"
                % (self.target.name, dtype, self.target.dtype(value))
            )
        both_here = self.source.index(x) is None and self.index is None
        if both_here and self.source.size(x) > 0 and self.target.pointer(value) == self.source.pointer(x):
            return value, ZERO_COPY, ""
        return value, HOST_COPY, self._why()

    def _why(self) -> str:
        return "; ".join(dict.fromkeys(self.reasons))


def _first_line(why: BaseException) -> str:
    text = str(why).strip().split("\n")[0]
    return text[:200] or type(why).__name__
