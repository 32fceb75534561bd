"""The calls of the API, each described once: ``berth`` makes them and waits,
``berth.aio`` makes them and awaits.

A call is a generator. It yields requests, is sent their answers or thrown the
errors of the daemon, and returns what the caller gets. A number that it yields is
how many seconds to wait.
"""

from __future__ import annotations

import datetime
import time
import urllib.parse
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import answers
from .answers import Answer
from .client import CALL_TIMEOUT, BerthError, Call, Client, Request, Result
from .enduring import enduring
from .memorytypes import Amount, asked, mib, resized
from .mistakes import number
from .persisting import persisting
from .showing import Table

Kind = TypeVar("Kind", bound=Answer)
GPU = Union[int, str, None]  # an index or a UUID
Share = Tuple[str, Amount, int]  # UUID of a device, memory and slots


def devices(*, client: Optional[Client] = None) -> Call[List[answers.Device]]:
    """Returns the devices of the machine, in the order of their indexes."""
    all_of_it = yield from status_all(client=client)
    return Table(status.device for status in all_of_it.gpus)


def status(gpu: GPU = None, *, client: Optional[Client] = None) -> Call[answers.Status]:
    """Returns one device as it stands: the first one unless ``gpu`` names another. It has
    the leases there, and ``machine``, the load and the memory of the machine::

        def should_process(s):
            return s.multiplier > 0 and s.machine.load_percent < 80 and s.machine.memory_available_mb > 4096"""
    return (yield from _get(answers.Status, "/api/gpu/status", client, gpu=gpu, leases="true"))


def is_available(*, client: Optional[Client] = None) -> Call[bool]:
    """Reports whether a daemon answers and has a GPU that can be used. It raises
    nothing: a program asks it to decide whether to work without a GPU."""
    try:
        found = yield from status_all(client=client)
    except BerthError:
        return False
    return any(status.state != "UNAVAILABLE" for status in found.gpus)


def status_all(*, client: Optional[Client] = None) -> Call[answers.StatusAll]:
    """Returns every device as it stands, and how much of the machine is in use."""
    return (yield from _get(answers.StatusAll, "/api/gpu/status/all", client))


def metrics(gpu: GPU = None, *, client: Optional[Client] = None) -> Call[List[answers.Sample]]:
    """Returns the newest sample of every device, or of the one that ``gpu`` names."""
    return list((yield from _get(answers.History, "/api/gpu/metrics", client, gpu=gpu)))


def history(
    gpu: GPU = None,
    *,
    since: Union[str, float, datetime.datetime, None] = None,
    limit: Optional[int] = None,
    client: Optional[Client] = None,
) -> Call[answers.History]:
    """Returns the samples of one device, oldest first.

    ``since`` is a time, or how long ago: a number of seconds or a text such as
    "5m". ``limit`` keeps only the newest samples."""
    if isinstance(since, datetime.datetime):
        since = moment(since)
    elif isinstance(since, (int, float)):
        since = "%fs" % since
    return (yield from _get(answers.History, "/api/gpu/metrics/history", client, gpu=gpu, since=since, limit=limit))


def trend(
    gpu: GPU = None, *, minutes: Optional[float] = None, client: Optional[Client] = None
) -> Call[answers.Trend]:
    """Returns what the temperature of a device did in the last ``minutes`` (5),
    and where it goes."""
    return (yield from _get(answers.Trend, "/api/gpu/temperature/trend", client, gpu=gpu, minutes=minutes))


def throttle(gpu: GPU = None, *, client: Optional[Client] = None) -> Call[answers.Throttle]:
    """Returns how hard a device may be worked, why, and until when."""
    return (yield from _get(answers.Throttle, "/api/gpu/throttle/status", client, gpu=gpu))


def available(*, client: Optional[Client] = None) -> Call[List[answers.Available]]:
    """Returns what can be leased now on each device, and the sum that leads to it."""
    answer = yield Request("GET", "/api/gpu/memory/available", client=client)
    return _list(answers.Available, answer, "gpus")


