"""Reports how much work a program does, for the metrics of the daemon.

The program only notes how long its operations take. A thread sends that to the
daemon once a second and ends with the program. Nothing here raises into the
program, or makes it wait for the daemon.
"""

from __future__ import annotations

import atexit
import contextlib
import inspect
import logging
import os
import threading
import time
import urllib.parse
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, TypeVar, Union

from .client import BerthError, Client, NoDaemon, Problem
from .forks import in_children
from .leasing import Lease, inherited, newest

INTERVAL = 1.0  # seconds from an operation to its report
PATIENCE = 30.0  # seconds between two attempts, at most, while no daemon answers
SEND = 10.0  # seconds that a report may take
LAST_CALL = 2.0  # seconds that the end of the program waits for the last report
MOST_LATENCIES = 10_000  # in one report; of further operations the average is reported
MOST_TARGETS = 64  # services and GPUs that wait for a report
MOST_COUNT = 100_000_000  # in one report

log = logging.getLogger("berth")

Function = TypeVar("Function", bound=Callable[..., Any])


class Target(NamedTuple):
    """What operations are reported for. None: the lease that the program was started
    under says it. Empty: nothing does."""

    service: Optional[str]
    gpu: Optional[str]
    client: Optional[Client]


class Pending:
    """Operations that wait for their report."""

    def __init__(self) -> None:
        self.latencies: List[float] = []
        self.count = 0  # operations beyond latencies
        self.seconds = 0.0  # that they took

    def add(self, count: int, seconds: float) -> None:
        room = MOST_LATENCIES - len(self.latencies)
        if count <= room:
            self.latencies.extend([seconds] * count)
            return
        self.count = min(self.count + count, MOST_COUNT)
        self.seconds += count * seconds

    def reports(self) -> List[Dict[str, Any]]:
        bodies: List[Dict[str, Any]] = []
        if self.latencies:
            bodies.append({"latencies": self.latencies})
        if self.count:
            bodies.append({"count": self.count, "seconds": self.seconds})
        return bodies


