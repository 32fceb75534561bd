"""Reads what the daemon answers into dataclasses."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
import types
import typing
from typing import Any, Callable, ClassVar, Dict, Generic, Iterator, List, Mapping, Optional, Type, TypeVar

from . import showing
from .client import BerthError

Kind = TypeVar("Kind", bound="Answer")
Made = TypeVar("Made")
Item = TypeVar("Item")
Time = datetime.datetime


class Answer:
    """The base of all answers. Every subclass is a dataclass."""

    document: ClassVar[Mapping[str, Any]] = types.MappingProxyType({})  # the JSON object as it came

    def __init_subclass__(cls) -> None:
        # The methods below serve all answers: to make them anew for each would
        # take longer than all the rest of importing the package.
        dataclasses.dataclass(init=False, repr=False, eq=False)(cls)

    def __init__(self, **values: Any) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if field.name in values:
                value = values.pop(field.name)
            elif field.default_factory is not dataclasses.MISSING:
                value = field.default_factory()
            else:
                value = field.default
            setattr(self, field.name, value)
        if values:
            raise TypeError("%s has no field %s" % (type(self).__name__, ", ".join(values)))

    def __repr__(self) -> str:
        return showing.line(self, self._values(), type(self)()._values())

    def _repr_html_(self) -> Optional[str]:
        """Shows the answer as a table in a notebook, if it is one of devices, leases or jobs."""
        page: Optional[str] = showing.page(self)
        return page

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Answer) or type(self) is not type(other):
            return NotImplemented
        return self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def json(self) -> Dict[str, Any]:
        """Returns the answer as the daemon sent it, for ``json.dumps`` and for the answers
        of a web framework."""
        return dict(self.document) if self.document else {name: _plain(value) for name, value in self._values().items()}

    def _values(self) -> Dict[str, Any]:
        return {name: getattr(self, name) for name in _kinds(type(self))}

    @classmethod
    def read(cls: Type[Kind], document: Any) -> Kind:
        """Makes an answer from a JSON object."""
        if not isinstance(document, Mapping):
            raise BerthError("the daemon answered %.80r where an object was expected: update the package" % (document,))
        said = {name: document.get(name.rstrip("_")) for name in _kinds(cls)}
        answer = cls(**{k: _value(kind, said[k]) for k, kind in _kinds(cls).items() if said[k] is not None})
        answer.__dict__["document"] = document
        return answer


def _new(kind: Callable[[], Made]) -> Made:
    """Says that a field is made anew for each answer that lacks it."""
    return dataclasses.field(default_factory=kind)  # type: ignore[no-any-return, call-overload]


def _list() -> List[Any]:
    return _new(list)


def _dict() -> Dict[Any, Any]:
    return _new(dict)


class OfUser:
    """What a lease and a request in the queue have in common."""

    holder: Any

    @property
    def user(self) -> str:
        """Whose it is. Ids are per user."""
        return str(self.holder.user)


class OfLease(OfUser):
    """What is asked of a lease most."""

    parts: List[Any]

    @property
    def gpu(self) -> str:
        """UUID of the device, or of the first of several."""
        return self.parts[0].gpu if self.parts else ""

    @property
    def memory_mb(self) -> int:
        """The memory on each device."""
        return min((part.memory_mb for part in self.parts), default=0)


class OfOptimization:
    """What is asked of an optimization most."""

    devices: List[Any]

    @property
    def freed_mb(self) -> int:
        """How much less memory the devices have in use than before."""
        return sum(device.used_before_mb - device.used_after_mb for device in self.devices)


class DeviceMemory:
    """The memory of a device, in MiB: what it has, what is in use, and who has leased how
    much of it."""

    def __init__(self, total_mb: int, used_mb: Optional[int], allocations: Dict[str, int], count: int, allocated_mb: int):
        self.total_mb, self.used_mb, self.allocations = total_mb, used_mb, allocations
        self._count, self._allocated_mb = count, allocated_mb

    @property
    def allocation_stats(self) -> Dict[str, Any]:
        """How many allocations there are, what they hold together, and what each holds."""
        return {
            "allocation_count": self._count,
            "total_allocated_mb": self._allocated_mb,
            "allocations": dict(self.allocations),
        }

    def __repr__(self) -> str:
        return "<DeviceMemory: %s of %s in use, %s allocated>" % (
            showing.amount(self.used_mb), showing.amount(self.total_mb), showing.amount(self._allocated_mb),
        )  # fmt: skip


class OfStatus:
    """What is asked of a status most."""

    device: Any
    sample: Any
    leases: List[Any]
    allocation_stats: Any

    @property
    def memory(self) -> DeviceMemory:
        """The memory of the device, and who has leased how much of it. Allocations are
        known of :func:`berth.status`."""
        held = {lease.id: lease.memory_mb for lease in self.leases}
        sums = self.allocation_stats  # None of an older daemon
        count, allocated = (sums.allocation_count, sums.total_allocated_mb) if sums else (len(held), sum(held.values()))
        return DeviceMemory(self.device.memory_total_mb, getattr(self.sample, "memory_used_mb", None), held, count, allocated)


class Listed(Generic[Item]):
    """Lets an answer be used like the list that it is."""

    def _items(self) -> List[Item]:
        kinds = _kinds(type(self))  # type: ignore[arg-type]
        first: List[Item] = next(getattr(self, name) for name, kind in kinds.items() if typing.get_origin(kind) is list)
        return first

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())

    def __getitem__(self, index: int) -> Item:
        return self._items()[index]


class Several(Listed[Item]):
    """Lets an answer be used like the first list in it. It has more than that, so it is
    true also where this list is empty."""

    def __bool__(self) -> bool:
        return True


@functools.lru_cache(maxsize=None)
def _kinds(cls: Type[Answer]) -> Dict[str, Any]:
    """Returns the types of the fields of an answer."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}  # type: ignore[arg-type]


def _value(kind: Any, value: Any) -> Any:
    """Turns JSON into what a field holds. What does not fit stays as it is."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union:
        return _value(args[0], value)
    if origin is list and isinstance(value, list):
        return [_value(args[0], item) for item in value]
    if origin is dict and isinstance(value, Mapping):
        return {_key(args[0], k): _value(args[1], item) for k, item in value.items()}
    if kind is Time:
        return parse_time(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 1023:
        return float(value)
    if isinstance(kind, type) and issubclass(kind, Answer) and isinstance(value, Mapping):
        return kind.read(value)
    return value


def _plain(value: Any) -> Any:
    """Returns what a field holds as JSON has it."""
    if isinstance(value, Answer):
        return value.json()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value.isoformat() if isinstance(value, Time) else value


def _key(kind: Any, key: str) -> Any:
    return int(key) if kind is int and key.isdecimal() and len(key) < 20 else key


_RFC3339 = re.compile(r"(\d+-\d+-\d+)[Tt](\d+:\d+:\d+)(?:\.(\d+))?([Zz]|[+-]\d+:\d+)")


def parse_time(text: Any) -> Any:
    """Reads a time of the daemon. It has nanoseconds; Python has microseconds.
    What is no time stays as it is."""
    found = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if not found:
        return text
    zone = "+00:00" if found[4] in "Zz" else found[4]
    try:
        return Time.fromisoformat("%sT%s.%s%s" % (found[1], found[2], (found[3] or "")[:6].ljust(6, "0"), zone))
    except ValueError:  # the 31st of February
        return text