def allocate(
    allocation_id: str,
    memory: Amount,
    *,
    gpu: GPU = None,
    service: Optional[str] = None,
    binding: Optional[str] = None,
    pid: Optional[int] = None,
    ttl: Optional[float] = None,
    timeout: Optional[float] = None,
    time: Optional[float] = None,
    again: Optional[str] = None,
    priority: Optional[int] = None,
    policy: Optional[str] = None,
    prefer: GPU = None,
    parkable: Union[bool, str] = False,
    comment: Optional[str] = None,
    client: Optional[Client] = None,
) -> Call[answers.Allocation]:
    """Leases memory on one device under an id of your choice.

    memory    "4GiB", "512M", or a number of MiB from 64 on
    gpu       this device and no other
    prefer    this device if it has room
    service   the service whose limits hold
    binding   what ends the allocation by itself: process, ttl or named; None: ttl with
              ``ttl``, else the end of this process, however it ends
    pid       the process it is bound to; None: this one
    ttl       the allocation ends this many seconds after the last renewal
    timeout   seconds to wait for room; None: not at all
    time      the allocation ends after this many seconds, with its processes,
              however often it is renewed
    again     "id" or "service": if such an allocation stands already, return it,
              resized if it has another size
    policy    how to choose among the devices that fit
    parkable  berth may park the allocation while others wait for its device; "unshared":
              also if several processes use it, which share no GPU memory
    comment   a note of yours, for people, on one line

    The daemon refuses an id that is in use and more memory than there is, with
    a :class:`Problem`. For memory that a block of code needs, and for slots,
    use :func:`lease`."""
    _named("allocate", allocation_id)
    number("timeout", timeout), number("ttl", ttl), number("time", time)
    amount = asked(memory)
    if amount < 1:
        raise ValueError("allocate: memory must be 1 MiB or more: write it like 4GiB; a slot without memory is berth.lease()")
    if binding is None and ttl is None and pid is None and (client or Client()).local:
        binding = "process"  # a daemon elsewhere cannot see this process
    body = {
        "allocation_id": allocation_id, "memory_mb": amount, "gpu": _text(gpu), "service": service,
        "binding": binding, "pid": pid, "ttl_seconds": ttl, "timeout_seconds": timeout, "again": again,
        "priority": priority, "policy": policy, "prefer": _text(prefer), "time_limit_seconds": time,
        "comment": comment, **may_park(parkable),
    }  # fmt: skip
    limit = CALL_TIMEOUT + max(timeout or 0.0, 0.0)
    request = Request("POST", "/api/gpu/memory/allocate", given(body), timeout=limit, client=client)
    return answers.Allocation.read((yield from persisting(request)))


def may_park(parkable: Union[bool, str]) -> Dict[str, Optional[bool]]:
    """Returns what a request says about parking: ``True``, ``False`` or ``"unshared"``."""
    if isinstance(parkable, str) and parkable != "unshared":
        raise ValueError("parkable is %r: use True, False or 'unshared'" % parkable)
    return {"parkable": bool(parkable) or None, "unshared": parkable == "unshared" or None}


def deallocate(
    allocation_id: str, *, user: Optional[str] = None, client: Optional[Client] = None
) -> Call[answers.Ended]:
    """Ends an allocation, or withdraws a request that waits. Ids are per user:
    see :func:`release`."""
    body = {"allocation_id": allocation_id, "user": user}
    return (yield from _post(answers.Ended, "/api/gpu/memory/deallocate", body, client))


def leases(*, client: Optional[Client] = None) -> Call[answers.Leases]:
    """Returns who holds what, and who waits."""

    def settle(whole: Dict[str, Any], page: Mapping[str, Any]) -> None:
        # A request of an earlier page may have been granted since. One that is for a
        # lease that there is waits beside it.
        granted = {_holding(lease) for lease in page.get("leases") or []}
        waiting = whole.get("waiting") or []
        whole["waiting"] = [one for one in waiting if one.get("for") or _holding(one) not in granted]

    whole = yield from _whole("/api/leases", ("leases", "waiting"), client, settle=settle)
    found = answers.Leases.read(whole)
    found.waiting.sort(key=lambda one: one.position)
    return found


def past_leases(
    service: Optional[str] = None,
    *,
    user: Optional[str] = None,
    gpu: GPU = None,
    limit: Optional[int] = None,
    client: Optional[Client] = None,
) -> Call[List[answers.PastLease]]:
    """Returns leases that have ended, the newest end first: those of a service, a
    user or a GPU, or all. The daemon keeps them across restarts."""
    query = given({"service": service, "user": user, "gpu": gpu, "limit": limit})
    return _list(answers.PastLease, (yield Request("GET", "/api/past/leases", query=query, client=client)), "leases")


def find_lease(
    id: str,
    *,
    user: Optional[str] = None,
    launch: bool = False,
    caps: Sequence[str] = (),
    client: Optional[Client] = None,
) -> Call[answers.Allocation]:
    """Returns a lease, or the request of that id that waits: that of ``user``,
    else your own, else the only one there is.

    launch  also return what a launcher needs to start a program under the lease:
            the answer has ``launch``, with the environment of the program
    caps    the libraries which that environment limits: "cupy", "jax", "torch";
            empty: all of them"""
    asked = {"launch": "true" if launch else None, "caps": ",".join(caps) or None}
    return (yield from _get(answers.Allocation, _lease(id), client, user=user, **asked))


