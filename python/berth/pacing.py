"""Working no harder than the GPU can stand. The daemon turns temperature and
memory of a device into a share of full speed; these functions keep to it."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Dict, Generic, Iterable, Iterator, List, Optional, Tuple, TypeVar, Union

from .client import BerthError, Broken, Client, NoDaemon, Problem
from .leasing import Lease, current

FRESH = 1.0  # seconds for which an answer is good
LONG = 10.0  # seconds of rest after which it is said why

log = logging.getLogger("berth")

Item = TypeVar("Item")


class _Answers:
    """The last answer for each device."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _known; not held while the daemon is asked
        self._known: Dict[str, Tuple[float, float, str]] = {}  # device: when, multiplier, why

    def multiplier(self, client: Client, gpu: str) -> float:
        with self._lock:
            known = self._known.get(gpu)
        now = time.monotonic()
        if known and now - known[0] < FRESH:
            return known[1]
        try:
            answer = client.call("GET", "/api/gpu/throttle/status", query={"gpu": gpu}, timeout=5.0)
        except BerthError as why:
            passes = isinstance(why, (NoDaemon, Broken)) or isinstance(why, Problem) and why.passes
            if known is None or not passes:
                raise
            return known[1]  # it restarts, or is busy; what it said last holds
        found = 0.0 if answer.get("should_stop") else float(answer["multiplier"])
        with self._lock:
            self._known[gpu] = (now, found, str(answer.get("reason") or "it must rest"))
        return found

    def rests(self, gpus: Iterable[str]) -> str:
        """Which of the devices must rest, and why."""
        with self._lock:
            known = [(gpu, self._known[gpu]) for gpu in gpus if gpu in self._known]
        return "; ".join("GPU %s: %s" % (gpu, reason) for gpu, (_, share, reason) in known if share <= 0)


_ANSWERS = _Answers()


def speed(lease: Optional[Lease] = None, *, gpu: Union[int, str, None] = None) -> float:
    """The share of full speed, 0 to 1, at which to work on the device of the
    lease: that of the slowest if there are several. Without a lease it is the
    one this process has; ``gpu`` asks for any device. The daemon is asked at
    most once a second."""
    client, gpus = _devices(lease, gpu)
    return min((_ANSWERS.multiplier(client, uuid) for uuid in gpus), default=1.0)


def _devices(lease: Optional[Lease], gpu: Union[int, str, None]) -> Tuple[Client, List[str]]:
    """Whom to ask, and about which devices."""
    if gpu is not None:
        return Client(), [str(gpu)]
    lease = lease or current()
    if lease is None:
        raise RuntimeError("speed: this process has no lease; give one, or name a device with gpu=")
    if not isinstance(lease, Lease):
        raise TypeError("speed: %r is no lease: for a device write berth.speed(gpu=%r)" % (lease, lease))
    return lease._client or Client(), list(lease.uuids)


class Pace(Generic[Item]):
    """Keeps work to the speed of its device: after each piece it sleeps for as
    long as the multiplier says, and at 0 it waits until work may go on. If that
    takes long, it says once why, as a warning of the logger ``berth``."""

    def __init__(self, items: Optional[Iterable[Item]], lease: Optional[Lease], gpu: Union[int, str, None]):
        self._items, self._lease, self._gpu = items, lease, gpu
        self._began = 0.0
        self.slept = 0.0  # seconds so far

    def __enter__(self) -> "Pace[Item]":
        rested = 0.0
        while self._speed() <= 0:
            self._sleep(FRESH)
            if rested < LONG <= rested + FRESH:
                log.warning("pace waits until work may go on: %s", _ANSWERS.rests(_devices(self._lease, self._gpu)[1]))
            rested += FRESH
        self._began = time.monotonic()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        worked = time.monotonic() - self._began
        if kind is not None:
            return  # an error of a question to the daemon would hide that of the block
        share = self._speed()
        if 0 < share < 1:
            self._sleep(worked * (1 / share - 1))

    def __iter__(self) -> Iterator[Item]:
        if self._items is None:
            raise TypeError("pace: give it something to go through: for batch in berth.pace(batches)")
        for item in self._items:
            with self:
                yield item

    def _speed(self) -> float:
        return speed(self._lease, gpu=self._gpu)

    def _sleep(self, seconds: float) -> None:
        self.slept += seconds
        time.sleep(seconds)


def pace(
    items: Optional[Iterable[Item]] = None, *, lease: Optional[Lease] = None, gpu: Union[int, str, None] = None
) -> Pace[Item]:
    """Keeps a loop or a block to the speed of its device::

        for batch in berth.pace(batches):
            work(batch)

        with berth.pace():
            work(batch)

    Work on a GPU goes on after the call that starts it: synchronize at the end
    of the block, or only the calls are timed."""
    return Pace(items, lease, gpu)
