"""The answers of the daemon as dataclasses.

Fields have the names of the JSON; one that is a word of Python has an underscore
at its end, such as ``from_``. A field that an answer lacks has its default, and a
field that this package does not know stays in ``document``: so the package works
with daemons that are older or newer than itself.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
import types
import typing
from typing import Any, Callable, ClassVar, Dict, Iterator, List, Mapping, Optional, Type, TypeVar

from .client import BerthError

Kind = TypeVar("Kind", bound="Answer")
Made = TypeVar("Made")
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
        said = ("%s=%r" % (name, value) for name, value in self._values().items())
        return "%s(%s)" % (type(self).__name__, ", ".join(said))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Answer) or type(self) is not type(other):
            return NotImplemented
        return self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

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


class Link(Answer):
    """How a device reaches another one."""

    to: str = ""  # UUID of the other device
    kind: str = ""  # nvlink, pcie_switch, host_bridge, numa_node or system
    lanes: int = 0  # NVLinks side by side


class Device(Answer):
    """One GPU: the facts that do not change from one sample to the next."""

    uuid: str = ""
    index: int = 0  # its position today, for people
    name: str = ""
    vendor: str = ""  # nvidia, amd, intel or sim
    backend: str = ""  # the part of berth that talks to it
    driver: str = ""
    ordinal: Optional[int] = None  # its number as the vendor's runtime counts GPUs; AMD and Intel only
    pci_bus_id: str = ""
    compute_capability: str = ""
    memory_total_mb: int = 0
    numa_node: Optional[int] = None
    power_limit_watts: Optional[float] = None
    temp_slowdown_celsius: Optional[float] = None  # where the hardware slows itself down
    temp_max_celsius: Optional[float] = None
    temp_shutdown_celsius: Optional[float] = None
    links: List[Link] = _list()
    parent: str = ""  # of a MIG instance
    instances: List[str] = _list()  # of a device in MIG mode


class Process(Answer):
    """One process on a device."""

    pid: int = 0  # 0 for processes of other users
    name: str = ""
    kind: str = ""  # compute or graphics
    memory_mb: Optional[int] = None


class Sample(Answer):
    """One reading of a device. What the device does not measure is None."""

    gpu: str = ""  # UUID
    time: Optional[Time] = None
    name: str = ""  # of the device; empty if the daemon does not say
    state: str = ""  # likewise
    utilization_percent: Optional[float] = None
    memory_busy_percent: Optional[float] = None
    memory_total_mb: Optional[int] = None
    memory_used_mb: Optional[int] = None
    memory_free_mb: Optional[int] = None
    blind: bool = False  # its driver tells neither its temperature nor its memory
    memory_percent: Optional[float] = None  # the share of the memory that is in use
    temperature_celsius: Optional[float] = None
    memory_temperature_celsius: Optional[float] = None
    power_watts: Optional[float] = None
    power_of: str = ""  # of a MIG instance: the GPU whose power, heat and clocks these are
    clock_sm_mhz: Optional[float] = None
    clock_memory_mhz: Optional[float] = None
    throttle_reasons: Optional[List[str]] = None
    processes: Optional[List[Process]] = None
    slow_time: Optional[Time] = None  # when the fields below were read
    energy_joules: Optional[float] = None
    fan_percent: Optional[float] = None
    pcie_tx_mb_per_second: Optional[float] = None
    pcie_rx_mb_per_second: Optional[float] = None
    ecc_corrected_total: Optional[int] = None
    ecc_uncorrected_total: Optional[int] = None
    process_utilization_percent: Dict[int, float] = _dict()  # by pid


class History(Answer):
    """Samples of a device, oldest first. It can be used like a list of them."""

    samples: List[Sample] = _list()
    covers_seconds: Optional[float] = None  # from the oldest to the newest

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.samples)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Sample:
        return self.samples[index]


class Slots(Answer):
    """How many pipelines a device runs and may run."""

    active: int = 0
    capacity: int = 0
    usable: int = 0  # how many may be in use now, by the state of the device


class Throttling(Answer):
    """What berth does by itself about a device that should run slower."""

    policy: str = ""  # advise, slots, pace or power
    share: Optional[float] = None  # of their speed, that leases are held to; None: none is held back
    paced_leases: int = 0
    power_limit_watts: Optional[float] = None  # None: berth set none
    power_original_watts: Optional[float] = None  # the limit that berth gives back
    power_steps: int = 0
    fan_percent: Optional[float] = None  # None: the driver sets it
    denied: str = ""  # why another daemon is in charge of the device


class Trust(Answer):
    """How far a device is trusted after something went wrong on it."""

    phase: str = ""  # quarantine or probation
    since: Optional[Time] = None
    until: Optional[Time] = None  # the earliest end of the phase
    why: str = ""
    slots_withheld: int = 0


class Drain(Answer):
    """Somebody takes a device out of use: leases there go on, and no new ones are
    granted."""

    by: str = ""  # who
    reason: str = ""  # why
    since: Optional[Time] = None
    until: Optional[Time] = None  # None: only undrain ends it


class ThresholdForecast(Answer):
    """When a device passes a threshold at its present power."""

    threshold: str = ""  # temp_normal, temp_throttle or temp_critical
    limit_celsius: float = 0.0
    seconds: Optional[float] = None  # 0: it has passed; None: not at this power
    soonest_seconds: Optional[float] = None
    latest_seconds: Optional[float] = None  # None: it may well never pass
    text: str = ""


class Outlook(Answer):
    """Where the temperature of a device goes if its power stays as it is."""

    power_watts: float = 0.0  # an average of the last seconds
    settles_celsius: float = 0.0  # where the temperature ends
    settles_low_celsius: float = 0.0  # it is in this interval nine times of ten
    settles_high_celsius: float = 0.0
    celsius_per_watt: float = 0.0  # what one more watt adds in the end
    thresholds: List[ThresholdForecast] = _list()


class Status(Answer):
    """One device as it stands."""

    device: Device = _new(Device)
    state: str = ""  # OPTIMAL, NORMAL, THROTTLED, CRITICAL or UNAVAILABLE
    since: Optional[Time] = None  # when it came into this state
    reason: str = ""  # why it is in this state
    state_cause: str = ""  # temperature, memory, fault, lost or silent; empty: it is OPTIMAL
    multiplier: float = 0.0  # the share of full speed at which work should run
    cause: str = ""  # what decides the multiplier: state or forecast
    slower: str = ""  # why the multiplier is lower than that of the state
    outlook: Optional[Outlook] = None  # where the temperature goes; None: not known
    health: str = ""  # healthy, unhealthy or unknown
    sample: Optional[Sample] = None  # the newest one
    stale: bool = False  # the sample is too old to say anything about now
    slots: Slots = _new(Slots)
    trust: Optional[Trust] = None  # None: it is trusted
    drain: Optional[Drain] = None  # None: it is not drained
    throttling: Optional[Throttling] = None


class GPUUtilization(Answer):
    """The slots of one device."""

    active: int = 0
    capacity: int = 0
    utilization_percent: float = 0.0


class Utilization(Answer):
    """The slots of all devices."""

    total_gpus: int = 0
    total_capacity: int = 0
    total_active: int = 0
    utilization_percent: float = 0.0
    per_gpu: Dict[str, GPUUtilization] = _dict()  # by UUID


class StatusAll(Answer):
    """Every device, and how much of the machine is in use."""

    host: str = ""
    version: str = ""  # of the daemon
    monitoring: bool = False  # whether the daemon samples
    note: str = ""
    gpus: List[Status] = _list()
    utilization: Utilization = _new(Utilization)


class Forecast(Answer):
    """One point of a forecast."""

    in_seconds: float = 0.0
    celsius: float = 0.0
    low_celsius: float = 0.0  # it is in this interval nine times of ten
    high_celsius: float = 0.0


class WithoutLease(Answer):
    """Where the temperature of a device would end without a lease."""

    lease: str = ""
    power_watts: float = 0.0  # what its processes draw, above what the device draws by itself
    settles_celsius: float = 0.0
    settles_low_celsius: float = 0.0  # with high: holds it nine times of ten
    settles_high_celsius: float = 0.0


class Trend(Answer):
    """What the temperature of a device has been doing."""

    gpu: str = ""
    minutes: float = 0.0  # the window that was asked for
    covers_seconds: Optional[float] = None  # from the oldest sample in it to the newest
    samples: int = 0  # how many lie in it
    min_celsius: Optional[float] = None
    max_celsius: Optional[float] = None
    average_celsius: Optional[float] = None
    slope_celsius_per_minute: Optional[float] = None
    direction: str = ""  # rising, falling, stable or unknown
    forecast: List[Forecast] = _list()  # empty: not known
    outlook: Optional[Outlook] = None  # where it goes at the present power; None: not known
    without: List[WithoutLease] = _list()  # where it would end without single leases


class Throttle(Answer):
    """How hard a device may be worked."""

    gpu: str = ""
    state: str = ""
    multiplier: float = 0.0  # the share of full speed
    cause: str = ""  # what decides the multiplier: state or forecast
    should_throttle: bool = False
    should_stop: bool = False  # too hot, or in quarantine: stop now
    until: Optional[Time] = None  # the earliest time that work may run faster
    reason: str = ""
    throttling: Optional[Throttling] = None  # what berth does about it by itself
    outlook: Optional[Outlook] = None  # where the temperature goes; None: not known


class Available(Answer):
    """What can be leased on a device, and the sum that leads to it."""

    gpu: str = ""
    available_mb: int = 0
    total_mb: int = 0
    limit_mb: int = 0
    reserve_mb: int = 0
    leased_mb: int = 0
    foreign_mb: int = 0  # used by processes under no lease
    state: str = ""
    health: str = ""
    reason: str = ""  # why nothing is available, if nothing is


class Holder(Answer):
    """Who has a lease."""

    service: str = ""
    name: str = ""
    user: str = ""
    uid: Optional[int] = None
    pid: int = 0


class Part(Answer):
    """What a lease holds on one device."""

    gpu: str = ""
    index: Optional[int] = None
    memory_mb: int = 0
    slots: int = 0
    measured_mb: Optional[int] = None  # what its processes really use


class Waiting(Answer):
    """A request in the queue."""

    id: str = ""
    position: int = 0  # 1 is next
    since: Optional[Time] = None
    deadline: Optional[Time] = None
    holder: Holder = _new(Holder)
    gpus: int = 0
    memory_mb: int = 0
    slots: int = 0
    priority: int = 0
    for_: str = ""  # resume or resize, of a lease that there is; empty: it is for a new one

    @property
    def user(self) -> str:
        """Whose request it is. Ids are per user."""
        return self.holder.user


class PacedBy(Answer):
    """Who holds a lease to a share."""

    share: float = 1.0
    source: str = ""  # owner, operator or throttle
    reason: str = ""


class Paced(Answer):
    """The share that a lease is held to, and what it really gets."""

    share: float = 1.0  # the least that somebody holds it to
    measured: Optional[float] = None  # of what it would get; None in the first seconds
    measured_by: str = ""  # driver, or duty if the driver does not measure it
    held_by: List[PacedBy] = _list()
    since: Optional[Time] = None
    refused: str = ""  # why its processes are not stopped; empty: they are


class By(Answer):
    """Who did something."""

    user: str = ""
    uid: Optional[int] = None
    token: str = ""
    door: str = ""  # socket, tcp or process


class Parking(Answer):
    """What became of the memory of a lease."""

    since: Optional[Time] = None  # when its present state began
    by: Optional[By] = None  # who asked for that; None: berth itself
    reason: str = ""
    host_mb: int = 0  # memory of the machine that it takes while it is parked
    returns: bool = False  # it waits in the queue to be resumed
    times: int = 0  # how often it was parked
    moving_seconds: float = 0.0  # how long moving its memory has taken in all
    unshared_by: str = ""  # how it is known that it shares no GPU memory: alone, owner
    failed: str = ""  # what went wrong last, and what to do


class Idle(Answer):
    """The evidence that the processes of a lease do not use their devices."""

    since: Optional[Time] = None
    utilization_percent: Optional[float] = None  # None: the driver does not measure it
    memory_mb: int = 0  # what they hold, unchanged since then


class Launch(Answer):
    """What a launcher needs to start a program under a lease."""

    context_mb: int = 0  # what a CUDA context takes of the lease
    environment: List[str] = _list()  # NAME=VALUE each
    receipt: str = ""  # what holds the program to its memory, in one sentence
    isolation: str = ""  # what keeps it from other GPUs: env or cgroup
    cleared_by: str = ""  # who clears the memory between two programs
    mps_pipe_directory: str = ""  # where the MPS daemon of the device listens, if MPS enforces the lease


class Allocation(Answer):
    """A lease as the daemon describes it."""

    id: str = ""
    fence: int = 0  # grows with every grant
    state: str = ""  # active, parking, parked, resuming, waiting or released
    holder: Holder = _new(Holder)
    binding: str = ""  # what ends it by itself: process, ttl or named
    granted: Optional[Time] = None  # None while it waits
    ttl_seconds: float = 0.0
    expires: Optional[Time] = None
    time_limit_seconds: float = 0.0  # 0: it has none
    ends: Optional[Time] = None  # when its time limit ends it
    parts: List[Part] = _list()
    priority: int = 0
    enforced_by: str = ""  # mps, framework, watchdog or none
    isolated_by: str = ""  # cgroup: the kernel refuses it other GPUs; empty: its environment asks
    energy_joules: Optional[float] = None  # above what the devices draw by themselves
    stood: bool = False  # it stood before the request, which asked for it again
    was_mb: int = 0  # its memory before the request resized it
    note: str = ""
    waiting: Optional[Waiting] = None
    paced: Optional[Paced] = None  # None: it runs freely
    parkable: bool = False  # berth may park it while others wait for its device
    unshared: bool = False  # its owner says that its processes share no GPU memory
    parking: Optional[Parking] = None  # None: it was never parked
    idle: Optional[Idle] = None  # None: its processes use their devices, or nobody looks
    asked_mb: int = 0  # its memory before an optimization shrank it; 0: none did
    launch: Optional[Launch] = None  # None: it was not asked for

    @property
    def user(self) -> str:
        """Whose lease it is. Ids are per user."""
        return self.holder.user

    @property
    def gpu(self) -> str:
        """UUID of the device, or of the first of several."""
        return self.parts[0].gpu if self.parts else ""

    @property
    def memory_mb(self) -> int:
        """The memory on each device."""
        return min((part.memory_mb for part in self.parts), default=0)


class DeviceLease(Answer):
    """What a lease holds on one device."""

    id: str = ""
    holder: Holder = _new(Holder)
    state: str = ""  # active, parking, parked or resuming
    memory_mb: int = 0
    measured_mb: int = 0  # what its processes were measured to use there
    slots: int = 0
    granted: Optional[Time] = None
    paced: Optional[Paced] = None  # None: it runs freely
    until: Optional[Time] = None  # when it ends at the latest, if that is known


class CheckStep(Answer):
    """One thing that a check tested."""

    name: str = ""  # memory, copy_to_device, copy_from_device, compute, clocks, link, errors or residue
    verdict: str = ""  # passed, failed or could_not_be_asked
    detail: str = ""  # what was found
    value: Optional[float] = None  # what was measured
    norm: Optional[float] = None  # what it should be
    unit: str = ""  # of both
    took_seconds: float = 0.0


class Check(Answer):
    """What came of checking a device."""

    gpu: str = ""
    index: int = 0
    kind: str = ""  # quick, long or residue
    verdict: str = ""  # passed, failed or could_not_be_asked
    reason: str = ""  # why, in one sentence
    steps: List[CheckStep] = _list()
    memory_mb: int = 0  # how much memory was tested or looked at
    total_mb: int = 0  # memory of the device
    left_bytes: int = 0  # residue: bytes that were not zero
    took_seconds: float = 0.0


class Acknowledgement(Answer):
    """Somebody takes care of an alert."""

    by: str = ""
    at: Optional[Time] = None
    until: Optional[Time] = None  # it ends before if the alert does
    comment: str = ""


class Alert(Answer):
    """An alert that is pending or fires."""

    fingerprint: str = ""
    alert: str = ""  # its name
    severity: str = ""  # warning or critical
    state: str = ""  # pending or firing
    labels: Dict[str, str] = _dict()
    annotations: Dict[str, str] = _dict()
    value: Optional[float] = None  # None: it is not a finite number
    since: Optional[Time] = None
    fired_at: Optional[Time] = None  # None: it is pending
    acknowledged: Optional[Acknowledgement] = None  # None: nobody did


class Alerts(Answer):
    """The alerts that are pending or fire."""

    alerts: List[Alert] = _list()  # the worst first
    note: str = ""  # why no rules are evaluated; empty: they are


class Drained(Answer):
    """A device after a drain began or ended."""

    gpu: str = ""
    index: int = 0
    changed: bool = False  # whether the call changed anything
    drain: Optional[Drain] = None  # None: it is not drained
    leases: List[DeviceLease] = _list()  # those that go on


class Leases(Answer):
    """Who holds what, and who waits."""

    leases: List[Allocation] = _list()
    waiting: List[Waiting] = _list()  # in the order in which they are served


class PastLease(Answer):
    """A lease that has ended."""

    id: str = ""
    fence: int = 0
    holder: Holder = _new(Holder)
    binding: str = ""  # process, ttl or named
    granted: Optional[Time] = None
    ended: Optional[Time] = None
    how: str = ""  # released, expired or revoked
    why: str = ""  # for its user and operators
    by: str = ""  # who ended it; empty: the daemon
    parts: List[Part] = _list()
    peak_mb: int = 0  # the most memory that was measured on one device
    energy_joules: Optional[float] = None  # above what the devices draw by themselves


class Ended(Answer):
    """A lease that was released, or a request that was withdrawn."""

    id: str = ""
    lease: Optional[Allocation] = None  # None for a request that waited


class Move(Answer):
    """A proposal to move a lease to another device, which makes room for a request
    that waits."""

    from_: str = ""  # UUID of the device that it is on
    to: str = ""  # UUID of the device that has room for it
    memory_mb: int = 0  # what would be moved
    for_: str = ""  # the waiting request that would fit then
    restarts: bool = False  # its program has to be started again


class RungStep(Answer):
    """What a rung did to one lease or process, or why it left it alone."""

    lease: str = ""
    user: str = ""
    pid: int = 0
    gpu: str = ""  # UUID
    text: str = ""  # one sentence for people
    before_mb: int = 0  # what was measured before; for shrink: what it had leased
    after_mb: int = 0  # the same, afterwards
    move: Optional[Move] = None


class Rung(Answer):
    """One way to get memory back."""

    name: str = ""  # dead, orphans, trim, shrink, park or move
    freed_mb: int = 0  # as measured; for shrink: how much more could be leased; 0 in a dry run
    took_seconds: float = 0.0
    done: List[RungStep] = _list()  # what was done, or would be in a dry run
    left: List[RungStep] = _list()  # what was left alone, and why


class Reclaimed(Answer):
    """What an optimization changed on one device."""

    gpu: str = ""
    used_before_mb: int = 0
    used_after_mb: int = 0
    available_before_mb: int = 0  # what could be leased
    available_after_mb: int = 0


class Optimization(Answer):
    """What an optimization did, rung by rung."""

    dry_run: bool = False
    service: str = ""
    began: Optional[Time] = None
    took_seconds: float = 0.0
    rungs: List[Rung] = _list()  # in the order in which they were tried
    devices: List[Reclaimed] = _list()

    @property
    def freed_mb(self) -> int:
        """How much less memory the devices have in use than before."""
        return sum(device.used_before_mb - device.used_after_mb for device in self.devices)


class InTheWay(Answer):
    """A lease that is in the way of a request."""

    lease: str = ""
    holder: Holder = _new(Holder)
    memory_mb: int = 0
    slots: int = 0
    until: Optional[Time] = None  # when it ends, if that is known


class Obstacle(Answer):
    """What is in the way of a request on one device."""

    gpu: str = ""
    code: str = ""
    text: str = ""
    holders: List[InTheWay] = _list()
    foreign_mb: int = 0
    foreign_pids: List[int] = _list()


class Ranked(Answer):
    """Where a device stands for a request, with the numbers that decide."""

    gpu: str = ""
    index: int = 0
    rank: int = 0  # 1 is taken first; 0: it does not fit
    why: str = ""  # why it does not fit, or why cooler devices come before it
    code: str = ""
    preferred: bool = False
    replicas: int = 0  # leases of the same service on the device
    active: int = 0
    usable: int = 0
    available_mb: int = 0
    state: str = ""
    recent_utilization_percent: Optional[float] = None  # average of the last minute
    recent_temperature_celsius: Optional[float] = None  # likewise
    settles_celsius: Optional[float] = None  # where the temperature ends with the request on it


class Explanation(Answer):
    """What becomes of a request, and why."""

    fits: bool = False  # it would be granted now
    possible: bool = False  # it could be granted if nobody else were there
    text: str = ""
    position: int = 0  # its place in the queue, if it waits
    devices: List[Obstacle] = _list()
    largest_now_mb: int = 0  # the most memory that would be granted now
    largest_ever_mb: int = 0
    behind: List[str] = _list()  # requests that are served first
    hint: str = ""
    policy: str = ""  # that chooses among the devices that fit
    ranking: List[Ranked] = _list()  # every device, the best first
    grant: Optional[Allocation] = None  # what it would get, if it fits


class Stray(Answer):
    """A process that uses a device under no lease."""

    gpu: str = ""
    pid: int = 0
    name: str = ""
    user: str = ""
    memory_mb: Optional[int] = None
    lease: str = ""  # the lease that it worked under until that ended
    pod: str = ""  # UID of the Kubernetes pod that it runs in


class Strays(Answer):
    """The processes that use devices under no lease."""

    orphans: List[Stray] = _list()  # their lease has ended
    foreign: List[Stray] = _list()  # they never had one


class Whoami(Answer):
    """Who the daemon takes the caller for."""

    user: str = ""  # login name, token:NAME or cert:NAME; unknown: it does not know the caller
    uid: Optional[int] = None
    role: str = ""  # scraper, viewer, user, operator or admin
    why: List[str] = _list()  # a sentence each; the first one decides
    door: str = ""  # socket, tcp or process
    token: str = ""  # its name
    service: str = ""  # the only service that the caller may act for; empty: any
    groups: List[str] = _list()  # those that the configuration has an entry for


class Measured(Answer):
    """What is known about the runs of a piece of work."""

    user: str = ""
    name: str = ""
    step: str = ""
    runs: int = 0
    last: Optional[Time] = None
    asked_mb: int = 0
    peak_mb: int = 0  # the most that one used on a device
    next_mb: int = 0  # what the next one gets unless it says
    seconds: float = 0.0  # how long one takes, on average
    drew_watts: Optional[float] = None  # on one device, on average while it worked, above what that draws by itself


class DeviceEnergy(Answer):
    """What a device used. Leases, others and idle add up to it."""

    gpu: str = ""
    index: int = 0
    name: str = ""
    since: Optional[Time] = None
    energy_joules: float = 0.0
    leases_joules: float = 0.0
    others_joules: float = 0.0  # processes under no lease
    idle_joules: float = 0.0  # what the device draws by itself
    idle_watts: float = 0.0
    source: str = ""  # counter: the driver counts; power: the daemon adds up power
    unmeasured_seconds: float = 0.0  # what was used then is missing


class EnergyUse(Answer):
    """What leases used for a user, a service and a program."""

    user: str = ""
    service: str = ""
    name: str = ""
    energy_joules: float = 0.0


class Energy(Answer):
    """How much energy devices used, and for whom."""

    price_per_kwh: Optional[float] = None
    currency: str = ""
    gpus: List[DeviceEnergy] = _list()
    used: List[EnergyUse] = _list()


class QuerySeries(Answer):
    """The values of one set of labels, the oldest first."""

    labels: Dict[str, str] = _dict()  # __name__ is the name of the metric
    times: List[float] = _list()  # seconds since 1970
    values: List[float] = _list()  # as many; may be NaN or infinite

    @property
    def value(self) -> float:
        """The last value."""
        return self.values[-1]


class QueryAnswer(Answer):
    """The answer to a question in PromQL."""

    type: str = ""  # vector: series with one value each; matrix: series over a time; scalar; string
    series: List[QuerySeries] = _list()
    value: Optional[float] = None  # of a scalar
    text: str = ""  # of a string
    warnings: List[str] = _list()
    infos: List[str] = _list()


class BatchGPU(Answer):
    """The part that one device has in a batch."""

    gpu: str = ""
    index: int = 0
    name: str = ""
    workers: int = 0
    ready: int = 0
    multiplier: float = 0.0
    batch: int = 0  # records in the last batch
    done: int = 0
    failed: int = 0
    retries: int = 0
    restarts: int = 0
    given_up: bool = False
    busy_seconds: float = 0.0
    records_per_second: Optional[float] = None


class Batch(Answer):
    """Where a batch stands, as its runner reported it."""

    id: str = ""
    output: str = ""
    command: str = ""
    stage: str = ""  # open, running, finishing, done, stopped or failed
    error: str = ""
    started: Optional[Time] = None
    reported: Optional[Time] = None
    user: str = ""
    pid: int = 0
    total: Optional[int] = None
    total_exact: bool = False
    done: int = 0
    done_before: int = 0
    failed: int = 0
    marked: int = 0
    retries: int = 0
    restarts: int = 0
    records_per_second: Optional[float] = None
    seconds_left: Optional[float] = None
    energy_joules: Optional[float] = None  # at its end
    workers: int = 0
    gpus: List[BatchGPU] = _list()


class Monitoring(Answer):
    """Whether the daemon samples."""

    running: bool = False
    interval_seconds: float = 0.0
    changed: bool = False  # whether the call changed anything


class Ready(Answer):
    """Whether the daemon can do its work."""

    ready: bool = False
    devices: int = 0
    text: str = ""


class GPUConfig(Answer):
    """The section ``gpu`` of the configuration as it is in force."""

    temp_optimal: float = 0.0
    temp_normal: float = 0.0
    temp_throttle: float = 0.0
    temp_critical: float = 0.0
    memory_optimal: float = 0.0
    memory_normal: float = 0.0
    memory_critical: float = 0.0
    throttle_cooldown_seconds: float = 0.0
    critical_pause_seconds: float = 0.0
    quarantine_seconds: float = 0.0
    probation_seconds: float = 0.0
    slot_return_seconds: float = 0.0
    memory_limit_mb: Optional[int] = None  # None: all of it
    memory_reserve_mb: int = 0
    max_pipelines: Optional[int] = None  # None: CPUs / devices, rounded up
    monitor_interval: float = 0.0
    history_size: int = 0
    over_limit: str = ""
    foreign: str = ""
    overheat: str = ""
    context_mb: int = 0
    mps: str = ""
    isolation: str = ""
    forecast: str = ""
    throttle: str = ""
    power_least_watts: Optional[float] = None  # None: the lowest that the driver takes
    fan_curve: str = ""  # "": the driver's own
    check: str = ""
    scrub: str = ""
    devices: Dict[str, Dict[str, Any]] = _dict()  # by UUID


class Setting(Answer):
    """One setting, and where its value comes from."""

    field: str = ""  # such as gpu.temp_optimal
    value: str = ""  # as it is written in berth.yaml
    unit: str = ""
    source: str = ""  # default, a line of a file, saved at run time, a variable or a flag
    doc: str = ""


class Service(Answer):
    """A service: what the configuration says about it, and what it holds."""

    name: str = ""
    settings: Dict[str, str] = _dict()  # such as max_memory_mb, as in berth.yaml
    leases: List[Allocation] = _list()
    waiting: List[Waiting] = _list()

    @property
    def memory_mb(self) -> int:
        """The memory that its leases hold, over all devices."""
        return sum(part.memory_mb for lease in self.leases for part in lease.parts)


class Event(Answer):
    """Something that happened. docs/reference/events.md lists the codes."""

    id: int = 0
    time: Optional[Time] = None
    code: str = ""
    severity: str = ""  # info, warning or critical
    gpu: str = ""  # UUID of the device it is about
    lease: str = ""  # id of the lease it is about
    user: str = ""
    by: Optional[By] = None  # None: the daemon did it by itself
    text: str = ""  # one sentence for people
    data: Dict[str, Any] = _dict()  # the numbers behind the sentence


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