def renew(
    id: str,
    fence: int,
    *,
    ttl: Optional[float] = None,
    user: Optional[str] = None,
    client: Optional[Client] = None,
) -> Call[answers.Allocation]:
    """Renews a lease with a ttl: it lasts for another ``ttl`` seconds, or for as
    long as before."""
    body = {"fence": fence, "ttl_seconds": ttl}
    return (yield from _post(answers.Allocation, _lease(id) + "/renew", body, client, user=user))


def release(
    id: str,
    *,
    fence: Optional[int] = None,
    keep_running: bool = False,
    user: Optional[str] = None,
    client: Optional[Client] = None,
) -> Call[answers.Ended]:
    """Ends a lease, or withdraws a request that waits. With ``fence``, only if
    the lease still has that fence.

    Without a fence, the release of a lease that is bound to a process is refused
    (``program_runs``) while that process lives, unless it, one of its ancestors or
    one of its descendants asks: :func:`cancel` ends both, and with ``keep_running``
    the program runs on without the lease.

    Ids are per user. An id means your own lease; operators and administrators
    who have none mean the only one there is. If several users have the id, that
    is refused as ``ambiguous_id``, and ``user`` says whose is meant: a login name,
    a uid, token:NAME or cert:NAME."""
    query = given({"fence": fence, "keep_running": "true" if keep_running else None, "user": user})
    return answers.Ended.read((yield Request("DELETE", _lease(id), query=query, client=client)))


def cancel(
    id: str,
    *,
    reason: Optional[str] = None,
    fence: Optional[int] = None,
    user: Optional[str] = None,
    client: Optional[Client] = None,
) -> Call[answers.Ended]:
    """Ends the programs of a lease, and the lease with them, or withdraws a request
    that waits. Its processes get SIGTERM, and SIGKILL after the daemon's
    ``deallocation_timeout``. It returns when the daemon has written down what it is
    going to do; the answer has the lease that ends, which is that of the runner for
    a lease of a batch."""
    body = {"reason": reason, "fence": fence}
    return (yield from _post(answers.Ended, _lease(id) + "/cancel", body, client, user=user))


def bind(
    id: str, pid: int, *, fence: Optional[int] = None, user: Optional[str] = None, client: Optional[Client] = None
) -> Call[answers.Allocation]:
    """Hands a lease that is bound to a process to another process."""
    return (yield from _post(answers.Allocation, _lease(id) + "/bind", {"pid": pid, "fence": fence}, client, user=user))


def resize(
    id: str,
    memory: Amount,
    *,
    timeout: Optional[float] = None,
    fence: Optional[int] = None,
    user: Optional[str] = None,
    client: Optional[Client] = None,
) -> Call[answers.Allocation]:
    """Gives a lease another amount of memory on each of its devices. Less holds at
    once. For more, the request waits its turn for ``timeout`` seconds; None: it is
    refused if there is no room now. :meth:`Lease.resize` also changes the limits of
    the libraries in this process."""
    number("timeout", timeout)
    body = {"memory_mb": resized(memory), "fence": fence, "timeout_seconds": timeout}
    limit = CALL_TIMEOUT + max(timeout or 0.0, 0.0)
    return (yield from _post(answers.Allocation, _lease(id) + "/resize", body, client, limit, user=user))


def park(
    id: str,
    *,
    reason: Optional[str] = None,
    fence: Optional[int] = None,
    unshared: bool = False,
    user: Optional[str] = None,
    client: Optional[Client] = None,
) -> Call[answers.Allocation]:
    """Moves the memory of a lease from its device to the memory of the machine, and
    returns when it is there: after about a second for 1.5 GiB. Its programs run on,
    and wait as soon as they use the device. The lease stays parked until
    :func:`resume`, or until its program asks for it.

    A lease with several processes on the device is refused (``may_share_memory``),
    unless its owner says with ``unshared`` that they share no GPU memory."""
    body = {"reason": reason, "fence": fence, "unshared": unshared or None}
    return (yield from _post(answers.Allocation, _lease(id) + "/park", body, client, None, user=user))


def resume(
    id: str,
    *,
    timeout: Optional[float] = None,
    reason: Optional[str] = None,
    fence: Optional[int] = None,
    user: Optional[str] = None,
    client: Optional[Client] = None,
) -> Call[answers.Allocation]:
    """Moves the memory of a parked lease back to its device, and returns when it is
    there. It waits its turn for room, for ``timeout`` seconds at most; None: the
    daemon's default; 0: not at all."""
    body = {"timeout_seconds": timeout, "reason": reason, "fence": fence}
    return (yield from _post(answers.Allocation, _lease(id) + "/resume", body, client, None, user=user))


