"""Callbacks for events.

One thread of the process reads the events of a daemon for all callbacks, and
each callback has a thread of its own. So a callback that never returns keeps
only itself from the next event. All these threads end with the program.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
import threading
from typing import (
    Any, Callable, Deque, Dict, FrozenSet, Iterator, List, Mapping, Optional, Protocol, Sequence, Tuple, Union,
)  # fmt: skip

from .answers import Event
from .client import BerthError, Broken, Client, NoDaemon, Place, Stop, choice
from .forks import in_children


class Named(Protocol):
    """A lease, or what else has the ID of one."""

    @property
    def id(self) -> str:
        """The ID."""
        ...


Codes = Union[str, Sequence[str], None]
GPUs = Union[int, str, Sequence[Union[int, str]], None]
Leases = Union[str, Named, Sequence[Union[str, Named]], None]
Callback = Callable[[Event], Any]
Deliver = Callable[[Event], None]

SEVERITIES = ("info", "warning", "critical")
MOST_WAITING = 1024  # events that wait for a callback
MOST_CHOSEN = 64  # values of one parameter that the daemon takes
RETRY = 1.0  # seconds until the daemon is asked again

log = logging.getLogger("berth")


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which events a callback gets. What is empty chooses all."""

    codes: FrozenSet[str] = frozenset()
    gpus: FrozenSet[str] = frozenset()  # UUIDs
    leases: FrozenSet[str] = frozenset()
    severity: str = "info"  # the least

    def matches(self, event: Event) -> bool:
        """Reports whether an event is chosen. The daemon sends a gap to every
        reader; a callback gets it only if it asks for that code, or for all."""
        if self.codes and self.codes.isdisjoint([event.code, *event.also]):
            return False
        if event.code == "gap":
            return True
        return (
            (not self.gpus or event.gpu in self.gpus)
            and (not self.leases or event.lease in self.leases or _of_user(event) in self.leases)
            and _rank(event.severity) >= _rank(self.severity)
        )

    def parameters(self) -> Dict[str, List[str]]:
        """Returns the parameters with which the daemon sends no less than this."""
        lists = [sorted(values) for values in (self.codes, self.gpus, self.leases)]
        code, gpu, lease = ([] if len(values) > MOST_CHOSEN else values for values in lists)
        return choice(code, gpu, lease, self.severity)


def _of_user(event: Event) -> Optional[str]:
    return "%s/%s" % (event.user, event.lease) if event.user and event.lease else None


def _either(choices: Sequence[Choice]) -> Choice:
    """Returns a choice of all that one of several chooses."""

    def all_of(lists: List[FrozenSet[str]]) -> FrozenSet[str]:
        return frozenset().union(*lists) if all(lists) else frozenset()

    return Choice(
        all_of([c.codes for c in choices]), all_of([c.gpus for c in choices]), all_of([c.leases for c in choices]),
        min((c.severity for c in choices), key=_rank, default="info"),
    )  # fmt: skip


class Subscription:
    """A callback that gets events. :func:`on` returns it; :func:`off` ends it."""

    def __init__(self, chosen: Choice, callback: Callback, deliver: Deliver, client: Client):
        self.callback = callback
        self._choice, self._deliver, self._client = chosen, deliver, client
        self._after = 0  # the id of the last event it has seen
        self._on = True

    def off(self) -> None:
        """Ends the subscription. A call that is under way goes on to its end."""
        self._on = False
        _listener(self._client).remove(self)

    def _begin(self, after: int) -> None:
        """Begins to deliver the chosen events after an id."""
        self._after = after
        _listener(self._client).add(self)

    def _kept(self) -> List[Event]:
        """Returns the chosen events that the daemon still has."""
        follow = self._client._follow(Place(0), False, Stop(), self._choice.parameters())
        events = [Event.read(item) for item in follow if not isinstance(item, int)]
        return [event for event in events if self._choice.matches(event)]

    def _hear(self, event: Event) -> None:
        """Delivers an event, if it is new and chosen."""
        if event.id <= self._after and event.code != "gap":
            return
        self._after = max(self._after, event.id)
        if self._on and self._choice.matches(event):
            self._deliver(event)