class Reporter:
    """Sends what the operations of this process add up to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards what follows
        self._pending: Dict[Target, Pending] = {}
        self._thread: Optional[threading.Thread] = None
        self._wake = threading.Event()  # something is pending
        self._sending = threading.Lock()  # one goes through pending at a time; guards what follows
        self._services: Dict[str, str] = {}  # of leases, by id
        self._told: Set[str] = set()  # what was logged: each thing once

    def add(self, target: Target, count: int, seconds: float) -> None:
        """Notes operations that took so long each."""
        with self._lock:
            pending = self._pending.get(target)
            if pending is None:
                if len(self._pending) >= MOST_TARGETS:
                    return
                pending = self._pending[target] = Pending()
            pending.add(count, seconds)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="berth-operations", daemon=True)
                self._thread.start()
        self._wake.set()

    def flush(self, timeout: float) -> bool:
        """Sends what is pending. Returns whether a daemon answered. What no daemon
        got stays pending."""
        if not self._sending.acquire(timeout=timeout):
            return False
        try:
            with self._lock:
                taken, self._pending = self._pending, {}
            answered = True
            end = time.monotonic() + timeout
            for target, pending in taken.items():
                left = end - time.monotonic()
                if not answered or left <= 0 or not self._send(target, pending, left):
                    answered = False
                    self._keep(target, pending)
            return answered
        finally:
            self._sending.release()

    def _run(self) -> None:
        wait = INTERVAL
        while True:
            self._wake.wait()
            time.sleep(wait)
            self._wake.clear()
            if self.flush(timeout=SEND):
                wait = INTERVAL
            else:
                wait = min(2 * wait, PATIENCE)
                self._wake.set()

    def _keep(self, target: Target, pending: Pending) -> None:
        """Puts operations back that no daemon got."""
        with self._lock:
            newer = self._pending.get(target)
            self._pending[target] = pending
            if newer is not None:
                for seconds in newer.latencies:
                    pending.add(1, seconds)
                pending.count = min(pending.count + newer.count, MOST_COUNT)
                pending.seconds += newer.seconds

    def _send(self, target: Target, pending: Pending, timeout: float) -> bool:
        """Reports operations; False if there is no daemon. What a daemon refuses,
        or perhaps did not get, is dropped: it must not count twice."""
        try:
            client = target.client or Client()
            service, gpu, _ = self._resolve(target, client, timeout)
            if not service:
                self._tell("berth.operation does not know the service: name it with operation(service=...)")
                return True
            path = "/api/services/%s/operations" % urllib.parse.quote(service, safe="")
            for body in pending.reports():
                client.call("POST", path, dict(body, gpu=gpu) if gpu else body, timeout=timeout)
        except NoDaemon:
            return False
        except Problem as refused:
            self._tell("the daemon does not count the operations of this program: %s" % refused)
        except Exception as why:  # whatever it is, the program goes on
            self._tell("operations were not reported: %s" % why)
        return True

    def _resolve(self, target: Target, client: Client, timeout: float) -> Target:
        """Fills a target from the lease that the program was started under."""
        if target.service is not None and target.gpu is not None:
            return target
        lease = inherited()
        if lease is None:
            return _filled(target, "", ())
        return _filled(target, self._service_of(lease, client, timeout), lease.uuids)

    def _service_of(self, lease: Lease, client: Client, timeout: float) -> str:
        if lease.id not in self._services:
            path = "/api/leases/" + urllib.parse.quote(lease.id, safe="")
            try:
                document = client.call("GET", path, timeout=timeout)
                self._services = {lease.id: document["holder"].get("service") or ""}
            except Problem:
                return ""  # the lease has ended
        return self._services[lease.id]

    def _tell(self, what: str) -> None:
        if what not in self._told and len(self._told) < 16:
            self._told.add(what)
            log.warning(what)


def _done_here(target: Target) -> Target:
    """Fills a target from the lease that this process holds now: when the operations
    are reported, it may hold another one, or none."""
    lease = None if target.service and target.gpu else newest()
    granted = None if lease is None else lease._granted
    if granted is None:
        return target
    return _filled(target, granted.get("holder", {}).get("service") or "", [part["gpu"] for part in granted["parts"]])


def _filled(target: Target, held: str, uuids: Sequence[str]) -> Target:
    """Fills a target from a lease: its service, and its device if the operations are
    of that service."""
    service, gpu = target.service or os.environ.get("BERTH_SERVICE") or held, target.gpu
    if gpu is None:
        gpu = uuids[0] if service == held and len(uuids) == 1 else ""
    return Target(service, gpu, target.client)


_REPORTER = Reporter()


def _forget() -> None:
    """Forgets what a forked child has from its parent, which reports it."""
    global _REPORTER
    _REPORTER = Reporter()


def _last_call() -> None:
    """Reports what is pending when the program ends."""
    with contextlib.suppress(BerthError, OSError, RuntimeError):
        _REPORTER.flush(LAST_CALL)


in_children(_forget)
atexit.register(_last_call)


class Operation(contextlib.ContextDecorator):
    """Operation measures a block of code. :func:`operation` returns it."""

    def __init__(self, target: Target, count: int):
        self._target = target
        self.count = count  #: how many operations the block does; the block may set it
        self._began = 0.0

    def _recreate_cm(self) -> "Operation":
        return Operation(self._target, self.count)  # each call of a decorated function has its own

    def __call__(self, function: Function) -> Function:
        if inspect.iscoroutinefunction(function):
            raise TypeError("operation does not decorate async functions: write with berth.operation() inside of them")
        return super().__call__(function)

    def __enter__(self) -> "Operation":
        self._began = time.perf_counter()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        seconds = time.perf_counter() - self._began
        if kind is None and self.count > 0:
            _REPORTER.add(_done_here(self._target), int(self.count), seconds)


def operation(
    service: Optional[str] = None,
    count: int = 1,
    gpu: Union[int, str, None] = None,
    client: Optional[Client] = None,
) -> Operation:
    """Measures a block of code as one operation of a service, or as ``count`` of
    them that take as long as the block, and reports it to the daemon in the
    background::

        with berth.operation():
            answer(request)

    It also decorates functions. Without ``service`` it is that of
    ``BERTH_SERVICE``, or of the lease that this process has; without ``gpu``,
    the GPU of that lease. A block that raises does not count. It never raises
    because of the daemon and never waits for it: what is refused is logged once."""
    if count < 0:
        raise ValueError("operation: count must be 0 or more, not %d" % count)
    return Operation(Target(service or None, None if gpu is None else str(gpu), client), count)