def wake(
    id: str, *, fence: Optional[int] = None, user: Optional[str] = None, client: Optional[Client] = None
) -> Call[answers.Allocation]:
    """Resumes a lease if it is parked, and returns when its memory is back on the
    device. It does nothing to a lease that is not parked. Programs call it for their
    own lease; :func:`lease` and :meth:`Lease.use` do so by themselves."""
    return (yield from _post(answers.Allocation, _lease(id) + "/wake", {"fence": fence}, client, None, user=user))


def optimize(
    service: Optional[str] = None, *, dry_run: bool = False, client: Optional[Client] = None
) -> Call[answers.Optimization]:
    """Gets memory back, from the leases of a service or from all that the caller may
    change: from holders that are gone, from caches of programs, from leases that
    are larger than their use, and by parking idle leases. Returns what each step
    freed, as measured, and what it left alone and why. With ``dry_run`` it only says
    what it would do."""
    body = {"service": service, "dry_run": dry_run or None}
    return (yield from _post(answers.Optimization, "/api/optimize", body, client, None))


def hold_to(
    id: str,
    share: float,
    *,
    reason: Optional[str] = None,
    fence: Optional[int] = None,
    user: Optional[str] = None,
    client: Optional[Client] = None,
) -> Call[answers.Allocation]:
    """Holds a lease to a share of what it would get of its devices, from 0.05 to
    1: berth stops and continues its processes in short cycles. A share of 1 lets it
    run freely. Operators do this for the leases of others, too."""
    body = {"share": share, "reason": reason, "fence": fence}
    return (yield from _post(answers.Allocation, _lease(id) + "/pace", body, client, user=user))


def ask_to_trim(id: str, *, user: Optional[str] = None, client: Optional[Client] = None) -> Call[answers.Allocation]:
    """Asks the holder of a lease to give back the memory that its libraries keep
    for later. :func:`trim` does it in this process."""
    return (yield from _post(answers.Allocation, _lease(id) + "/trim", None, client, user=user))


def report_libraries(
    id: str,
    libraries: Mapping[str, Mapping[str, int]],
    *,
    fence: Optional[int] = None,
    user: Optional[str] = None,
    client: Optional[Client] = None,
) -> Call[answers.Allocation]:
    """Tells the daemon what the libraries of this program hold under a lease: for each,
    ``allocated_mb`` and ``cached_mb``, as :func:`library_memory` returns them. The lease
    shows it in ``libraries`` until the program ends."""
    listed = [
        {"name": name, "allocated_mb": int(held["allocated_mb"]), "cached_mb": int(held["cached_mb"])}
        for name, held in libraries.items()
    ]
    body = {"libraries": listed, "fence": fence}
    return (yield from _post(answers.Allocation, _lease(id) + "/libraries", body, client, user=user))


def adopt(
    pid: int,
    *,
    id: Optional[str] = None,
    service: Optional[str] = None,
    gpu: GPU = None,
    memory: Optional[Amount] = None,
    client: Optional[Client] = None,
) -> Call[answers.Allocation]:
    """Puts a process that already runs under a lease. Without ``memory`` the
    lease holds what the process uses now, and a margin."""
    body = {
        "pid": pid, "id": id, "service": service, "gpu": _text(gpu),
        "memory_mb": None if memory is None else asked(memory),
    }  # fmt: skip
    return (yield from _post(answers.Allocation, "/api/leases/adopt", body, client))


def admit(
    id: str,
    parts: Sequence[Share],
    *,
    scope: Sequence[str] = (),
    name: Optional[str] = None,
    service: Optional[str] = None,
    priority: Optional[int] = None,
    ttl: Optional[float] = None,
    time: Optional[float] = None,
    client: Optional[Client] = None,
) -> Call[answers.Allocation]:
    """Leases exactly what another scheduler has decided, at once and before
    everybody who waits, or not at all. The same call again returns the lease that
    stands, with ``stood``. For operators.

    id        of the lease; the same id with other parts is refused
    parts     (UUID of the device, memory, slots) for each device
    scope     names of control groups: the processes in them belong to the lease,
              and no others; those of a repeated call are added
    name      what it is for, for people
    service   the service whose limits hold
    ttl       the lease ends this many seconds after the last renewal, instead of
              when it is released
    time      the lease ends after this many seconds, with its processes,
              however often it is renewed"""
    shares = [{"gpu": gpu, "memory_mb": mib(memory), "slots": slots} for gpu, memory, slots in parts]
    body = {
        "id": id, "parts": shares, "admitted": True, "scope": list(scope) or None, "name": name, "service": service,
        "priority": priority, "ttl_seconds": ttl, "time_limit_seconds": time,
    }  # fmt: skip
    return (yield from _post(answers.Allocation, "/api/leases", body, client))