class _Listener:
    """Reads the events of one daemon for the subscriptions of this process. A
    connection that breaks is made again, and goes on after the last event."""

    def __init__(self, client: Client):
        self._client = client
        self._lock = threading.RLock()  # guards what follows; a signal handler may end a subscription
        self._subscriptions: List[Subscription] = []
        self._stop: Optional[Stop] = None  # of the stream; None: nobody reads

    def add(self, subscription: Subscription) -> None:
        with self._lock:
            if not subscription._on:
                return  # it ended before it began
            self._subscriptions = self._subscriptions + [subscription]  # lists that others have stay as they are
            if self._stop is None:
                self._stop = Stop()
                threading.Thread(target=self._read, name="berth-events", daemon=True).start()
            else:
                self._stop.set()  # so that the stream begins again with what is chosen now

    def remove(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions = [s for s in self._subscriptions if s is not subscription]
            if not self._subscriptions and self._stop is not None:
                self._stop.set()

    def subscriptions(self) -> List[Subscription]:
        return self._subscriptions

    def _read(self) -> None:
        complaint = ""
        while True:
            with self._lock:
                served = self._subscriptions
                if not served:
                    self._stop = None
                    return
                stop = self._stop = Stop()
            try:
                for item in self._stream(served, stop):
                    complaint = ""
                    if not isinstance(item, int):
                        for subscription in served:
                            subscription._hear(item)
            except BerthError as why:
                if str(why) != complaint and not isinstance(why, (NoDaemon, Broken)):
                    log.warning("berth cannot read the events of the daemon, and tries again: %s", why)
                complaint = str(why)
                stop.wait(RETRY)
            except Exception:
                log.exception("berth cannot read the events of the daemon, and tries again")
                stop.wait(RETRY)

    def _stream(self, served: List[Subscription], stop: Stop) -> Iterator[Union[int, Event]]:
        place = Place(min(s._after for s in served))
        chosen = _either([s._choice for s in served]).parameters()
        before = place.after
        for item in self._client._follow(place, True, stop, chosen):
            if isinstance(item, int):
                for subscription in served:
                    subscription._after = max(subscription._after, item)
                before = item
                yield item
                continue
            event = Event.read(item)
            if event.code == "gap" and event.id < before:  # ids begin again lower
                for subscription in served:
                    subscription._after = min(subscription._after, event.id)
            before = event.id
            yield event


_LOCK = threading.RLock()  # guards _LISTENERS
_LISTENERS: Dict[Tuple[Any, ...], _Listener] = {}


def _listener(client: Client) -> _Listener:
    address = (tuple(client.sockets), client._url, client._token_file or client.token)
    with _LOCK:
        return _LISTENERS.setdefault(address, _Listener(client))


def _forget() -> None:
    """Forgets what a forked child has from its parent: threads do not survive a
    fork, and a lock may be held for ever."""
    global _LOCK
    _LOCK = threading.RLock()
    _LISTENERS.clear()


in_children(_forget)


class Courier:
    """Calls a callback in a thread of its own, with one event after the other."""

    def __init__(self, callback: Callback):
        self._callback = callback
        self._changed = threading.Condition()  # guards what follows
        self._waiting: Deque[Event] = collections.deque()
        self._running = False
        self._dropped = 0

    def __call__(self, event: Event) -> None:
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._waiting.popleft()
                self._dropped += 1
                if self._dropped == 1:
                    warn_behind(self._callback)
            self._waiting.append(event)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="berth-callback", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._running, self._dropped = False, 0
                    return
                event = self._waiting.popleft()
            with logged(self._callback, event):
                self._callback(event)


@contextlib.contextmanager
def logged(callback: Callback, event: Event) -> Iterator[None]:
    """Logs the error that a callback raises, so that it gets the next event."""
    try:
        yield
    except Exception:
        log.exception("the callback %s raised an error at the event %s", _name(callback), event.code)


def warn_behind(callback: Callback) -> None:
    log.warning("the callback %s is behind by %d events: it misses the oldest of them", _name(callback), MOST_WAITING)


def _name(callback: Callback) -> str:
    return str(getattr(callback, "__qualname__", None) or repr(callback))


def on(
    code: Codes,
    callback: Callback,
    *,
    gpu: GPUs = None,
    lease: Leases = None,
    severity: str = "info",
    client: Optional[Client] = None,
) -> Subscription:
    """Calls a function with every :class:`Event` of a code from now on::

        def slow_down(event):
            print(event.text)

        berth.on("critical", slow_down, gpu=0)

    code      one code or several; None: all. docs/reference/events.md lists them
    gpu       only events about these devices, by index or UUID
    lease     only events about these leases, by ID, as USER/ID or as :class:`Lease`
    severity  only events of at least info, warning or critical

    Each callback runs in a thread of its own, so one that never returns does not
    stop the others; up to 1024 events wait for it, then it misses the oldest. An
    error that it raises goes to the log ``berth``, and the next event comes all
    the same. The threads end with the program. When the daemon restarts, they go
    on after the last event: what the daemon no longer has is missed, and
    callbacks for the code ``gap`` are told.

    A forked child has no callbacks until it calls ``on`` itself."""
    return subscribe(code, callback, Courier(callback), gpu, lease, severity, client)


def off(callback: Union[Callback, Subscription]) -> bool:
    """Ends the subscriptions of a callback, or the one that :func:`on` returned.
    Returns whether there was one. A call that is under way goes on to its end."""
    with _LOCK:
        listeners = list(_LISTENERS.values())
    found = [s for each in listeners for s in each.subscriptions() if s is callback or s.callback == callback]
    for subscription in found:
        subscription.off()
    return bool(found)


def subscribe(
    code: Codes,
    callback: Callback,
    deliver: Deliver,
    gpu: GPUs,
    lease: Leases,
    severity: str,
    client: Optional[Client],
) -> Subscription:
    """Delivers the chosen events from now on. The daemon must be there: it says
    what is wrong with a choice."""
    if not callable(callback):
        raise TypeError("on: give a function to call: berth.on(%r, function)" % (code,))
    client = client or Client()
    chosen = Choice(_set(code), _uuids(gpu, client), _ids(lease), severity)
    subscription = Subscription(chosen, callback, deliver, client)
    subscription._begin(max((event.id for event in subscription._kept()), default=0))
    return subscription


def events(
    code: Codes = None,
    *,
    after: int = 0,
    follow: bool = True,
    gpu: GPUs = None,
    lease: Leases = None,
    severity: str = "info",
    stop: Optional[Stop] = None,
    client: Optional[Client] = None,
) -> Iterator[Event]:
    """Yields the events that the daemon has kept, oldest first, and with
    ``follow`` all further ones as they happen. ``after`` leaves out those up to
    an id; ``set`` of ``stop`` ends the loop from another thread. The other
    arguments are those of :func:`on`."""
    query = query_of(code, gpu, lease, severity)
    for item in (client or Client())._follow(Place(after), follow, stop or Stop(), query):
        if not isinstance(item, int):
            yield Event.read(item)


def query_of(code: Codes, gpu: Any, lease: Any, severity: str) -> Mapping[str, Any]:
    """Returns the parameters that choose events, from the arguments of on."""
    return choice(sorted(_set(code)), () if gpu is None else gpu, sorted(_ids(lease)), severity)


def _set(values: Codes) -> FrozenSet[str]:
    return frozenset([values] if isinstance(values, str) else values or ())


def _ids(leases: Leases) -> FrozenSet[str]:
    if leases is None:
        return frozenset()
    several = [leases] if isinstance(leases, str) or hasattr(leases, "id") else leases
    return frozenset(lease if isinstance(lease, str) else lease.id for lease in several)  # type: ignore[union-attr]


def _uuids(gpus: GPUs, client: Client) -> FrozenSet[str]:
    if isinstance(gpus, (int, str)):
        gpus = [gpus]
    found = (client.call("GET", "/api/gpu/status", query={"gpu": gpu}) for gpu in gpus or ())
    return frozenset(str(answer["device"]["uuid"]) for answer in found)


def _rank(severity: str) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)
