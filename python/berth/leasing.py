"""Leases: GPUs, slots and memory that this process holds while it needs them."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import os
import secrets
import threading
import time
import urllib.parse
from typing import (
    Any, Callable, ContextManager, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union, cast,
)  # fmt: skip

from . import calls, caps
from .answers import Allocation, Ended, Event
from .asking import run
from .client import BerthError, Broken, Call, Client, NoDaemon, Problem, Request, Stop
from .memorytypes import Amount, asked, resized
from .mistakes import explained, number
from .parknotices import BACK, LEAVES, ParkNotices
from .persisting import persisting
from .resizing import Resizing
from .stoprequests import StopRequests
from .subscriptions import Callback, Courier, Deliver
from .trimming import trim_when_asked
from .visible import cuda_started
from .waking import waking

LONGEST_WAIT = 30 * 24 * 3600.0  # seconds; the daemon takes no more
PARKED = "parked"  # the code of the refusal to release a lease that has to be resumed first
REMOTE_TTL = 30.0  # seconds; for daemons that cannot see this process
RENEWALS = 3  # in a ttl, so that two may fail

awaited: Callable[[], Any]  # returns the class of leases for ``async with``; the package sets it

Function = TypeVar("Function", bound=Callable[..., Any])
Held = TypeVar("Held", bound="Lease")


@explained
def lease(
    memory: Amount = 0,
    *,
    gpus: int = 1,
    slots: int = 1,
    name: Optional[str] = None,
    service: Optional[str] = None,
    gpu: Union[int, str, None] = None,
    where: Optional[str] = None,
    policy: Optional[str] = None,
    prefer: Union[int, str, None] = None,
    priority: Optional[int] = None,
    timeout: Optional[float] = None,
    ttl: Optional[float] = None,
    time: Optional[float] = None,
    pin: bool = False,
    trim_on_request: bool = False,
    parkable: Union[bool, str] = False,
    exclusive: bool = False,
    on_park: Optional[Callback] = None,
    on_resume: Optional[Callback] = None,
    comment: Optional[str] = None,
    pool: Union[str, "Pool", None] = None,
    client: Optional[Client] = None,
) -> "Lease":
    """Returns a lease for a ``with`` statement, or for functions that need one::

        with berth.lease(memory="4GiB") as gpu:
            subprocess.run(command, env=gpu.environ())

        @berth.lease(memory="4GiB")
        def embed(texts): ...

    The process holds the lease from the beginning of the block to its end,
    however the block ends. When the process dies, even by kill -9, the daemon ends
    the lease. If the process has another lease that is parked, that one is resumed
    first.

    Each call of a function with a lease takes one of its own, which
    :func:`current` returns there, and gives it back when it ends. A coroutine
    function awaits its lease. Without ``name`` the lease has that of the function.

    memory    on each device; none asks for a slot only
    exclusive each device alone: nobody else gets a lease there until it ends. Its
              memory is what is free there, and ``memory`` the least that it needs
    gpus      how many devices
    slots     on each device
    name      what it is for, for people
    service   the service whose limits hold
    gpu       this device and no other, by index or UUID
    prefer    this device if it has room
    where     what the device must be like: "name~H200,memory>=40GiB"
    policy    least_loaded, most_free, best_fit, spread or pack
    priority  the highest goes first among those who wait
    timeout   seconds to wait for room; None: the daemon's default; 0: not at all
    ttl       the lease ends this many seconds after the last renewal, instead of
              with the process; the package renews it in the background
    time      the lease ends this many seconds after it was granted, and berth ends
              its processes
    pin       let this process see no other GPUs; only before it uses CUDA
    trim_on_request  give memory back when the daemon asks for it
    parkable  berth may park the lease while others wait for its device; "unshared":
              also if several processes use it, which share no GPU memory
    on_park   what :meth:`Lease.on_park` is given
    on_resume  what :meth:`Lease.on_resume` is given
    comment   a note of yours, for people, on one line
    pool      take the memory from this pool of yours: what :func:`pool` returned, or
              its name. The lease is granted at once or refused, and has no slots
    """
    for what, value in (("timeout", timeout), ("ttl", ttl), ("time", time)):
        number(what, value)
    request = request_of(
        memory, gpus, slots, name, service, gpu, where, policy, prefer, priority, time, parkable, comment, exclusive, pool
    )
    made = Lease(request, timeout, ttl, pin, trim_on_request, client)
    made._call_when_parked(on_park, on_resume)
    return made


def pool(
    memory: Amount,
    *,
    name: Optional[str] = None,
    gpu: Union[int, str, None] = None,
    where: Optional[str] = None,
    policy: Optional[str] = None,
    prefer: Union[int, str, None] = None,
    priority: Optional[int] = None,
    timeout: Optional[float] = None,
    ttl: Optional[float] = None,
    time: Optional[float] = None,
    comment: Optional[str] = None,
    client: Optional[Client] = None,
) -> "Pool":
    """Returns a pool for a ``with`` statement: memory on one device from which leases
    and programs of yours take theirs at once, and give it back::

        with berth.pool("20GiB", name="render") as pool:
            with pool.lease("4GiB") as gpu:
                subprocess.run(command, env=gpu.environ())

    Other processes of yours take from it by its name: ``berth.lease("4GiB",
    pool="render")``, ``berth exec --pool render --memory 4GiB -- COMMAND``. The pool
    ends with the block and with this process; leases that have memory from it then
    keep what they have. ``berth allocate render 20GiB --pool`` makes one that stays.

    memory    that the pool has
    name      by which others of your processes find it; its id
    ttl       the pool ends this many seconds after the last renewal, instead of with
              the process

    The other arguments are those of :func:`lease`."""
    request = request_of(memory, 1, 0, name, None, gpu, where, policy, prefer, priority, time, False, comment)
    return Pool({**request, "pool": True}, timeout, ttl, False, False, client)


def request_of(
    memory: Amount,
    gpus: int,
    slots: int,
    name: Optional[str],
    service: Optional[str],
    gpu: Union[int, str, None],
    where: Optional[str],
    policy: Optional[str],
    prefer: Union[int, str, None],
    priority: Optional[int],
    limit: Optional[float] = None,
    parkable: Union[bool, str] = False,
    comment: Optional[str] = None,
    exclusive: bool = False,
    pool: Union[str, "Pool", None] = None,
) -> Dict[str, Any]:
    """Returns a request for a lease as the daemon takes it."""
    if callable(memory):
        raise TypeError('lease: write @berth.lease("4GiB") with what the function needs, or @berth.lease() for a slot')
    optional = {
        "name": name, "service": service, "gpu": None if gpu is None else str(gpu), "where": where,
        "policy": policy, "prefer": None if prefer is None else str(prefer), "priority": priority,
        "time_limit_seconds": limit, "comment": comment, "exclusive": exclusive or None,
        "from_pool": pool.id if isinstance(pool, Pool) else pool,
        **calls.may_park(parkable),
    }  # fmt: skip
    given = {k: v for k, v in optional.items() if v is not None}
    if pool is not None:
        slots = 0  # a pool has memory alone
    return {"memory_mb": asked(memory), "gpus": gpus, "slots": slots, **given}


class Lease:
    """Lease holds GPUs, slots and memory. :func:`lease` returns it. Its attributes
    can be read while it is held."""

    def __init__(
        self,
        request: Dict[str, Any],
        timeout: Optional[float],
        ttl: Optional[float],
        pin: bool,
        trim_on_request: bool,
        client: Optional[Client],
    ):
        self._request, self._timeout, self._pin, self._trims = request, timeout, pin, trim_on_request
        self._client = client
        self._ttl = ttl
        self._lock = threading.RLock()  # one acquire or release at a time, or one in a signal handler; guards what follows
        self._asking = False
        self._granted: Optional[Dict[str, Any]] = None
        self._owner = 0  # the process that acquired it
        self._stop: Optional[Stop] = None  # ends the threads that serve it
        self._unpinned: Dict[str, Optional[str]] = {}  # variables as they were
        self._lost = ""
        self._stops: Optional[StopRequests] = None  # of what is held
        self._stoppers: List[Callback] = []
        self._parks: Optional[ParkNotices] = None  # of what is held
        self._parkers: List[Tuple[str, Callback]] = []  # the code of the events, and what to call
        self._devices: List[Dict[str, Any]] = []
        self._context_mb: Optional[int] = None  # not asked yet

    # Holding it.

    def __enter__(self) -> "Lease":
        return self.acquire()

    def __exit__(self, *_: Any) -> None:
        self.release()

    def __call__(self, function: Function) -> Function:
        """Returns the function with a lease like this one for each call."""
        if self.held:
            raise RuntimeError("lease: it is held; calls take leases of their own: write @berth.lease(…)")
        if isinstance(function, type) or not callable(function):
            raise TypeError("lease: %r is not a function: give its methods a lease" % (function,))
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                "lease: %s is a generator, which may never be used up: write with berth.lease(…): inside of it"
                % function.__name__
            )

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call(*args: Any, **kwargs: Any) -> Any:
                async with self._another(awaited(), function):
                    return await function(*args, **kwargs)

        else:

            @functools.wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                with self._another(Lease, function):
                    return function(*args, **kwargs)

        return cast(Function, call)

    def _another(self, kind: Type[Held], function: Callable[..., Any]) -> Held:
        """Returns a lease like this one, for a call of a function."""
        name = getattr(function, "__name__", "")
        request = {**({"name": name} if name.isidentifier() else {}), **self._request}
        made = kind(request, self._timeout, self._ttl, self._pin, self._trims, self._client)
        made._stoppers, made._parkers = list(self._stoppers), list(self._parkers)
        return made

    def acquire(self) -> "Lease":
        """Asks for the lease and waits until it is granted."""
        try:
            self._acquire()
        except BerthError as why:
            raise why.with_traceback(None)  # the frames of this package say nothing to its users
        return self

    def _acquire(self) -> None:
        with self._lock:
            client = self._prepare()
            self._asking = True
            try:
                for other in perhaps_parked():
                    run(other._waking(self._patience()))
                self._hold(client, self._ask(client))
            finally:
                self._asking = False
            try:
                run(self._announcing())
            except BaseException:
                self._end()  # whoever is interrupted here has nothing to release
                raise

    def _prepare(self) -> Client:
        """Returns the client to ask, if the lease may be acquired."""
        if self._granted is not None or self._asking:
            raise RuntimeError("lease: it is held already; make another one")
        if self._pin and cuda_started():
            raise RuntimeError("lease: pin comes too late, this process uses a GPU already: lease before that")
        self._client = self._client or Client()
        return self._client

    def _hold(
        self, client: Client, granted: Dict[str, Any], devices: Sequence[Dict[str, Any]] = (), context: Optional[int] = None
    ) -> None:
        """Takes what was granted, or gives it back if that fails. ``devices`` and
        ``context`` are what the daemon says of them, if it was asked."""
        self._granted = granted
        self._owner, self._lost, self._devices, self._context_mb = os.getpid(), "", list(devices), context
        try:
            self._serve(client)
        except BaseException:
            self._end()
            raise

    def release(self) -> None:
        """Gives the lease back. It does nothing to a lease that has ended, or that
        the parent of this process holds."""
        if self._owner != os.getpid():
            self._let_go()  # the lock may be held for ever
            return
        with self._lock:
            self._end()

    def _ask(self, client: Client) -> Dict[str, Any]:
        body, limit = self._body(client)
        try:
            return self._post(client, body, limit)
        except (Problem, NoDaemon):
            raise  # nothing was granted
        except BaseException:
            if self._made_id(body):
                give_back(client, body["id"], None)
            raise

    def _made_id(self, body: Dict[str, Any]) -> bool:
        """Reports whether the id of a request was made here, and is nobody else's. A pool
        that has the name of this one may stand, and the daemon itself withdraws a request
        whose client leaves."""
        return bool(body["id"] != self._request.get("name"))

    def _body(self, client: Client) -> Tuple[Dict[str, Any], Optional[float]]:
        """Returns the request, and how long its answer may take. The id is made
        here, so that a grant whose answer never arrives can be given back."""
        label = self._request.get("name") or "python"
        body = dict(self._request, id=self._new_id(label))
        ttl = self._ttl if self._ttl is not None or client.local else REMOTE_TTL
        body["binding"] = "process" if ttl is None else "ttl"
        if ttl is not None:
            body["ttl_seconds"] = ttl
        limit = None
        patience = self._patience()
        if patience is not None:
            body["timeout_seconds"] = patience
            limit = patience + 30
        return body, limit

    def _new_id(self, label: str) -> str:
        return "%s-%d-%s" % (_plain(label), os.getpid(), secrets.token_hex(4))

    def _patience(self) -> Optional[float]:
        return None if self._timeout is None else min(max(float(self._timeout), 0.0), LONGEST_WAIT)

    def _post(self, client: Client, body: Dict[str, Any], limit: Optional[float]) -> Dict[str, Any]:
        granted: Dict[str, Any] = run(persisting(Request("POST", "/api/leases", body, timeout=limit, client=client)))
        return granted

    def _serve(self, client: Client) -> None:
        """Starts what a held lease needs."""
        self._stop = Stop()
        self._stops = StopRequests(client, self.id, self.fence)
        for callback in self._stoppers:
            self._stops.add(self._courier(callback))
        if self._stoppers:
            self._watch_stops()
        self._parks = ParkNotices(client, self.id, self.fence)
        for code, callback in self._parkers:
            self._parks.add(code, self._courier(callback))
        if self._parkers:
            self._watch_parks()
        if self._pin:
            self._pin_environment()
        if self.document["binding"] == "ttl":
            self._start(self._renew, client, self._stop, dict(self.document))
        if self._trims:
            self._start(trim_when_asked, client, self._stop, self.id, self.fence, self._resized)
        self._enlist()

    def _enlist(self) -> None:
        """Makes it the current lease."""
        take(self)
        _HELD.append(self)

    def _strike(self) -> None:
        _TAKEN.set(tuple(other for other in _TAKEN.get() if other is not self))
        if self in _HELD:
            _HELD.remove(self)

    def _start(self, work: Any, *args: Any) -> None:
        threading.Thread(target=work, args=args, name="berth-" + work.__name__.strip("_"), daemon=True).start()

    def _end(self) -> None:
        granted = self._let_go()
        if granted is not None and self._client is not None:
            give_back(self._client, granted["id"], granted["fence"])

    def _let_go(self) -> Optional[Dict[str, Any]]:
        """Ends what serves the lease, and returns what is to be given back."""
        granted, self._granted = self._granted, None
        if granted is None:
            return None
        self._strike()
        if self._owner != os.getpid():
            return None  # a copy from before a fork
        if self._stop is not None:
            self._stop.set()
        if self._stops is not None:
            self._stops.close()
        if self._parks is not None:
            self._parks.close()
        for key, value in self._unpinned.items():
            _set(key, value)
        self._unpinned = {}
        return granted

    def _renew(self, client: Client, stop: Stop, granted: Dict[str, Any]) -> None:
        """Renews until it is released."""
        path = "/api/leases/%s/renew" % _quoted(granted["id"])
        body, interval = {"fence": granted["fence"]}, float(granted.get("ttl_seconds") or REMOTE_TTL) / RENEWALS
        pause = interval
        while not stop.wait(pause):
            begun = time.monotonic()
            try:
                client.call("POST", path, body, timeout=max(interval / 2, 1.0))  # to connect, and again to answer
                pause = interval
            except BerthError as refused:
                if not isinstance(refused, Problem) or refused.passes:
                    pause = max(interval - (time.monotonic() - begun), 0.0)
                    continue  # the lease stands, and the daemon may be back in time
                if not stop.is_set():
                    self._lost = refused.detail
                    self._requests().tell(Event(code="lease_expired", lease=granted["id"], text=refused.detail))
                return

    def _pin_environment(self) -> None:
        for key, value in self.env.items():
            self._unpinned[key] = os.environ.get(key)
            os.environ[key] = value
        if self.memory_mb > 0:
            caps.install_caps(caps.pool(self.memory_mb, self._context()))

    # Being asked to end.

    @property
    def stop_requested(self) -> bool:
        """Whether the daemon wants the holder to end: the device is too hot or in
        quarantine, the lease is going to be revoked because its processes use too
        much memory, or it has ended. It stays true until the lease is acquired
        again. The first question makes the process listen to events; later ones
        ask nobody."""
        self._watch_stops()
        return self._requests().event is not None

    @property
    def stop_reason(self) -> str:
        """Why the daemon wants the holder to end; empty if it does not."""
        self._watch_stops()
        event = self._requests().event
        return event.text if event is not None else ""

    def on_stop(self, callback: Callback) -> Callback:
        """Calls a function with the :class:`Event`, once, when the daemon wants
        the holder to end; at once if it does already. The function runs in a
        thread of its own. It may be given before the lease is acquired."""
        self._stoppers.append(callback)
        if self._stops is not None and self.held:
            self._stops.add(self._courier(callback))
            self._watch_stops()
        return callback

    def _requests(self) -> StopRequests:
        if self._stops is None:
            raise RuntimeError("lease: it is not held; use it in a with statement")
        return self._stops

    def _watch_stops(self) -> None:
        self._requests().watch()

    def _courier(self, callback: Callback) -> Deliver:
        return Courier(callback)

    def cancel(self, reason: Optional[str] = None) -> Ended:
        """Ends the programs of the lease, and the lease with them: its processes get
        SIGTERM, and SIGKILL after the daemon's ``deallocation_timeout``. If this
        process holds the lease, it is one of them."""
        return run(self._cancelling(reason))

    # Parking.

    def park(self, reason: Optional[str] = None, unshared: bool = False) -> Allocation:
        """Moves the memory of its processes to the memory of the machine, and returns
        when it is there. This process runs on, and waits as soon as it uses the
        device. If several processes use it, say with ``unshared=True`` that they share
        no GPU memory; else it is refused. The lease stays parked until somebody calls :meth:`wake`,
        :meth:`use` or :func:`resume`."""
        return self._described_as(run(self._parking(reason, unshared)))

    def resume(self, timeout: Optional[float] = None) -> Allocation:
        """Moves the memory of its processes back to the device, and returns when it is
        there. It waits for room for ``timeout`` seconds at most; None: the
        daemon's default; 0: not at all."""
        return self._described_as(run(self._resuming(timeout)))

    def wake(self) -> None:
        """Resumes the lease if it is parked, and returns when it is back on its
        device, however long that takes."""
        run(self._named(calls.wake))

    def use(self) -> ContextManager["Lease"]:
        """Returns a context for work on the device, in a program that keeps its lease
        between pieces of work::

            gpu = berth.lease(memory="40GiB", parkable=True).acquire()
            for request in requests:
                with gpu.use():
                    answer(request)

        A lease that is parked is woken first. That takes a question to the daemon;
        a lease that is not parkable asks nothing."""
        return self._use()

    @contextlib.contextmanager
    def _use(self) -> Iterator["Lease"]:
        self._come_back()
        yield self

    def _come_back(self) -> None:
        run(self._waking(None))

    def on_park(self, callback: Callback) -> Callback:
        """Calls a function with the :class:`Event` when berth is about to park the
        lease, and when it begins to. The function runs in a thread of its own. It may
        be given before the lease is acquired."""
        self._call_when_parked(callback, None)
        return callback

    def on_resume(self, callback: Callback) -> Callback:
        """Calls a function with the :class:`Event` when the lease is back on its
        device, or stays there because it could not be parked. If something went
        wrong, ``failed`` in the data of the event is true, and its text says what."""
        self._call_when_parked(None, callback)
        return callback

    def _call_when_parked(self, on_park: Optional[Callback], on_resume: Optional[Callback]) -> None:
        wanted = [(code, callback) for code, callback in ((LEAVES, on_park), (BACK, on_resume)) if callback is not None]
        self._parkers += wanted
        if self._parks is not None and self.held and wanted:
            for code, callback in wanted:
                self._parks.add(code, self._courier(callback))
            self._watch_parks()

    def _watch_parks(self) -> None:
        if self._parks is not None:
            self._parks.watch()

    def _cancelling(self, reason: Optional[str]) -> Call[Ended]:
        made: Call[Ended] = calls.cancel(self.id, reason=reason, fence=self.fence or None, client=self._client)
        return made

    def _parking(self, reason: Optional[str], unshared: bool) -> Call[Allocation]:
        return self._named(calls.park, reason=reason, unshared=unshared)

    def _resuming(self, timeout: Optional[float]) -> Call[Allocation]:
        return self._named(calls.resume, timeout=timeout)

    def _named(self, call: Any, *args: Any, **options: Any) -> Call[Allocation]:
        """Returns a call about this lease, and no later one of the same id."""
        made: Call[Allocation] = call(self.id, *args, fence=self.fence or None, client=self._client, **options)
        return made

    def _announcing(self) -> Call[None]:
        """Tells the daemon that this program wakes its lease itself: it has to run
        for that, so it is not stopped while it is parked."""
        try:
            yield from self._waking(None)
        except BerthError:
            pass  # it is told when the lease is used

    def _waking(self, timeout: Optional[float]) -> Call[None]:
        granted = self._granted
        if granted is not None and granted.get("parkable"):
            yield from waking(granted["id"], granted["fence"], self._client, timeout)

    def _described_as(self, answer: Allocation) -> Allocation:
        """Keeps what the daemon says about the lease, unless it was released
        meanwhile."""
        granted = self._granted
        if granted is not None and answer.fence == granted["fence"]:
            known = {name: granted[name] for name in ("binding", "enforced_by", "parts") if name in granted}
            self._granted = {**known, **answer.document}
        return answer

    # Another size.

    def resize(self, memory: Amount, timeout: Optional[float] = None) -> Dict[str, str]:
        """Gives the lease another amount of memory on each of its devices. Less holds
        at once. For more it waits its turn for ``timeout`` seconds; None: it is refused
        if there is no room now. A lease that berth shrank gets its old size back before
        others are served.

        If the libraries in this process are limited to the lease, because of ``pin``
        or because the program was started under it, the limits of torch and cupy
        follow; before the lease gets smaller, their caches are freed. Returns what
        became of the limit of each library that is loaded: jax and tensorflow keep
        the one that they started with. ``note`` has what the daemon says."""
        with self._resizing(resized(memory)) as change:
            self._take_size(change, run(self._named(calls.resize, memory, timeout=timeout)))
        return change.limits

    def _resizing(self, wants_mb: int) -> Resizing:
        limited = self._limits_libraries()
        return Resizing(self.memory_mb if limited else 0, wants_mb, self._context() if limited else 0)

    def _limits_libraries(self) -> bool:
        return self._pin and self.memory_mb > 0

    def _take_size(self, change: Resizing, answer: Allocation) -> None:
        self._described_as(answer)
        if self._limits_libraries():
            change.follow(self.memory_mb)
            change.tell(self.memory_mb, max(d["memory_total_mb"] for d in self._described()))

    def _resized(self) -> None:
        """Follows somebody else who gave the lease another size."""
        granted = self._granted
        if granted is None:
            return
        found = run(calls.find_lease(granted["id"], client=self._client))
        if found.fence == granted["fence"] and found.parts and found.memory_mb != self.memory_mb:
            with self._resizing(found.memory_mb) as change:
                self._take_size(change, found)

    # What is held.

    @property
    def document(self) -> Mapping[str, Any]:
        """The lease as the daemon describes it."""
        if self._granted is None:
            raise RuntimeError("lease: it is not held; use it in a with statement")
        return self._granted

    @property
    def held(self) -> bool:
        """Whether this process holds it."""
        return self._granted is not None

    @property
    def lost(self) -> str:
        """Why a lease with a ttl ended before it was released; empty if not."""
        return self._lost

    @property
    def id(self) -> str:
        """The id under which the daemon knows it."""
        return str(self.document["id"])

    @property
    def fence(self) -> int:
        """Grows with every grant: a later holder has a higher one."""
        return int(self.document["fence"])

    @property
    def uuids(self) -> Tuple[str, ...]:
        """The devices."""
        return tuple(part["gpu"] for part in self.document["parts"])

    @property
    def uuid(self) -> str:
        """The device, or the first of several."""
        return self.uuids[0]

    @property
    def memory_mb(self) -> int:
        """The memory on each device. It can be more than was asked for: ``note`` says why."""
        return int(min(part["memory_mb"] for part in self.document["parts"]))

    @property
    def slots(self) -> int:
        """The slots on each device."""
        return int(min(part["slots"] for part in self.document["parts"]))

    @property
    def enforced_by(self) -> str:
        """Who makes sure that no more is used: mps, framework, watchdog or none."""
        return str(self.document["enforced_by"])

    @property
    def parkable(self) -> bool:
        """Whether berth may park it while others wait for its device."""
        return bool(self.document.get("parkable"))

    @property
    def asked_mb(self) -> int:
        """The memory on each device before berth shrank the lease; 0: it did not, or
        this process was not told. ``gpu.resize(gpu.asked_mb)`` asks for it."""
        return int(self.document.get("asked_mb") or 0)

    @property
    def note(self) -> str:
        """What the daemon wants the holder to know, such as that it raised the request."""
        return str(self.document.get("note") or "")

    @property
    def env(self) -> Dict[str, str]:
        """The variables that keep a process to this lease: it sees these GPUs
        and no others, and its libraries stay within the memory."""
        devices = self._described()
        visible = ",".join(self.uuids)
        variables = {
            "BERTH_LEASE": self.id, "BERTH_FENCE": str(self.fence),
            "BERTH_GPUS": visible, "BERTH_MEMORY_MB": str(self.memory_mb), "BERTH_CONTEXT_MB": str(self._context()),
            "BERTH_PARKABLE": "1" if self.parkable else "",
        }  # fmt: skip
        if devices[0]["vendor"] == "amd":
            # A GPU without a number of its own is known by its place, and to ROCm by its ordinal.
            names = [str(d.get("ordinal", u)) if "-at-" in u else u for u, d in zip(self.uuids, devices)]
            variables["ROCR_VISIBLE_DEVICES"] = ",".join(names)
            variables["HIP_VISIBLE_DEVICES"] = ",".join(str(i) for i in range(len(names)))
            variables["GPU_DEVICE_ORDINAL"] = variables["HIP_VISIBLE_DEVICES"]  # for OpenCL
        elif devices[0]["vendor"] == "intel":
            variables["ZE_ENABLE_PCI_ID_DEVICE_ORDER"] = "1"
            variables["ZE_FLAT_DEVICE_HIERARCHY"] = "COMPOSITE"
            variables["ZE_AFFINITY_MASK"] = ",".join(str(d["ordinal"]) for d in devices)
            variables["ONEAPI_DEVICE_SELECTOR"] = "level_zero:" + ",".join(str(i) for i in range(len(devices)))
        else:
            variables["CUDA_VISIBLE_DEVICES"] = visible
            variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        if self.memory_mb > 0:
            room = caps.pool(self.memory_mb, self._context())
            variables.update(caps.environment(room, max(d["memory_total_mb"] for d in devices)))
        return variables

    def environ(self, base: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
        """The whole environment for a subprocess under this lease."""
        return {**(os.environ if base is None else base), **self.env}

    def _described(self) -> List[Dict[str, Any]]:
        if not self._devices:
            assert self._client is not None
            self._devices = [
                self._client.call("GET", "/api/gpu/status", query={"gpu": uuid})["device"] for uuid in self.uuids
            ]
        return self._devices

    def _context(self) -> int:
        """What a CUDA context takes of the lease, as the daemon is told."""
        if self._context_mb is None:
            assert self._client is not None
            self._context_mb = int(self._client.call("GET", "/api/gpu/config")["context_mb"])
        return self._context_mb

    def __repr__(self) -> str:
        if self._granted is None:
            return "<berth.Lease, not held>"
        return "<berth.Lease %s: %d MiB on %s>" % (self.id, self.memory_mb, ", ".join(self.uuids))


class Pool(Lease):
    """Pool holds memory on one device for leases that take theirs from it.
    :func:`pool` returns it."""

    def lease(self, memory: Amount, *, name: Optional[str] = None, **wishes: Any) -> Lease:
        """Returns a lease with memory of the pool, for a ``with`` statement. It takes
        the arguments of :func:`berth.lease`, except those that choose devices and
        slots."""
        return lease(memory, name=name, pool=self, **{"client": self._client, **wishes})

    @property
    def left_mb(self) -> int:
        """How much memory another lease can have now, in MiB."""
        found = run(calls.find_lease(self.id, client=self._client))
        return found.pool.left_mb if found.pool is not None else 0

    def _new_id(self, label: str) -> str:
        name = self._request.get("name")
        return name if name else super()._new_id("pool")


class _Inherited(Lease):
    """The lease that this program was started under."""

    def __init__(self, variables: Mapping[str, str]):
        super().__init__({}, None, None, False, False, None)
        self._client = Client()
        memory = int(variables.get("BERTH_MEMORY_MB") or 0)
        context = variables.get("BERTH_CONTEXT_MB")
        self._context_mb = int(context) if context else None
        gpus = [g for g in variables.get("BERTH_GPUS", "").split(",") if g]
        self._granted = {
            "id": variables["BERTH_LEASE"], "fence": int(variables.get("BERTH_FENCE") or 0), "binding": "process",
            "parts": [{"gpu": g, "memory_mb": memory, "slots": 1} for g in gpus], "enforced_by": "framework",
            "parkable": bool(variables.get("BERTH_PARKABLE")),
        }  # fmt: skip
        self._stops = StopRequests(self._client, self.id, self.fence)
        self._parks = ParkNotices(self._client, self.id, self.fence)

    def acquire(self) -> Lease:
        self._come_back()
        return self

    def release(self) -> None:
        """It is not ours to end."""

    def _limits_libraries(self) -> bool:
        return self.memory_mb > 0

    def _take_size(self, change: Resizing, answer: Allocation) -> None:
        super()._take_size(change, answer)
        _keep_inherited(self)


_HELD: List[Lease] = []  # by this process, the newest last

# By this thread or task, the newest last. Those that another one has given back
# since the last one was taken are still among them.
_TAKEN: "contextvars.ContextVar[Tuple[Lease, ...]]" = contextvars.ContextVar("berth leases", default=())


# The lease that this program was started under, and the variables that say so.
_GIVEN: Optional[Tuple[Dict[str, str], Lease]] = None


def current() -> Optional[Lease]:
    """Returns the newest lease that this thread or task took, else the newest that
    this process holds, else the one it was started under, else None."""
    return newest() or inherited()


def newest() -> Optional[Lease]:
    """Does what :func:`current` does, but leaves out the lease that this process was
    started under."""
    return _taken() or next(reversed(list(_HELD)), None)


def own() -> Optional[Lease]:
    """Does what :func:`current` does, but leaves out leases of other threads, which
    may give them back at any moment."""
    return _taken() or inherited()


def take(lease: Lease) -> None:
    """Makes a lease that of this thread or task."""
    _TAKEN.set((*(other for other in _TAKEN.get() if other.held), lease))


def _taken() -> Optional[Lease]:
    return next((lease for lease in reversed(_TAKEN.get()) if lease.held), None)


def inherited() -> Optional[Lease]:
    """Returns the lease of the environment, the same one for the same variables."""
    global _GIVEN
    variables = _variables()
    if not variables.get("BERTH_LEASE"):
        return None
    if _GIVEN is None or _GIVEN[0] != variables:
        _GIVEN = variables, _Inherited(variables)
    return _GIVEN[1]


def _keep_inherited(lease: Lease) -> None:
    """Keeps the lease of the environment, whose variables have changed with it."""
    global _GIVEN
    if _GIVEN is not None and _GIVEN[1] is lease:
        _GIVEN = _variables(), lease


def _variables() -> Dict[str, str]:
    return {k: v for k, v in os.environ.items() if k.startswith("BERTH_")}


def perhaps_parked() -> List[Lease]:
    """Returns the leases of this process that berth may have parked."""
    mine = {id(lease): lease for lease in (*_HELD, *_TAKEN.get(), inherited()) if lease is not None}
    return [lease for lease in mine.values() if (lease._granted or {}).get("parkable")]


def give_back(client: Client, id: str, fence: Optional[int]) -> None:
    """Releases a lease. If the daemon is away, goes on trying in the
    background: until then the daemon takes the lease for held."""
    done = False
    try:
        done = _released(client, id, fence)
    finally:
        if not done:  # also for whoever is interrupted here
            give_back_later(client, id, fence)


def give_back_later(client: Client, id: str, fence: Optional[int]) -> None:
    """Releases a lease in the background."""
    threading.Thread(target=_keep_trying, args=(client, id, fence), name="berth-release", daemon=True).start()


def _keep_trying(client: Client, id: str, fence: Optional[int]) -> None:
    wait = 0.2
    while not _released(client, id, fence, wakes=True):
        time.sleep(wait)
        wait = min(2 * wait, 10.0)


def stands(refused: Problem) -> bool:
    """Reports whether a lease that could not be released stands. Else it has ended
    already, or is somebody else's by now."""
    return refused.passes or refused.code == PARKED


def _released(client: Client, id: str, fence: Optional[int], wakes: bool = False) -> bool:
    try:
        client.call("DELETE", "/api/leases/" + _quoted(id), query={"fence": fence} if fence else None)
    except Problem as refused:
        if wakes and refused.code == PARKED:
            with contextlib.suppress(BerthError):  # only a lease that is back can be released
                run(calls.wake(id, fence=fence, client=client))
        return not stands(refused)
    except (NoDaemon, Broken):
        return False
    return True


def _quoted(id: str) -> str:
    return urllib.parse.quote(id, safe="")


def _plain(label: str) -> str:
    """The letters of a label that are welcome in an id."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in label)[:80]


def _set(key: str, value: Optional[str]) -> None:
    if value is None:
        os.environ.pop(key, None)
    else:
        os.environ[key] = value