def explain(
    memory: Amount = 0,
    *,
    gpus: int = 1,
    slots: int = 1,
    service: Optional[str] = None,
    gpu: GPU = None,
    where: Optional[str] = None,
    policy: Optional[str] = None,
    prefer: GPU = None,
    priority: Optional[int] = None,
    client: Optional[Client] = None,
) -> Call[answers.Explanation]:
    """Returns what would become of a request for a lease, without making it: the
    arguments are those of :func:`lease`."""
    body = {
        "memory_mb": asked(memory), "gpus": gpus, "slots": slots, "service": service, "gpu": _text(gpu),
        "where": where, "policy": policy, "prefer": _text(prefer), "priority": priority,
    }  # fmt: skip
    return (yield from _post(answers.Explanation, "/api/leases/explain", body, client))


def explain_waiting(
    id: str, *, user: Optional[str] = None, client: Optional[Client] = None
) -> Call[answers.Explanation]:
    """Returns what a request waits for."""
    return (yield from _get(answers.Explanation, _lease(id) + "/explain", client, user=user))


def orphans(*, client: Optional[Client] = None) -> Call[answers.Strays]:
    """Returns the processes that use devices under no lease."""
    return answers.Strays.read((yield from _whole("/api/orphans", ("orphans", "foreign"), client)))


def whoami(*, client: Optional[Client] = None) -> Call[answers.Whoami]:
    """Returns who the daemon takes the caller for, and why."""
    return (yield from _get(answers.Whoami, "/api/whoami", client))


def batches(*, client: Optional[Client] = None) -> Call[List[answers.Batch]]:
    """Returns the batches that run, and how far each has got."""
    return _list(answers.Batch, (yield from _whole("/api/batches", ("batches",), client)), "batches")


def measurements(
    name: Optional[str] = None, *, user: Optional[str] = None, client: Optional[Client] = None
) -> Call[List[answers.Measured]]:
    """Returns what earlier runs used, by user, name and step."""
    answer = yield from _whole("/api/measurements", ("measurements",), client, name=name, user=user)
    return _list(answers.Measured, answer, "measurements")


def energy(*, client: Optional[Client] = None) -> Call[answers.Energy]:
    """Returns how much energy devices used, and for whom."""
    return (yield from _get(answers.Energy, "/api/energy", client))


def query(
    expr: str, *, at: Union[float, datetime.datetime, None] = None, client: Optional[Client] = None
) -> Call[answers.QueryAnswer]:
    """Asks a question in PromQL about one moment: now, unless ``at`` is a time or
    seconds since 1970. The metrics are those of ``/metrics``."""
    answer = yield Request("GET", "/api/v1/query", query=given({"query": expr, "time": _seconds(at)}), client=client)
    return _answered(answer)


def query_range(
    expr: str,
    *,
    since: Union[float, datetime.datetime] = 3600.0,
    until: Union[float, datetime.datetime, None] = None,
    step: Optional[float] = None,
    client: Optional[Client] = None,
) -> Call[answers.QueryAnswer]:
    """Asks a question in PromQL about every ``step`` seconds of a time.

    ``until`` is a time, or seconds since 1970; now, if it is not given. ``since`` is
    a time, or how many seconds before that. Without ``step``, the answer has 120
    points for each series, and none is closer than a second to the next."""
    end = _seconds(until)
    if end is None:
        end = time.time()
    start = since.timestamp() if isinstance(since, datetime.datetime) else end - since
    if step is None:
        step = max(1.0, round((end - start) / 120))
    asked = {"query": expr, "start": "%.3f" % start, "end": "%.3f" % end, "step": "%.3f" % step}
    return _answered((yield Request("GET", "/api/v1/query_range", query=asked, client=client)))


def _seconds(moment: Union[float, datetime.datetime, None]) -> Optional[float]:
    """Returns a time in seconds since 1970."""
    return moment.timestamp() if isinstance(moment, datetime.datetime) else moment


def _answered(document: Mapping[str, Any]) -> answers.QueryAnswer:
    """Reads an answer in the form of Prometheus."""
    data = document.get("data") or {}
    kind, result = data.get("resultType", ""), data.get("result") or []
    shape: Dict[str, Any] = {"type": kind, "warnings": document.get("warnings"), "infos": document.get("infos")}
    if kind == "scalar":
        shape["value"] = float(result[1])
    elif kind == "string":
        shape["text"] = result[1]
    else:
        shape["series"] = []
        for one in result:
            points = [one["value"]] if "value" in one else one["values"]
            times, values = [float(p[0]) for p in points], [float(p[1]) for p in points]
            shape["series"].append({"labels": one["metric"], "times": times, "values": values})
    answer = answers.QueryAnswer.read(shape)
    answer.__dict__["document"] = document
    return answer


def measure(
    name: str, memory: Amount, seconds: float, *, step: Optional[str] = None, client: Optional[Client] = None
) -> Call[None]:
    """Tells the daemon what a run used, so that the next one need not say."""
    body = given({"name": name, "step": step, "memory_mb": mib(memory), "seconds": seconds})
    yield Request("POST", "/api/measurements", body, client=client)


def ready(*, client: Optional[Client] = None) -> Call[answers.Ready]:
    """Returns whether the daemon can do its work. One that cannot raises a
    :class:`Problem`."""
    return (yield from _get(answers.Ready, "/readyz", client))


def check(
    gpu: Union[int, str], *, kind: Optional[str] = None, client: Optional[Client] = None
) -> Call[answers.Check]:
    """Has a device tested, and returns what came of it: after some seconds, or
    after minutes for the kind ``long``. The kind ``residue`` tests nothing, and
    looks for what earlier programs left in free memory. Needs the role operator."""
    body = {"gpu": str(gpu), "kind": kind}
    return (yield from _post(answers.Check, "/api/gpu/check", body, client, timeout=None))


def alerts(*, client: Optional[Client] = None) -> Call[answers.Alerts]:
    """Returns the alerts that are pending or fire."""
    return (yield from _get(answers.Alerts, "/api/alerts", client))


def acknowledge(
    fingerprint: str,
    *,
    hours: Optional[float] = None,
    comment: Optional[str] = None,
    client: Optional[Client] = None,
) -> Call[answers.Alert]:
    """Says that you take care of an alert, for 4 hours unless ``hours`` says
    otherwise. Hooks get nothing more about it until then, or until it ends. Needs
    the role operator."""
    body = {"hours": hours, "comment": comment}
    return (yield from _post(answers.Alert, _alert(fingerprint), body, client))


def unacknowledge(fingerprint: str, *, client: Optional[Client] = None) -> Call[answers.Alert]:
    """Takes an acknowledgement back. Needs the role operator."""
    return answers.Alert.read((yield Request("DELETE", _alert(fingerprint), client=client)))


def _alert(fingerprint: str) -> str:
    return "/api/alerts/" + urllib.parse.quote(fingerprint, safe="") + "/acknowledge"


def drain(
    gpu: Union[int, str],
    *,
    until: Union[str, datetime.datetime, None] = None,
    reason: Optional[str] = None,
    client: Optional[Client] = None,
) -> Call[answers.Drained]:
    """Takes a device out of use: leases there go on, and the daemon grants no new
    ones, until :func:`undrain` or the time ``until``. Needs the role operator."""
    body = {"gpu": str(gpu), "until": moment(until), "reason": reason}
    return (yield from _post(answers.Drained, "/api/gpu/drain", body, client))


def undrain(gpu: Union[int, str], *, client: Optional[Client] = None) -> Call[answers.Drained]:
    """Lets a drained device be used again. Needs the role operator."""
    return (yield from _post(answers.Drained, "/api/gpu/undrain", {"gpu": str(gpu)}, client))


# Jobs.


def submit_job(body: Mapping[str, Any], *, client: Optional[Client] = None) -> Call[answers.Job]:
    """Submits a job. A daemon that is being replaced is waited for."""
    return answers.Job.read((yield from enduring(Request("POST", "/api/jobs", given(body), client=client))))


def jobs(
    *,
    user: Optional[str] = None,
    state: Union[str, Sequence[str], None] = None,
    since: Union[str, datetime.datetime, None] = None,
    client: Optional[Client] = None,
) -> Call[List[answers.Job]]:
    """Returns jobs, the newest first: those of a user, or in one of some states. With
    ``since``, those that have not ended and those that ended later: a time, or how long
    ago, as in "36h". The daemon remembers jobs that have ended for 90 days."""
    chosen = state if state is None or isinstance(state, str) else ",".join(state)
    whole = yield from _whole("/api/jobs", ("jobs",), client, user=user, state=chosen, since=moment(since))
    return _list(answers.Job, whole, "jobs")


def get_job(id: str, *, wait: Optional[float] = None, client: Optional[Client] = None) -> Call[answers.Job]:
    """Returns a job or a task. With ``wait``, it waits that many seconds for its end,
    or for a daemon that is being replaced."""
    limit = wait or 0.0
    request = Request("GET", _job(id), query=given({"wait_seconds": wait}), timeout=CALL_TIMEOUT + limit, client=client)
    return answers.Job.read((yield from enduring(request, limit)))


def job_log(
    id: str, *, errors: bool = False, lines: Optional[int] = None, client: Optional[Client] = None
) -> Call[str]:
    """Returns what a job or a task has printed."""
    query = given({"errors": "true" if errors else None, "lines": lines})
    return str((yield Request("GET", _job(id) + "/log", query=query, client=client, plain=True)))


def cancel_job(id: str, *, client: Optional[Client] = None) -> Call[answers.Job]:
    """Cancels a job or a task."""
    return (yield from _post(answers.Job, _job(id) + "/cancel", {}, client))


def hold_job(id: str, *, client: Optional[Client] = None) -> Call[answers.Job]:
    """Keeps a job or a task that waits from starting."""
    return (yield from _post(answers.Job, _job(id) + "/hold", {}, client))


def unhold_job(id: str, *, client: Optional[Client] = None) -> Call[answers.Job]:
    """Lets a job or a task that is held start."""
    return (yield from _post(answers.Job, _job(id) + "/unhold", {}, client))


def redo_job(id: str, *, failed: bool = False, client: Optional[Client] = None) -> Call[answers.Job]:
    """Submits a job again, or only the tasks of it that did not end well."""
    return (yield from _post(answers.Job, _job(id) + "/redo", {"failed": failed or None}, client))


def prioritize_job(id: str, priority: int, *, client: Optional[Client] = None) -> Call[answers.Job]:
    """Changes the priority of a job or a task that waits."""
    return (yield from _post(answers.Job, _job(id) + "/priority", {"priority": priority}, client))


# The namespaces config, monitoring and services.


def config_get(*, client: Optional[Client] = None) -> Call[answers.GPUConfig]:
    """Returns the section ``gpu`` of the configuration as it is in force."""
    return (yield from _get(answers.GPUConfig, "/api/gpu/config", client))


def config_set(
    change: Optional[Mapping[str, Any]] = None, *, client: Optional[Client] = None, **settings: Any
) -> Call[answers.GPUConfig]:
    """Changes settings of the section ``gpu``, and returns it::

        berth.config.set(temp_throttle=80, memory_reserve_mb=1024)

    None takes a change back: the setting is again what the file says. Either all
    changes hold, at once and across restarts, or none does. ``change`` is for
    settings as a dictionary."""
    body = {**(change or {}), **settings}
    return answers.GPUConfig.read((yield Request("PUT", "/api/gpu/config", body, client=client)))


def config_reload(*, client: Optional[Client] = None) -> Call[Dict[str, Any]]:
    """Makes the daemon read its configuration file again, and returns what it
    says about it. A file with a mistake changes nothing."""
    answer = yield Request("POST", "/api/gpu/config/reload", client=client)
    return dict(answer or {})


def config_sources(*, client: Optional[Client] = None) -> Call[List[answers.Setting]]:
    """Returns every setting of every section, its value and where it comes from."""
    return _list(answers.Setting, (yield Request("GET", "/api/gpu/config/sources", client=client)), "fields")


def monitoring_start(*, client: Optional[Client] = None) -> Call[answers.Monitoring]:
    """Starts the sampling loop of the daemon."""
    return (yield from _post(answers.Monitoring, "/api/gpu/monitoring/start", None, client))


def monitoring_stop(*, client: Optional[Client] = None) -> Call[answers.Monitoring]:
    """Stops the sampling loop of the daemon. What it measured stays and grows old."""
    return (yield from _post(answers.Monitoring, "/api/gpu/monitoring/stop", None, client))


def services_all(*, client: Optional[Client] = None) -> Call[List[answers.Service]]:
    """Returns the services that the configuration names, that hold leases, or
    that wait for one, by name."""
    found: Dict[str, answers.Service] = {}

    def service(name: str) -> answers.Service:
        return found.setdefault(name, answers.Service(name=name))

    for setting in (yield from config_sources(client=client)):
        words = setting.field.split(".", 2)
        if words[0] == "services" and len(words) == 3:
            service(words[1]).settings[words[2]] = setting.value
    held = yield from leases(client=client)
    for lease in held.leases:
        if lease.holder.service:
            service(lease.holder.service).leases.append(lease)
    for waiting in held.waiting:
        if waiting.holder.service:
            service(waiting.holder.service).waiting.append(waiting)
    return [found[name] for name in sorted(found)]


def services_get(name: str, *, client: Optional[Client] = None) -> Call[answers.Service]:
    """Returns one service. A service that nobody named yet has no settings and
    no leases."""
    found = [service for service in (yield from services_all(client=client)) if service.name == name]
    return found[0] if found else answers.Service(name=name)


def services_programs(*, client: Optional[Client] = None) -> Call[List[answers.Program]]:
    """Returns the services whose programs the daemon runs, in the order of their names."""
    listed = yield Request("GET", "/api/services", client=client)
    return [answers.Program.read(one) for one in listed.get("services") or []]


def services_program(name: str, *, client: Optional[Client] = None) -> Call[answers.Program]:
    """Returns a service whose program the daemon runs: its state, its devices, how many
    requests it has, and how long it takes to come and to go."""
    return (yield from _get(answers.Program, _service(name), client))


def services_start(name: str, *, why: Optional[str] = None, client: Optional[Client] = None) -> Call[answers.Program]:
    """Starts a service, also one that a person stopped or that failed. It does not wait
    until the service is ready; a request does."""
    return (yield from _post(answers.Program, _service(name) + "/start", given({"why": why}), client))


def services_stop(name: str, *, why: Optional[str] = None, client: Optional[Client] = None) -> Call[answers.Program]:
    """Stops a service when its open requests have ended. Later ones are refused, and their
    callers read ``why``, until somebody starts it."""
    return (yield from _post(answers.Program, _service(name) + "/stop", given({"why": why}), client))


def services_restart(name: str, *, why: Optional[str] = None, client: Optional[Client] = None) -> Call[answers.Program]:
    """Stops a service when its open requests have ended, and starts it again."""
    return (yield from _post(answers.Program, _service(name) + "/restart", given({"why": why}), client))


def services_move(
    name: str, gpu: Union[int, str], *, why: Optional[str] = None, client: Optional[Client] = None
) -> Call[answers.Program]:
    """Lets a service go when its open requests have ended, and come again on another
    device, by index or UUID."""
    return (yield from _post(answers.Program, _service(name) + "/move", given({"gpu": str(gpu), "why": why}), client))


def services_log(name: str, *, lines: Optional[int] = None, client: Optional[Client] = None) -> Call[str]:
    """Returns what the program of a service has printed. ``lines`` is how many of the last
    lines; None: all."""
    return str((yield Request("GET", _service(name) + "/log", query=given({"lines": lines}), client=client, plain=True)))


def _service(name: str) -> str:
    return "/api/services/" + urllib.parse.quote(name, safe="")


# What the calls are made of.


def _get(kind: Type[Kind], path: str, client: Optional[Client], **query: Any) -> Call[Kind]:
    return kind.read((yield Request("GET", path, query=given(query), client=client)))


def moment(time: Union[str, datetime.datetime, None]) -> Optional[str]:
    """Writes a time as the API takes it."""
    if isinstance(time, datetime.datetime):
        return time.astimezone(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    return time


def _post(
    kind: Type[Kind],
    path: str,
    body: Optional[Mapping[str, Any]],
    client: Optional[Client],
    timeout: Optional[float] = CALL_TIMEOUT,
    user: Optional[str] = None,
) -> Call[Kind]:
    sent, query = None if body is None else given(body), given({"user": user})
    return kind.read((yield Request("POST", path, sent, query=query, timeout=timeout, client=client)))


def _whole(
    path: str,
    lists: Sequence[str],
    client: Optional[Client],
    settle: Callable[[Dict[str, Any], Mapping[str, Any]], None] = lambda whole, page: None,
    **query: Any,
) -> Call[Any]:
    """Returns all pages of a list as one answer. ``settle`` changes what came so
    far before a page is added. The first request asks for no page, so that
    daemons which know none answer it too."""
    asked = given(query)
    whole = page = yield Request("GET", path, query=asked, client=client)
    while isinstance(page, Mapping) and page.get("next") and page["next"] != asked.get("after"):
        asked = dict(asked, after=page["next"])
        page = yield Request("GET", path, query=asked, client=client)
        whole = {k: v for k, v in whole.items() if k not in ("next", "note")}
        settle(whole, page)
        for name in lists:
            whole[name] = (whole.get(name) or []) + (page.get(name) or [])
    return whole


def _holding(one: Mapping[str, Any]) -> Tuple[Any, ...]:
    """Returns what tells a lease, and the request that it was, from all others."""
    holder = one.get("holder") or {}
    return (one.get("id"), holder.get("user"), holder.get("uid"), holder.get("pid"))


def _list(kind: Type[Kind], answer: Any, key: str) -> List[Kind]:
    return Table(kind.read(item) for item in (answer or {}).get(key) or [])


def given(values: Mapping[str, Any]) -> Dict[str, Any]:
    return {k: v for k, v in values.items() if v is not None}


def _text(gpu: GPU) -> Optional[str]:
    return None if gpu is None else str(gpu)


def _named(what: str, id: Any) -> None:
    """Refuses what cannot be an id."""
    if not isinstance(id, str) or not id:
        raise ValueError("%s: an id is a text such as \"assistant\", not %r: berth.leases() lists them" % (what, id))


def _lease(id: str) -> str:
    _named("lease", id)
    return "/api/leases/" + urllib.parse.quote(id, safe="")


def _job(id: str) -> str:
    if not isinstance(id, str) or not id:
        raise ValueError("job: an id is a text such as \"train-17\", not %r: berth.jobs() lists them" % (id,))
    return "/api/jobs/" + urllib.parse.quote(id, safe="")
