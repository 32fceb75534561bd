"""The answers of the daemon, as /openapi.json describes them.

Code generated from /openapi.json by make docs. DO NOT EDIT.
"""

# ruff: noqa: E501
from __future__ import annotations

from typing import Any, Dict, List, Optional

from .answer import Answer, Listed, OfLease, OfOptimization, OfStatus, OfUser, Several, Time, _dict, _list, _new


class Acknowledgement(Answer):
    """Acknowledgement says that somebody takes care of an alert."""

    by: str = ""  # Login name, or the name of a token.
    at: Optional[Time] = None
    until: Optional[Time] = None  # When it ends, unless the alert is resolved before.
    comment: str = ""


class Alert(Answer):
    """Alert is an alert that is pending or firing."""

    fingerprint: str = ""  # Identifies the alert by its labels, as in Alertmanager.
    alert: str = ""  # Name of the alert.
    severity: str = ""  # critical if the label severity says so, else warning.
    state: str = ""  # pending: what the rule asks for is true, and not for long enough. One of pending or firing.
    labels: Dict[str, str] = _dict()
    annotations: Dict[str, str] = _dict()
    value: Optional[float] = None  # What the expression of the rule says; absent: it is not a finite number.
    since: Optional[Time] = None  # Since when what the rule asks for is true.
    fired_at: Optional[Time] = None  # Since when it fires; absent: it is pending.
    acknowledged: Optional[Acknowledgement] = None  # Who takes care of it; absent: nobody has said so.


class Alerts(Several[Alert], Answer):
    """Alerts lists the alerts that are pending or firing."""

    alerts: List[Alert] = _list()  # Those that fire first, the critical ones before others, and then the newest.
    note: str = ""  # Why no rules are evaluated; absent: they are.


class Latency(Answer):
    """Latency counts records by how long they took."""

    bounds: List[float] = _list()  # Upper bounds of the buckets, in seconds.
    counts: List[int] = _list()  # One more than bounds: the last bucket has no upper bound.
    sum_seconds: float = 0.0


class BatchGPU(Answer):
    """BatchGPU is the progress of a batch on one device."""

    gpu: str = ""
    index: int = 0
    name: str = ""
    host: str = ""  # The machine that the device is in. Default: the machine of the runner.
    workers: int = 0  # Workers that have a place on the device.
    ready: int = 0  # How many of them take records.
    multiplier: float = 0.0
    batch: int = 0  # Records in the last batch.
    done: int = 0
    failed: int = 0
    retries: int = 0
    restarts: int = 0
    given_up: bool = False  # Workers kept failing on the device, so the runner starts no more there.
    busy_seconds: float = 0.0  # Sum of the time that its workers worked.
    records_per_second: Optional[float] = None
    latency: Latency = _new(Latency)  # How long the records took, each counted with the time of its batch.


class Batch(Answer):
    """Batch is the progress of a batch, as its runner reported it."""

    id: str = ""  # The runner chooses an id of printable characters for each run.
    output: str = ""  # The file that the batch writes, or the name of a batch that writes none.
    command: str = ""  # The command of its workers.
    stage: str = ""  # One of open, running, finishing, done, stopped or failed.
    error: str = ""  # Why the batch failed.
    started: Optional[Time] = None
    reported: Optional[Time] = None  # When the runner last reported. The daemon stops listing a batch whose runner reports nothing for ten seconds.
    user: str = ""  # The user of the runner, by the credentials of its connection.
    pid: int = 0  # The process of the runner.
    total: Optional[int] = None  # Records of the input; an estimate until the runner has read all of it.
    total_exact: bool = False
    done: int = 0  # Records with an outcome, including those of earlier runs.
    done_before: int = 0  # How many of done are of earlier runs.
    failed: int = 0  # Records whose outcome is an error, including those of earlier runs.
    marked: int = 0  # How many of failed broke their workers.
    retries: int = 0  # Records that the runner gave to a worker again.
    restarts: int = 0  # Workers that the runner started again.
    records_per_second: Optional[float] = None  # Over the last ten seconds.
    seconds_left: Optional[float] = None  # An estimate from the rate so far.
    energy_joules: Optional[float] = None  # How much energy its workers used in this run, above what the devices draw by themselves. Only at its end.
    workers: int = 0
    gpus: List[BatchGPU] = _list()  # The devices of the batch. The daemon keeps those of this machine, each once.


class CheckStep(Answer):
    """CheckStep is one thing that a check tested."""

    name: str = ""  # memory, copy_to_device, copy_from_device, compute, clocks, link, errors or residue.
    verdict: str = ""  # One of passed, failed or could_not_be_asked.
    detail: str = ""  # What was found.
    value: Optional[float] = None  # What was measured.
    norm: Optional[float] = None  # What it should be.
    unit: str = ""  # Unit of both.
    took_seconds: float = 0.0


class Check(Answer):
    """Check is the result of checking a device."""

    gpu: str = ""  # UUID of the device.
    index: int = 0
    kind: str = ""  # One of quick, long or residue.
    verdict: str = ""  # One of passed, failed or could_not_be_asked.
    reason: str = ""  # Why, in one sentence.
    steps: List[CheckStep] = _list()  # What was tested, in order.
    memory_mb: int = 0  # How much memory was tested or looked at: what is free and not leased.
    total_mb: int = 0  # Memory of the device.
    left_bytes: int = 0  # residue: bytes that were not zero.
    took_seconds: float = 0.0


class Setting(Answer):
    """Setting is one setting with its value and its source."""

    field: str = ""
    value: str = ""  # As written in berth.yaml; of a secret, only whether it is set.
    unit: str = ""
    source: str = ""  # Where it comes from: default, a line of a file, saved at run time, a variable or a flag.
    doc: str = ""


class Link(Answer):
    """Link is the best connection from a device to one other."""

    to: str = ""  # UUID of the other device.
    kind: str = ""
    lanes: int = 0  # NVLink: how many links there are side by side.


class Device(Answer):
    """Device describes one GPU: the facts that do not change from one sample to the
    next."""

    uuid: str = ""  # What the device is known by, everywhere and for ever.
    index: int = 0  # Its position on this machine today. For people only: it may change at the next boot.
    name: str = ""
    vendor: str = ""
    backend: str = ""  # The part of berth that talks to it: nvml, amd, intel or sim.
    driver: str = ""  # Version of the driver.
    ordinal: Optional[int] = None  # Its number as the vendor's runtime counts GPUs, for variables that take no UUID. AMD and Intel only.
    pci_bus_id: str = ""
    path: str = ""  # Device file, for finding processes that hold it open.
    compute_capability: str = ""
    memory_total_mb: int = 0
    numa_node: Optional[int] = None
    confidential: str = ""  # Whether the driver runs the GPU in confidential mode, in which nobody outside of its virtual machine reads its memory; devtools: on, with debugging and profiling open, which lets others in. Absent if the driver does not say. One of on, devtools or off.
    power_limit_watts: Optional[float] = None  # The power cap in force.
    temp_slowdown_celsius: Optional[float] = None  # Where the hardware slows itself down.
    temp_max_celsius: Optional[float] = None  # The vendor's highest operating temperature.
    temp_shutdown_celsius: Optional[float] = None  # Where the hardware switches itself off.
    links: List[Link] = _list()  # How it reaches the other devices of this machine, best first.
    parent: str = ""  # For a MIG instance: the UUID of the device it is part of.
    instances: List[str] = _list()  # For a device in MIG mode: the UUIDs of its instances. They are leased in its place.


class Available(Answer):
    """Available has the terms that decide how much of a device can be leased: limit −
    reserve − leased − foreign, and nothing while the device is CRITICAL or UNAVAILABLE."""

    gpu: str = ""
    available_mb: int = 0
    total_mb: int = 0
    limit_mb: int = 0  # memory_limit_mb, or all memory of the device.
    reserve_mb: int = 0  # memory_reserve_mb.
    leased_mb: int = 0  # Sum over all leases of the larger of leased and measured memory.
    foreign_mb: int = 0  # Memory that processes under no lease, and the driver itself, were measured to use.
    state: str = ""
    health: str = ""
    reason: str = ""  # Why nothing is available, if nothing is.


class Drain(Answer):
    """Drain says that somebody takes a device out of use: leases there go on, and the
    daemon grants no new ones."""

    by: str = ""  # Who drains it.
    reason: str = ""  # Why, in the words of whoever drains it.
    since: Optional[Time] = None
    until: Optional[Time] = None  # When the drain ends by itself; absent: only undrain ends it.


class Holder(Answer):
    """Holder is the user, the service and the process that have a lease. User and UID
    come from the credentials of the connection, never from what a caller says."""

    service: str = ""
    name: str = ""
    user: str = ""
    uid: Optional[int] = None
    pid: int = 0


class By(Answer):
    """By says who did something. The zero value is the daemon itself."""

    user: str = ""  # Login name; token for one who showed a token.
    uid: Optional[int] = None  # Absent: the kernel did not say.
    token: str = ""  # Name of the token that was shown.
    door: str = ""  # The way it was asked for: over the Unix socket, over TCP, or within the process of the daemon. One of socket, tcp or process.
    agent: str = ""  # The program that asked in the name of the user, as it calls itself.


class PacedBy(Answer):
    """PacedBy is one party that holds a lease to a share."""

    share: float = 0.0
    source: str = ""  # owner: whoever owns the lease. operator: an operator. throttle: berth itself, because of gpu.throttle. service: berth itself, because of the compute of its service.
    by: Optional[By] = None  # Who asked for it. Absent: berth itself.
    reason: str = ""


class Paced(Answer):
    """Paced says what share a lease is held to, and what it really gets."""

    share: float = 0.0  # The least of the shares that somebody holds it to.
    measured: Optional[float] = None  # What it gets of what it would get without pauses; absent in the first seconds.
    measured_by: str = ""  # driver: the driver measures how much of its time the device works for each process. duty: it does not, and measured is the share of the time that the processes run.
    held_by: List[PacedBy] = _list()  # Who holds it to a share, the least share first.
    since: Optional[Time] = None
    refused: str = ""  # Why its processes are not stopped, so that it runs freely; absent: they are.


class DeviceLease(Answer):
    """DeviceLease is the part of a lease on one device."""

    id: str = ""
    holder: Holder = _new(Holder)
    state: str = ""  # parking, parked, resuming: its memory is on its way to the memory of the machine, is there, or is on its way back. One of active, parking, parked or resuming.
    memory_mb: int = 0
    measured_mb: int = 0  # How much memory its processes were measured to use on the device; 0 until the daemon has seen them.
    slots: int = 0
    granted: Optional[Time] = None
    paced: Optional[Paced] = None  # The share that the lease is held to; absent: it runs freely.
    until: Optional[Time] = None  # When the lease ends at the latest, if somebody chose that.
    host_mb: int = 0  # Memory of the machine that it takes while it is parked.


class Drained(Answer):
    """Drained is a device after a drain began or ended."""

    gpu: str = ""  # UUID of the device.
    index: int = 0
    changed: bool = False  # Whether the call changed anything.
    drain: Optional[Drain] = None  # The drain; absent if the device is not drained.
    leases: List[DeviceLease] = _list()  # The leases on the device, which go on, largest first.


class Part(Answer):
    """Part is the part of a lease on one device."""

    gpu: str = ""
    index: Optional[int] = None  # Index of the device, for people; only in the answer of /api/gpu/memory/allocate.
    memory_mb: int = 0
    slots: int = 0
    measured_mb: Optional[int] = None  # How much memory its processes really use there; absent until the daemon has seen them.


class Estimate(Answer):
    """Estimate says when a request that waits will probably be granted."""

    likely: Optional[Time] = None  # As likely earlier as later, if nobody comes who goes first.
    late: Optional[Time] = None  # Nine times of ten it is earlier, if users go on asking for what they hold now. Absent if others might always go first then.
    unknown: str = ""  # Why that is not known.
    latest: Optional[Time] = None  # With unknown: when the time limits of all that is in the way have ended it, if it has some. That may be far later than it really begins.
    passable: bool = False  # With latest: somebody who asks later may go first, because of a smaller share or a priority. So it may begin later than latest.


class Waiting(OfUser, Answer):
    """Waiting is a request in the queue."""

    id: str = ""
    position: int = 0  # 1 is next.
    since: Optional[Time] = None
    deadline: Optional[Time] = None
    holder: Holder = _new(Holder)
    gpus: int = 0
    memory_mb: int = 0
    slots: int = 0
    priority: int = 0
    exclusive: bool = False  # It waits for devices that it has alone; memory_mb is then the most that it gets.
    for_: str = ""  # The request is for a lease that there is: to resume it, or to make it larger. Absent: for a new one. One of resume or resize.
    limit: str = ""  # It waits for this limit, however much room there is: that of its user, of a group together, or the quota of its service. Absent: it waits for a GPU, or for its turn.
    estimate: Optional[Estimate] = None  # When it will probably be granted. Absent: the queue is too long to look ahead.


class Ancestor(Answer):
    """Ancestor is a process between the holder of a lease and a process on a device."""

    pid: int = 0
    name: str = ""


class Belonging(Answer):
    """Belonging is a process on a device that belongs to a lease."""

    gpu: str = ""  # UUID of the device.
    pid: int = 0  # 0 for a process of another user, unless an operator asks.
    name: str = ""
    memory_mb: int = 0  # What it uses there. If it is charged to several leases, each of them lists it.
    evidence: str = ""  # Why it belongs to the lease: it is in the scope; it holds the lease or descends from the holder; it has the id and the fence in its environment; it runs in the unit; it is as services.NAME.match says; it runs as the user of the lease and is called like it. One of scope, descent, environment, unit, service or program.
    ancestors: List[Ancestor] = _list()  # Its ancestors up to the process that holds the lease, the nearest first. Only in the answer that looks one lease up, and absent if it does not descend from the holder.


class Launch(Answer):
    """Launch has everything besides the lease that a launcher needs to make the environment
    of a program."""

    context_mb: int = 0  # How much memory of the lease a CUDA context takes.
    devices: List[Device] = _list()  # The devices of the parts of the lease, in the same order.
    compute_percent: int = 0  # Share of the multiprocessors that the service of the lease has, if MPS enforces the lease; 0: all.
    mps_pipe_directory: str = ""  # The directory in which the MPS daemon of the device listens, if MPS enforces the lease.
    isolation: str = ""  # What keeps the program from other GPUs. For cgroup and a lease with a parent, the launcher has to say so when it binds the lease. One of env or cgroup.
    environment: List[str] = _list()  # The environment of a program under the lease, each variable as NAME=VALUE: which devices it sees, which lease it has, and what holds the libraries of caps to its memory. In the answer to a request with caps, and to launch=true.
    receipt: str = ""  # What holds the program to its memory, in one sentence. Present with environment.
    cleared_by: str = ""  # Who clears the memory of the devices between two programs, and when that was checked; not checked: nobody looked.


class CancelledBy(Answer):
    """CancelledBy says who cancelled a lease."""

    by: Optional[By] = None  # Absent: berth itself.
    reason: str = ""


class Parking(Answer):
    """Parking says how and why the memory of a lease was parked or resumed."""

    since: Optional[Time] = None  # When its present state began: parking, parked, resuming, or active again.
    by: Optional[By] = None  # Who asked for that. Absent: berth itself.
    reason: str = ""
    host_mb: int = 0  # Memory of the machine that it takes while it is parked.
    returns: bool = False  # It waits in the queue to be resumed. Absent for a parked lease: it stays parked until somebody resumes it.
    times: int = 0  # How often it was parked.
    moving_seconds: float = 0.0  # How long moving its memory has taken in all.
    unshared_by: str = ""  # How it was known, when it was last parked, that its processes share no GPU memory. alone: one process used the device; owner: its owner or its service says so.
    failed: str = ""  # What went wrong last, and what to do.


class Idle(Answer):
    """Idle is the evidence that the processes of a lease do not use their devices."""

    since: Optional[Time] = None
    utilization_percent: Optional[float] = None  # What its processes had of their devices since then; absent: the driver does not measure it, and the lease never counts as idle.
    memory_mb: int = 0  # What they hold, unchanged since then.


class Pool(Answer):
    """Pool says what became of the memory of a pool."""

    taken_mb: int = 0  # Memory of the leases that took theirs from the pool.
    left_mb: int = 0  # Memory that another one can have.
    leases: int = 0  # How many there are.


class LibraryMemory(Answer):
    """LibraryMemory is the memory that a library has on the devices of a lease, as the program
    says."""

    name: str = ""
    allocated_mb: int = 0  # Memory that arrays of the program take.
    cached_mb: int = 0  # Memory that the library keeps for later, and that a trim gives back.


class LibraryReport(Answer):
    """LibraryReport is what the programs of a lease say that their libraries hold, summed up."""

    time: Optional[Time] = None  # When the newest of them said it.
    libraries: List[LibraryMemory] = _list()


class Allocation(OfLease, Answer):
    """Allocation is a claim to slots and memory on one or more devices."""

    id: str = ""
    fence: int = 0  # Grows with every grant. The daemon refuses renewals and releases with an old fence.
    state: str = ""  # parking, parked, resuming: its memory is on its way to the memory of the machine, is there, or is on its way back. waiting: a request that holds nothing yet. released: a lease that has just ended. One of active, parking, parked, resuming, waiting or released.
    parent: str = ""  # The id of the lease that this one was made a child of.
    holder: Holder = _new(Holder)
    binding: str = ""  # One of process, ttl or named.
    granted: Optional[Time] = None  # Absent while the request waits.
    ttl_seconds: float = 0.0
    expires: Optional[Time] = None
    time_limit_seconds: float = 0.0  # How long the lease lasts at most, from its grant on. Absent: for ever.
    ends: Optional[Time] = None  # When the time limit ends the lease, with its processes. Absent: it has none.
    time_limit_unchosen: bool = False  # Nobody chose the time limit for this lease: it is longest_time_seconds of its user. So it says when the lease ends at the latest, and nothing of when it probably does.
    parts: List[Part] = _list()  # What the lease holds on each device.
    priority: int = 0
    enforced_by: str = ""  # What enforces the memory limit. One of mps, framework, watchdog or none.
    stood: bool = False  # The lease is older than this request, which found it by again, or by its id and its parts.
    was_mb: int = 0  # Memory on each device before this request resized the lease.
    note: str = ""  # What the holder should know, for example that the daemon raised the request to the minimum of its service.
    waiting: Optional[Waiting] = None  # The place in the queue, while the request waits.
    heir_pid: int = 0  # The process of the lease has ended, and this descendant of it keeps the lease because it uses a device.
    unit: str = ""  # Systemd unit or container whose processes belong to it.
    scope: List[str] = _list()  # Control groups whose processes belong to it, and no others.
    processes: List[Belonging] = _list()  # The processes that were last seen on its devices, and why they belong to it; only in the answers that list leases or look one up.
    launch: Optional[Launch] = None  # What else a launcher needs to know; only in the answer to a request with enforce.
    paced: Optional[Paced] = None  # The share that the lease is held to; absent: it runs freely. Only in the answers that list leases or look one up, and in that of pace.
    energy_joules: Optional[float] = None  # How much energy its processes have used, above what the devices draw by themselves. Absent until the daemon has measured it; only in the answers that list leases, look one up or end one.
    cancelled: Optional[Time] = None  # Since when its programs are being ended, and the lease with them, because somebody cancelled it.
    cancelled_by: Optional[CancelledBy] = None  # Who cancelled it, and why.
    parkable: bool = False  # berth may park the lease while others wait for its device.
    unshared: bool = False  # Its owner says that its processes share no GPU memory.
    optimize: List[str] = _list()  # What berth may do to a lease with a scope, to win memory back.
    parking: Optional[Parking] = None  # What became of its memory on the device, if the lease was ever parked; only in the answers that list leases or look one up, and in those of park and resume.
    idle: Optional[Idle] = None  # Since when its processes have not used their devices, and how that is known. Absent: they do, or nobody looks. Only in the answers that list leases or look one up.
    asked_mb: int = 0  # Memory on each device that it had before an optimization shrank it. Absent: it was not shrunk.
    comment: str = ""  # The note that its holder gave with the request. Only the holder and operators see it.
    exclusive: bool = False  # It has its devices alone: nobody else gets a lease there until it ends.
    pool: Optional[Pool] = None  # The lease is a pool, and this is what became of its memory.
    from_pool: str = ""  # The pool that its memory is from.
    libraries: Optional[LibraryReport] = None  # What its programs say that their libraries hold. Absent: none has said anything. Only in the answers that list leases or look one up.
    isolated_by: str = ""  # cgroup: its process can open only the leased GPUs. Absent: nothing but its environment keeps it from the others.


class Ended(Answer):
    """Ended says what was released, withdrawn or cancelled."""

    id: str = ""
    lease: Optional[Allocation] = None  # The lease as it was at its end; for a cancel, the lease that ends now, which is that of the runner for a lease of a batch. Absent for a request that waited.


class DeviceEnergy(Answer):
    """DeviceEnergy says how much energy a device used. Leases, others and idle add up to the
    total."""

    gpu: str = ""  # UUID of the device.
    index: int = 0
    name: str = ""
    since: Optional[Time] = None  # When the daemon first measured it. Restarts do not count.
    energy_joules: float = 0.0
    leases_joules: float = 0.0  # What processes under leases used, above what the device draws by itself.
    others_joules: float = 0.0  # What processes under no lease used, and what cannot be put down to a lease any more.
    idle_joules: float = 0.0  # What the device draws by itself, also while it works.
    idle_watts: float = 0.0  # What the device draws by itself, as far as the daemon has learned; 0: it has not.
    source: str = ""  # counter: the driver counts. power: the daemon adds up the power of its samples.
    unmeasured_seconds: float = 0.0  # How much of the time since then nobody measured. What was used then is missing.


class EnergyUse(Answer):
    """EnergyUse says how much energy leases used for a user, a service and a program."""

    user: str = ""  # Absent: users for whom there was no account of their own.
    service: str = ""
    name: str = ""  # What the leases were called; only for their user and operators.
    energy_joules: float = 0.0


class Energy(Answer):
    """Energy says how much energy devices used, and for whom."""

    price_per_kwh: Optional[float] = None  # What a kilowatt-hour costs, as energy.price_per_kwh says. Absent: it is not set.
    currency: str = ""  # The currency of the price.
    gpus: List[DeviceEnergy] = _list()  # Every device of which something was measured, by index.
    used: List[EnergyUse] = _list()  # For whom leases used energy, those that have ended included; the most first.


class InTheWay(Answer):
    """InTheWay is a lease that is in the way, with its end if that is known."""

    lease: str = ""
    holder: Holder = _new(Holder)
    memory_mb: int = 0
    slots: int = 0
    until: Optional[Time] = None
    unused: str = ""  # How it does not use what it holds, in words.
    parkable: bool = False  # berth may park the lease to make room.
    kept: str = ""  # Why berth does not park it now, although it is parkable.


class Obstacle(Answer):
    """Obstacle says what is in the way of a request on one device."""

    gpu: str = ""
    code: str = ""
    also: List[str] = _list()  # The codes of further reasons, if there are several.
    text: str = ""
    holders: List[InTheWay] = _list()  # The leases on the device.
    foreign_mb: int = 0  # How much memory of the device processes under no lease use, if that is in the way.
    foreign_pids: List[int] = _list()  # Those processes.


class Ranked(Answer):
    """Ranked says how a device ranks for a request, with the numbers that decide."""

    gpu: str = ""
    index: int = 0
    rank: int = 0  # 1 is taken first; absent: the device does not fit.
    why: str = ""  # Why it does not fit, or why cooler devices come before it.
    code: str = ""  # The kind of that reason, as in devices.
    preferred: bool = False  # The request or its service prefers the device.
    replicas: int = 0  # Leases of the same service that are on the device.
    active: int = 0  # Slots in use.
    usable: int = 0  # Slots that may be in use in its present state.
    available_mb: int = 0  # What can be leased now; negative if more is used than there should be.
    state: str = ""
    recent_utilization_percent: Optional[float] = None  # Average of the last minute, in which newer samples weigh more; policies compare it in steps of 10. Absent: not measured.
    recent_temperature_celsius: Optional[float] = None  # Average likewise; policies compare it in steps of 5 from 50 on. Absent: not measured.
    settles_celsius: Optional[float] = None  # Where the temperature ends with the request on the device, by the power that its program drew before, or at the present power if that is not known. Absent: not known.


class Explanation(Answer):
    """Explanation says whether a request would be granted, and what is in its way."""

    fits: bool = False  # Whether the request would be granted now.
    possible: bool = False  # Whether the request would be granted if nobody else used this machine.
    text: str = ""  # The explanation in a sentence or two.
    position: int = 0  # The position of the request in the queue, if it waits.
    devices: List[Obstacle] = _list()  # What is in the way, each device once.
    largest_now_mb: int = 0  # The most memory that would be granted now.
    largest_ever_mb: int = 0  # The most memory that would be granted if nobody else used this machine.
    behind: List[str] = _list()  # The requests ahead of it in the queue.
    hint: str = ""  # What to do.
    limit: str = ""  # It waits, or would wait, for this limit, however much room there is: that of its user, of a group together, or the quota of its service.
    estimate: Optional[Estimate] = None  # When the request will probably be granted, if it waits or would wait.
    policy: str = ""  # The policy that chooses among the devices that fit.
    ranking: List[Ranked] = _list()  # Every device: those that fit in the order in which they would be taken, then the others. A request for several devices gets those with the best links, among equals the first.
    grant: Optional[Allocation] = None  # If the request fits: the lease that it would get. Nobody holds this lease.


class OptimizationConfig(Answer):
    """OptimizationConfig is the section optimization."""

    interval: Optional[float] = None  # Seconds from one optimization by berth itself to the next.
    memory_threshold: Optional[float] = None  # Share of a device's memory above which berth wins memory back by itself.
    allocation_timeout: Optional[float] = None  # How many seconds a request waits unless it says otherwise.
    deallocation_timeout: Optional[float] = None  # How many seconds the processes of a lease may take to end before berth kills them.
    orphans: str = ""  # What an optimization does with processes that go on using a device after their lease has ended. One of name or end.
    trim_timeout: Optional[float] = None  # How many seconds an optimization waits for programs to give memory back.
    park_idle_after: Optional[float] = None  # How many seconds a lease must not have used its device until it counts as idle.
    park_grace_seconds: Optional[float] = None  # How many seconds before it parks a lease by itself berth tells the holder.
    keep_seconds: Optional[float] = None  # How many seconds a lease keeps its devices at least before berth parks it by itself.
    time_slice_seconds: Optional[float] = None  # How many seconds a lease that may be parked keeps its devices while others wait for them.
    longest_wait: Optional[float] = None  # How many seconds others wait at most for a lease that is idle or has kept its devices for keep_seconds; null: no limit, and for a service whose program berth runs 4 times what it takes to leave and to come back, at most 10.
    park_host_mb: Optional[int] = None  # Most memory of the machine that parked leases take together; null: half of it.
    huge_pages: str = ""  # Whether berth sets the transparent huge pages of the kernel to always while it parks and resumes leases. One of leave or while_moving.


class QuotaConfig(Answer):
    """QuotaConfig limits all leases of a service together."""

    memory_mb: Optional[int] = None  # Memory over all devices.
    slots: Optional[int] = None  # Slots over all devices.


class MatchConfig(Answer):
    """MatchConfig describes the processes of a service."""

    unit: str = ""  # Systemd unit, or id of the container, that they run in.
    cgroup: str = ""  # Path of the control group that they are in, or of one around it.
    program: str = ""  # Name of the program, or of its script.
    user: str = ""  # User that they run as.


class ReadyConfig(Answer):
    """ReadyConfig says how a server shows that it takes requests."""

    path: str = ""  # It answers GET of this path with 200.
    tcp: str = ""  # It accepts connections. One of true or false.
    log: str = ""  # A line of its log has this text.


class CallConfig(Answer):
    """CallConfig is a request to the server of a service."""

    method: str = ""  # One of GET, POST, PUT, PATCH or DELETE.
    path: str = ""
    body: str = ""


class ServiceConfig(Answer):
    """ServiceConfig has the settings of one service."""

    min_memory_mb: Optional[int] = None  # Least memory of a request. berth raises a request for less.
    max_memory_mb: Optional[int] = None  # Most memory of a request. berth refuses a request for more.
    preferred_device: Any = None  # Index or UUID of the device that berth tries first.
    affinity: str = ""  # Where berth puts a lease of the service that has others: on a device with fewer of them, or beside them. One of apart or together.
    priority: Optional[int] = None  # Priority among requests that wait. The highest goes first.
    quota: QuotaConfig = _new(QuotaConfig)  # What all leases of the service may hold together.
    users: List[str] = _list()  # Users who may ask in the name of the service, and send it requests. Default: everybody.
    namespaces: List[str] = _list()  # Namespaces of a Kubernetes cluster whose claims may name the service. Default: none.
    over_limit: str = ""  # What berth does about a lease of the service that uses more memory than it holds. Default: that of gpu. One of warn, stop or revoke.
    throttle: str = ""  # What berth does by itself about leases of the service on a device that should run slower. Default: that of the device. One of exempt, advise, slots, pace or power.
    compute: Optional[float] = None  # Share of its devices that a lease of the service may compute on, in percent. Default: no limit.
    parkable: str = ""  # Whether berth may park leases of the service. unshared: yes, and their processes share no GPU memory. Default: as their requests say. One of true, false or unshared.
    shrinkable: str = ""  # Whether an optimization may shrink leases of the service to what they used at most. Default: false. One of true or false.
    keep_seconds: Optional[float] = None  # How many seconds a lease of the service keeps its devices at least. Default: that of optimization.
    longest_wait: Optional[float] = None  # How many seconds others wait at most for a lease of the service. Default: that of optimization.
    time_slice_seconds: Optional[float] = None  # How many seconds a lease of the service keeps its devices while others wait for them. Default: that of optimization.
    keep: str = ""  # Whether berth never parks leases of the service, nor sends its program away, by itself. Default: false. One of true or false.
    match: MatchConfig = _new(MatchConfig)  # Which processes belong to the leases of the service that no process holds.
    command: List[str] = _list()  # Program, and its arguments, that berth runs for the service; in a change also one text. ${PORT} in it is the port. Default: berth runs none.
    user: str = ""  # User that the program runs as.
    directory: str = ""  # Folder that the program runs in. Default: the home of the user.
    env: Dict[str, str] = _dict()  # Variables of the program. No answer has them.
    port: Optional[int] = None  # Port that the server listens on. Default: one that is free.
    ready: ReadyConfig = _new(ReadyConfig)  # How the server shows that it takes requests.
    memory: Optional[int] = None  # Memory that the program gets on each of its devices, in MiB. Default: learned.
    gpus: Optional[int] = None  # How many devices the program gets. Default: 1.
    start: str = ""  # When berth starts the program. Default: on_demand. One of on_demand, always or never.
    start_timeout: Optional[float] = None  # How many seconds the program may take until it is ready. Default: 600.
    restart: str = ""  # Whether berth starts the program again after it has ended, with start: always. Default: true. One of true or false.
    idle_after: Optional[float] = None  # How many seconds after its last answer berth sends the service away. Default: only if others need the room.
    away: str = ""  # How berth sends the service away. Default: auto. One of auto, park, sleep or stop.
    sleep: List[CallConfig] = _list()  # Requests that make the server give up its GPU memory.
    wake: List[CallConfig] = _list()  # Requests that make the server take its GPU memory again.
    default: str = ""  # Whether the service comes back when nobody asks for another one. Default: false. One of true or false.
    models: List[str] = _list()  # Names of models in requests that mean this service; * stands for any characters.
    hosts: List[str] = _list()  # Names of hosts in requests that mean this service.
    ignore: List[str] = _list()  # Paths whose requests neither bring the service nor keep it; * stands for any characters.
    max_open: Optional[int] = None  # How many requests may be open or wait at a time.


class FrontConfig(Answer):
    """FrontConfig is the section front."""

    listen: str = ""  # TCP address that the front takes requests for services on. Default: none.
    tls_cert: str = ""  # File with the certificate that the front shows.
    tls_key: str = ""  # File with the private key of tls_cert.
    user: str = ""  # User that the front runs as.


class QueueConfig(Answer):
    """QueueConfig is the section queue."""

    unknown: str = ""  # Whether later requests pass one whose start nobody knows. One of pass or hold.


class EnergyConfig(Answer):
    """EnergyConfig is the section energy."""

    price_per_kwh: Optional[float] = None  # Price of a kilowatt-hour; null: costs are not shown.
    currency: str = ""  # Currency of that price.


class AuditConfig(Answer):
    """AuditConfig is the section audit."""

    max_mb: Optional[int] = None  # Size at which berth begins another file of the audit log.
    files: Optional[int] = None  # How many files of the audit log berth keeps. It removes the oldest.


class PastConfig(Answer):
    """PastConfig is the section past."""

    store: str = ""  # Whether berth remembers what it measured. One of on or off.
    recent: Optional[float] = None  # How many seconds berth keeps every sample.
    long: Optional[float] = None  # How many seconds berth keeps the average, the least and the most of each half-minute.
    size_mb: Optional[int] = None  # Most space on disk that the past takes.


class AlertsConfig(Answer):
    """AlertsConfig is the section alerts."""

    evaluate: str = ""  # Whether berth evaluates alert rules itself. One of on or off.
    interval: Optional[float] = None  # Seconds from one evaluation to the next, for rule groups that do not say.
    shipped: str = ""  # Whether the rules that come with berth are evaluated. One of on or off.
    rules: List[str] = _list()  # Files with further rules, in the format of Prometheus; null: none.


class MetricsConfig(Answer):
    """MetricsConfig is the section metrics."""

    compat: str = ""  # dcgm: show the devices also under the names of dcgm-exporter. One of off or dcgm.


class GPUConfig(Answer):
    """GPUConfig is the part of the configuration in force that can change at run
    time: the settings of the gpu section, and beside them the other sections. It
    leaves hooks out, because they hold secrets.
    
    PUT /api/gpu/config takes any part of it, and hooks. In JSON, absent fields stay as
    they are, and null resets a field to what the weaker sources say."""

    temp_optimal: float = 0.0  # Temperature below which a device is OPTIMAL.
    temp_normal: float = 0.0  # Temperature below which a device is NORMAL.
    temp_throttle: float = 0.0  # Temperature up to which a device is THROTTLED; above it the device is CRITICAL.
    temp_critical: float = 0.0  # Temperature above which berth grants nothing and tells holders to stop now.
    memory_optimal: float = 0.0  # Share of memory in use below which a device is OPTIMAL.
    memory_normal: float = 0.0  # Share of memory in use below which a device is NORMAL.
    memory_critical: float = 0.0  # Share of memory in use up to which a device is THROTTLED; above it the device is CRITICAL.
    throttle_cooldown_seconds: float = 0.0  # How long the readings of a device must be better before it enters a better state.
    critical_pause_seconds: float = 0.0  # How long the readings of a device must be better before it leaves CRITICAL.
    recover: str = ""  # How a device gets from THROTTLED to OPTIMAL: with NORMAL in between, or in one step. One of steps or direct.
    quarantine_seconds: float = 0.0  # How long berth grants nothing on a device after a fault of its own.
    probation_seconds: float = 0.0  # How long a device has half its slots after its quarantine.
    slot_return_seconds: float = 0.0  # How long memory must not run out before a device gets back a slot that it lost because its memory ran out.
    memory_limit_mb: Optional[int] = None  # How much of a device's memory berth may lease; null: all of it.
    memory_reserve_mb: int = 0  # How much of that memory berth never leases.
    max_pipelines: Optional[int] = None  # Slots of a device; null: CPUs / devices, rounded up.
    extra_slots: int = 0  # How many slots a device gets beyond max_pipelines while its slots are taken and it computes less than half of the time.
    monitor_interval: float = 0.0  # Seconds from one sample to the next.
    history_size: int = 0  # How many samples of each device berth keeps, and never less than ten minutes.
    over_limit: str = ""  # What berth does about a lease whose processes use more memory than it holds. One of warn, stop or revoke.
    foreign: str = ""  # What berth does about processes that use a GPU under no lease. One of show, kill_orphans or kill.
    overheat: str = ""  # What berth does about leases on a device above temp_critical. One of tell or revoke.
    context_mb: int = 0  # How much memory of a lease a CUDA context takes.
    mps: str = ""  # Whether the driver enforces leases of memory, through MPS. One of off or on.
    isolation: str = ""  # What keeps programs that berth starts from GPUs they have not leased. One of env or cgroup.
    plain: str = ""  # What a program gets that berth starts without saying how much: a GPU alone, or one slot. One of whole or slot.
    forecast: str = ""  # Whether berth slows work down before a temperature crosses a threshold. One of on or off.
    throttle: str = ""  # What berth does by itself about a device that should run slower. One of advise, slots, pace or power.
    power_least_watts: Optional[float] = None  # Lowest power limit that berth sets; null: the lowest that the driver takes.
    fan_curve: str = ""  # Fan speed by temperature; empty: the driver's own.
    check: str = ""  # Whether a device has to pass berth check before it leaves its quarantine. One of on or off.
    scrub: str = ""  # Whether berth overwrites the free memory of a device before another user gets it. One of off or on.
    devices: Dict[str, Dict[str, Any]] = _dict()  # Settings that differ for single devices, by UUID.
    optimization: OptimizationConfig = _new(OptimizationConfig)  # The section optimization.
    unknown_services: str = ""  # What berth does with a request for a service that is not under services. One of serve or refuse.
    jobs: str = ""  # Whether berth runs programs for users who submit them. One of on or off.
    services: Dict[str, ServiceConfig] = _dict()  # The section services, by name.
    front: FrontConfig = _new(FrontConfig)  # The section front.
    queue: QueueConfig = _new(QueueConfig)  # The section queue.
    energy: EnergyConfig = _new(EnergyConfig)  # The section energy.
    audit: AuditConfig = _new(AuditConfig)  # The section audit.
    past: PastConfig = _new(PastConfig)  # The section past.
    alerts: AlertsConfig = _new(AlertsConfig)  # The section alerts.
    metrics: MetricsConfig = _new(MetricsConfig)  # The section metrics.


class JobTasks(Answer):
    """JobTasks counts the tasks of a job."""

    total: int = 0
    at_most: int = 0  # How many run at a time at most. Absent: as many as there is room for.
    held: int = 0
    waiting: int = 0
    running: int = 0  # Starting and parked ones too.
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    timed_out: int = 0
    lost: int = 0


class Job(Answer):
    """Job is a job, or one task of it."""

    id: str = ""  # NAME-NUMBER; a task has .N behind it.
    job: str = ""  # For a task: the id of its job.
    name: str = ""
    user: str = ""
    service: str = ""
    params: Dict[str, str] = _dict()  # For a task of a sweep.
    state: str = ""  # One of held, waiting, starting, running, parked, done, failed, cancelled, timed_out or lost.
    cause: str = ""  # Why it is in this state, in words: what it waits for, or why it ended so.
    cause_code: str = ""  # The kind of the cause, which never changes.
    submitted: Optional[Time] = None
    begin: Optional[Time] = None  # It does not begin before.
    started: Optional[Time] = None
    ended: Optional[Time] = None
    exit_code: Optional[int] = None  # Of the command; 128 and the number of the signal that ended it. Absent: it has not ended, or nobody knows.
    try_: int = 0  # How often it was started.
    retry: int = 0
    priority: int = 0
    gpus: int = 0
    memory_mb: int = 0  # On each device; 0 while it waits for a size that is learned, or for a whole device.
    devices: List[str] = _list()  # UUIDs of the devices that it has or had.
    lease: str = ""  # The id of its lease, while it has one.
    time_limit_seconds: float = 0.0
    cpus: float = 0.0
    host_memory_mb: int = 0
    estimate: Optional[Estimate] = None  # When it will probably begin, while it waits.
    warning: str = ""  # What whoever submits it should know; only in the answer to that.
    after: List[str] = _list()
    after_any: List[str] = _list()
    after_failed: List[str] = _list()
    peak_memory_mb: Optional[int] = None  # The most GPU memory that it used.
    mean_utilization_percent: Optional[float] = None
    energy_joules: Optional[float] = None
    peak_host_memory_mb: Optional[int] = None  # The most memory of the machine that one of its processes used.
    command: List[str] = _list()
    directory: str = ""
    log: str = ""  # The file with its output.
    error_log: str = ""  # The file with its errors, if that is another one.
    pid: int = 0  # The process that minds it.
    comment: str = ""
    tasks: Optional[JobTasks] = None  # For a job with an array or parameters: how many tasks are in each state.
    list: List[Job] = _list()  # Its tasks; only in the answer about one job.


class Leases(Several[Allocation], Answer):
    """Leases lists all leases and all waiting requests."""

    leases: List[Allocation] = _list()  # The oldest grant first.
    waiting: List[Waiting] = _list()  # In the order of the queue. An answer with a limit has leases first, and then the requests that have waited longest.
    next: str = ""  # The list goes on: ask again with after and this text. Absent: this is the end.
    note: str = ""  # For people: why the answer does not have everything, although no limit was given.


class Measured(Answer):
    """Measured sums up the measured runs of a piece of work."""

    user: str = ""
    name: str = ""
    step: str = ""
    runs: int = 0  # How many runs there were. The numbers below are of the last ten.
    last: Optional[Time] = None  # When the last run ended.
    asked_mb: int = 0  # How much memory the last run leased on a device; 0: none.
    peak_mb: int = 0  # The most memory that a run used on a device; 0: no run was seen on a device.
    next_mb: int = 0  # How much memory a run leases that does not say: the peak plus a margin; 0: nothing is known, or no run was measured often enough.
    seconds: float = 0.0  # How long a run takes on average.
    drew_watts: Optional[float] = None  # How much power a run drew on a device, on average while it worked, above what the device draws by itself. Absent: no run was measured.


class Monitoring(Answer):
    """Monitoring says whether the sampling loop runs."""

    running: bool = False
    interval_seconds: float = 0.0
    changed: bool = False  # Whether the call changed anything.


class Move(Answer):
    """Move proposes to move a lease to another device, which makes room for a request
    that waits."""

    from_: str = ""  # UUID of the device that it is on.
    to: str = ""  # UUID of the device that has room for it.
    memory_mb: int = 0  # What would be moved.
    for_: str = ""  # The waiting request that would fit then.
    restarts: bool = False  # Its program has to be started again: a process cannot take its memory to another device.
    service: str = ""  # The service whose program berth runs under the lease: berth move moves it (POST /api/services/{name}/move). Absent: whoever started the program starts it again.
    takes_seconds: float = 0.0  # How long it takes the service to stop and to start, as measured. Absent: it has not done both yet.


class RungStep(Answer):
    """RungStep says what a rung did to one lease or process, or why it left it alone."""

    lease: str = ""
    user: str = ""
    pid: int = 0  # 0 for a process of another user, unless an operator asks.
    gpu: str = ""  # UUID.
    text: str = ""  # One sentence for people.
    before_mb: int = 0  # What was measured for it before; for shrink: what it had leased.
    after_mb: int = 0  # The same, afterwards.
    move: Optional[Move] = None  # For move: the proposal.


class Rung(Answer):
    """Rung is one way to get memory back."""

    name: str = ""  # One of dead, orphans, trim, shrink, park or move.
    freed_mb: int = 0  # How much less memory its devices had in use afterwards than before, as measured; for shrink: how much more could be leased. Never an estimate. 0 in a dry run.
    took_seconds: float = 0.0
    done: List[RungStep] = _list()  # What was done, or would be in a dry run.
    left: List[RungStep] = _list()  # What was left alone, and why.


class Reclaimed(Answer):
    """Reclaimed says what an optimization changed on one device."""

    gpu: str = ""
    used_before_mb: int = 0
    used_after_mb: int = 0
    available_before_mb: int = 0  # What could be leased.
    available_after_mb: int = 0


class Optimization(OfOptimization, Answer):
    """Optimization says what an optimization did, rung by rung."""

    dry_run: bool = False
    service: str = ""
    began: Optional[Time] = None
    took_seconds: float = 0.0
    rungs: List[Rung] = _list()  # In the order in which they were tried: dead, orphans, trim, shrink, park, move.
    devices: List[Reclaimed] = _list()  # Every device, before and after.


class PastLease(Answer):
    """PastLease is a lease that has ended."""

    id: str = ""
    fence: int = 0
    holder: Holder = _new(Holder)
    binding: str = ""  # One of process, ttl or named.
    granted: Optional[Time] = None
    ended: Optional[Time] = None
    how: str = ""  # One of released, expired or revoked.
    why: str = ""  # Why the lease ended; only for its user and operators.
    by: str = ""  # The user who ended the lease; only for its user and operators. Absent if the daemon did.
    parts: List[Part] = _list()  # What the lease held on each device.
    peak_mb: int = 0  # The most memory that its processes were measured to use on one device; 0: nothing was measured.
    energy_joules: Optional[float] = None  # How much energy its processes used, above what the devices draw by themselves. Absent: nothing was measured.
    from_pool: str = ""  # The pool that its memory was from.


class Ready(Answer):
    """Ready says whether the daemon can do its work."""

    ready: bool = False
    devices: int = 0
    text: str = ""
    audit: str = ""  # Present if the audit log cannot be written, or has lost entries: what follows from that.
    damaged: List[str] = _list()  # Damaged state files that the daemon keeps in its state folder, until somebody removes them. An event said what each of them costs.
    faults: str = ""  # Present if something failed inside the daemon since it started, because of a bug in berth: how often, and when last.
    listen: str = ""  # Present if the daemon does not have its address on TCP: why. The Unix socket serves, and the daemon tries again.
    past: str = ""  # What the past takes on disk, and how far back it goes; or why nothing is stored.


class Process(Answer):
    """Process is one operating-system process on a device."""

    pid: int = 0  # 0 for a process of another user, unless an operator asks.
    name: str = ""
    kind: str = ""
    memory_mb: Optional[int] = None  # Absent where the driver does not tell.


class Sample(Answer):
    """Sample is one reading of a device. Every metric is optional: a metric that
    the device cannot measure is absent. The monitor adds GPU, Name, Time, State
    and MemoryShare; a backend leaves them empty."""

    gpu: str = ""  # UUID of the device.
    name: str = ""  # Name of the device.
    time: Optional[Time] = None
    state: str = ""  # State of the device at that time; in the newest sample, as it stands now.
    utilization_percent: Optional[float] = None
    memory_busy_percent: Optional[float] = None  # Share of time in which memory was read or written.
    memory_total_mb: Optional[int] = None
    memory_used_mb: Optional[int] = None  # Used by processes and by the driver itself.
    memory_free_mb: Optional[int] = None
    blind: bool = False  # The driver of this device tells neither how hot it is nor how much of its memory is in use.
    memory_percent: Optional[float] = None  # Share of the memory that is in use.
    temperature_celsius: Optional[float] = None
    memory_temperature_celsius: Optional[float] = None
    power_watts: Optional[float] = None
    power_of: str = ""  # For a MIG instance: the UUID of the GPU that it is part of. Power, temperature, clocks and throttle reasons are those of that GPU, so do not add them up.
    clock_sm_mhz: Optional[float] = None
    clock_memory_mhz: Optional[float] = None
    throttle_reasons: Optional[List[str]] = None
    processes: Optional[List[Process]] = None
    slow_time: Optional[Time] = None  # When the metrics below were read: they are costly, so they are older than the rest.
    energy_joules: Optional[float] = None  # Since the driver was loaded.
    fan_percent: Optional[float] = None
    pcie_tx_mb_per_second: Optional[float] = None
    pcie_rx_mb_per_second: Optional[float] = None
    ecc_corrected_total: Optional[int] = None
    ecc_uncorrected_total: Optional[int] = None
    process_utilization_percent: Dict[int, float] = _dict()


class History(Listed[Sample], Answer):
    """History is a list of samples, oldest first."""

    samples: List[Sample] = _list()
    covers_seconds: Optional[float] = None  # Of a history: the time from its oldest sample to its newest. It is shorter than what was asked for where berth has not kept that much.


class ServiceCaller(Answer):
    """ServiceCaller is somebody who uses a service, or waits for it."""

    user: str = ""  # Login name, user id if there is none, or token:NAME. Absent: those whom the front did not keep apart.
    open: int = 0
    waiting: int = 0
    used: float = 0.0  # The share of the machine that they have used through services, from 0 to 1; what is 5 minutes old counts half. A service waits in the place of that caller who has used least.


class ServiceTime(Answer):
    """ServiceTime is how long something took."""

    seconds: float = 0.0  # The mean, in which later ones weigh more.
    last_seconds: float = 0.0
    count: int = 0


class ServiceTimes(Answer):
    """ServiceTimes says how long the comings and goings of a service took, each as a running
    mean of the last ones. What never happened is absent."""

    start: Optional[ServiceTime] = None  # From the start of its program until it was ready.
    stop: Optional[ServiceTime] = None  # From the order to stop until its memory was free.
    park: Optional[ServiceTime] = None
    resume: Optional[ServiceTime] = None
    sleep: Optional[ServiceTime] = None
    wake: Optional[ServiceTime] = None


class ServiceFailure(Answer):
    """ServiceFailure says how a service failed."""

    at: Optional[Time] = None
    why: str = ""
    count: int = 0  # How often it failed since it was last ready for a while.
    next: Optional[Time] = None  # When it is started again, if somebody asks. Absent: not by itself.
    log: List[str] = _list()  # The last lines of its log. For its user and operators.


class FrontStopped(Answer):
    """FrontStopped says who stopped a service, and why."""

    by: str = ""
    why: str = ""
    at: Optional[Time] = None


class Program(Answer):
    """Program is a service whose program berth runs."""

    name: str = ""
    models: List[str] = _list()  # The names of models that mean the service; * stands for any characters.
    user: str = ""  # Whom the program runs as.
    state: str = ""  # away: its program does not run. waiting: it waits for its lease. starting: its program runs and is not ready. ready: it takes requests. closing: it takes no more, and ends those that it has. leaving: it is parked, put to sleep or stopped. returning: it comes back from where it was parked or asleep. failed: it failed, and is started again after a pause. stopped: a person stopped it.
    since: Optional[Time] = None  # Since when it is in this state.
    why: str = ""  # Why it is in this state, in words.
    start: str = ""  # One of on_demand, always or never.
    away: str = ""  # How it is sent away, as its settings say. One of auto, park, sleep or stop.
    goes: str = ""  # How it would be sent away now. One of park, sleep or stop.
    goes_why: str = ""  # Why that way, in words.
    lease: str = ""  # The id of its lease, while it has one.
    devices: List[str] = _list()  # UUIDs of the devices that it is on, or will return to.
    memory_mb: Optional[int] = None  # The memory that it leases on each device. Absent: a whole device, because it is not known yet.
    learned: bool = False  # The memory was learned from earlier runs.
    open: int = 0  # Requests that it answers now.
    waiting: int = 0  # Requests that wait for it.
    last_answer: Optional[Time] = None  # When its last answer ended. Absent: none has since the front began.
    callers: List[ServiceCaller] = _list()  # Who has requests open or waiting, by name. For its user and operators.
    requests: int = 0  # Since the start of the daemon, as the following.
    failed_requests: int = 0
    refused_requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    switches: int = 0  # How often it came to a device.
    took: ServiceTimes = _new(ServiceTimes)  # How long its comings and goings took.
    failure: Optional[ServiceFailure] = None  # The last failure, until it was ready again.
    stopped: Optional[FrontStopped] = None  # Who stopped it.
    port: int = 0  # Where its program listens, on 127.0.0.1.
    pid: int = 0  # The process that berth started. For its user and operators, as the following.
    command: List[str] = _list()
    directory: str = ""
    log: str = ""  # The file with its output.


class ThresholdForecast(Answer):
    """ThresholdForecast says when the temperature of a device passes a threshold at its
    present power."""

    threshold: str = ""
    limit_celsius: float = 0.0
    seconds: Optional[float] = None  # Time until the temperature passes the threshold; 0: it has. Absent: not at this power.
    soonest_seconds: Optional[float] = None  # With latest, the interval that holds that time nine times of ten.
    latest_seconds: Optional[float] = None  # Absent: it may well never pass.
    text: str = ""  # The same in words.


class Outlook(Answer):
    """Outlook says where the temperature of a device goes if its power stays as it is."""

    power_watts: float = 0.0  # The present power: an average of the last seconds.
    settles_celsius: float = 0.0  # Where the temperature ends.
    settles_low_celsius: float = 0.0  # With high, the interval that holds it nine times of ten.
    settles_high_celsius: float = 0.0
    celsius_per_watt: float = 0.0  # How many degrees one more watt adds in the end.
    thresholds: List[ThresholdForecast] = _list()  # temp_normal, temp_throttle and temp_critical.


class Slots(Answer):
    """Slots counts the pipelines that a device runs and may run."""

    active: int = 0
    capacity: int = 0  # max_pipelines of the device.
    usable: int = 0  # How many slots may be in use now, by the state of the device and by trust.


class Trust(Answer):
    """Trust says how far the daemon trusts a device after something went wrong on it."""

    phase: str = ""  # Absent if only slots are withheld. One of quarantine or probation.
    since: Optional[Time] = None
    until: Optional[Time] = None  # The earliest end of the phase.
    why: str = ""  # What began the phase.
    slots_withheld: int = 0  # Slots that the daemon withholds from the device for a while, because its memory ran out.


class Throttling(Answer):
    """Throttling says what berth does by itself about a device that should run
    slower."""

    policy: str = ""  # The setting gpu.throttle of the device. One of advise, slots, pace or power.
    share: Optional[float] = None  # Share of their speed that leases on the device are held to; absent: none is held back.
    paced_leases: int = 0  # How many leases are held back.
    power_limit_watts: Optional[float] = None  # Power limit that berth set; absent: it set none.
    power_original_watts: Optional[float] = None  # Power limit that berth gives back.
    power_steps: int = 0  # How many steps down led to the power limit that berth set.
    fan_percent: Optional[float] = None  # Fan speed that berth set; absent: the driver sets it.
    denied: str = ""  # Why this daemon does nothing about the device: another one is in charge of it.


class Machine(Answer):
    """Machine is what a program needs to know of the machine beside its devices, before it
    takes on more work."""

    cpus: int = 0  # Processors that the daemon may use.
    load: float = 0.0  # How many processes ran or wanted to run in the last minute, on average. As many as there are processors: they are all busy.
    load_percent: float = 0.0  # The load in percent of the processors.
    memory_total_mb: int = 0
    memory_available_mb: int = 0  # Memory that programs can get without swapping.


class Allocations(Answer):
    """Allocations sums up the leases on a device."""

    allocation_count: int = 0  # Leases that hold something there. A parked one does not.
    total_allocated_mb: int = 0  # The memory that they have together. What leases have from a pool counts once.


class Curves(Answer):
    """Curves has the averages of a device over equal intervals of the last minutes, oldest
    first; the last interval ends now. A list is shorter than requested if berth has not
    measured for that long, and empty if it cannot measure the value. An interval without a
    sample repeats the one before."""

    seconds: float = 0.0  # How far back a whole list goes.
    points: int = 0  # How many averages a whole list has.
    utilization_percent: List[float] = _list()
    temperature_celsius: List[float] = _list()


class Status(OfStatus, Answer):
    """Status is the present state of one device."""

    device: Device = _new(Device)
    state: str = ""  # One of OPTIMAL, NORMAL, THROTTLED, CRITICAL or UNAVAILABLE.
    since: Optional[Time] = None  # When the device entered this state.
    reason: str = ""  # Why the device is in this state, in one sentence.
    state_cause: str = ""  # What put the device into this state. fault: it, or the device that it is part of, is in quarantine. lost: it is not on the bus any more. silent: it does not answer. Absent: it is OPTIMAL, or its driver tells neither temperature nor memory.
    multiplier: float = 0.0  # Share of full speed that work should run at.
    cause: str = ""  # What decides the multiplier: the state, or a forecast that is sure of a worse one.
    slower: str = ""  # Why the multiplier is lower than that of the state; absent: it is not.
    outlook: Optional[Outlook] = None  # Where the temperature goes at the present power. Absent: not known, because the device does not measure its power or berth has not watched it long enough.
    health: str = ""  # One of healthy, unhealthy or unknown.
    sample: Optional[Sample] = None  # The newest sample; absent until the device has answered once.
    stale: bool = False  # The sample is older than three intervals and older than 3 seconds, so it says nothing about now.
    slots: Slots = _new(Slots)
    trust: Optional[Trust] = None  # Present while the device is not fully trusted.
    drain: Optional[Drain] = None  # Present while somebody drains the device: leases there go on, and no new ones are granted.
    throttling: Optional[Throttling] = None  # What berth does by itself if the device should run slower.
    machine: Optional[Machine] = None  # The processors and the memory of the machine; only of /api/gpu/status.
    leases: List[DeviceLease] = _list()  # The leases on the device, largest first; only with leases=true.
    allocation_stats: Optional[Allocations] = None  # The sums of the leases on the device; only with leases=true.
    curves: Optional[Curves] = None  # What the device did in the last minutes; only of /api/gpu/status/all, with curves.


class GPUUtilization(Answer):
    """GPUUtilization counts the slots of one device."""

    active: int = 0
    capacity: int = 0
    utilization_percent: float = 0.0


class Utilization(Answer):
    """Utilization counts slots over all usable devices, which leaves out UNAVAILABLE ones."""

    total_gpus: int = 0  # Devices that are not UNAVAILABLE. Those that are count nowhere here; gpus lists them all.
    total_capacity: int = 0
    total_active: int = 0
    utilization_percent: float = 0.0
    per_gpu: Dict[str, GPUUtilization] = _dict()  # By UUID.


class Need(Answer):
    """Need is something that needs a person. The daemon decides what does, so that every
    screen shows the same."""

    kind: str = ""  # One of monitoring, critical, unavailable, unhealthy, throttled, quarantine, stale, drained, alert, parking, over, hog, service, front, waiting or orphans.
    severity: str = ""  # One of warning or critical.
    subject: str = ""  # What it is about, as in GPU 0.
    gpu: str = ""  # UUID of the device that it is about.
    lease: str = ""  # Id of the lease or of the request that it is about.
    user: str = ""  # Whose lease or request it is.
    since: Optional[Time] = None
    text: str = ""  # What is the matter, in a sentence without a full stop.
    next: str = ""  # What to do about it.


class StatusAll(Several[Status], Answer):
    """StatusAll lists every device, and says how much of the machine is in use."""

    host: str = ""
    version: str = ""  # Version of the daemon.
    monitoring: bool = False  # Whether the sampling loop runs.
    note: str = ""  # A remark about the whole machine, for example that it has no GPU.
    gpus: List[Status] = _list()
    utilization: Utilization = _new(Utilization)
    machine: Optional[Machine] = None  # The processors and the memory of the machine. Absent: the daemon cannot read them.
    needs: List[Need] = _list()  # What needs a person, the worst first, as far as the caller may see it.


class Stray(Answer):
    """Stray is a process on a device under no lease."""

    gpu: str = ""  # UUID of the device.
    pid: int = 0  # 0 for a process of another user, unless an operator asks.
    name: str = ""
    user: str = ""
    memory_mb: Optional[int] = None  # How much memory the process uses; absent if it only has the device open.
    lease: str = ""  # The lease that the process belonged to until the lease ended.
    pod: str = ""  # UID of the Kubernetes pod that the process runs in.
    evidence: str = ""  # Present if it fits several leases equally, so that it belongs to none: the kind of evidence. One of unit, service or program.
    fits: List[str] = _list()  # Those leases.


class Strays(Several[Stray], Answer):
    """Strays lists the processes that use devices under no lease."""

    orphans: List[Stray] = _list()  # Processes whose lease has ended.
    foreign: List[Stray] = _list()  # Processes that never had a lease.
    next: str = ""  # The list goes on: ask again with after and this text. Absent: this is the end.
    note: str = ""  # For people: why the answer does not have everything, although no limit was given.


class Forecast(Answer):
    """Forecast is one point of a forecast."""

    in_seconds: float = 0.0
    celsius: float = 0.0
    low_celsius: float = 0.0  # With high, the interval that holds the temperature nine times of ten.
    high_celsius: float = 0.0


class Throttle(Answer):
    """Throttle says how fast work on a device may run."""

    gpu: str = ""
    state: str = ""  # One of OPTIMAL, NORMAL, THROTTLED, CRITICAL or UNAVAILABLE.
    multiplier: float = 0.0
    cause: str = ""  # What decides the multiplier: the state, or a forecast that is sure of a worse one.
    should_throttle: bool = False  # Whether work should slow down: true from THROTTLED on, and if a forecast slows it down. The multiplier has the finer steps.
    should_stop: bool = False  # Whether work should stop now: the device is above temp_critical or in quarantine.
    until: Optional[Time] = None  # The earliest time that work may run faster, while a cooldown runs.
    reason: str = ""  # Why, in one sentence: that of the cause.
    outlook: Optional[Outlook] = None  # Where the temperature goes at the present power. Absent: not known.
    throttling: Optional[Throttling] = None  # What berth does about it by itself.


class WithoutLease(Answer):
    """WithoutLease says where the temperature of a device would end without a lease."""

    lease: str = ""  # Allocation id of the lease.
    power_watts: float = 0.0  # What its processes draw, above what the device draws by itself: an average of the last seconds.
    settles_celsius: float = 0.0  # Where the temperature would end.
    settles_low_celsius: float = 0.0  # With high, the interval that holds it nine times of ten.
    settles_high_celsius: float = 0.0


class Trend(Answer):
    """Trend describes the temperature of a device over a window of time."""

    gpu: str = ""
    minutes: float = 0.0  # The window in the request.
    covers_seconds: float = 0.0  # The time from the oldest sample in the window to the newest: less than the window where berth has not kept that much.
    samples: int = 0  # How many samples with a temperature are in the window.
    min_celsius: Optional[float] = None
    max_celsius: Optional[float] = None
    average_celsius: Optional[float] = None
    slope_celsius_per_minute: Optional[float] = None
    direction: str = ""  # One of rising, falling, stable or unknown.
    forecast: List[Forecast] = _list()  # The temperatures to come, as far as the power so far tells. Absent: not known.
    outlook: Optional[Outlook] = None  # Where the temperature goes at the present power. Absent: not known.
    without: List[WithoutLease] = _list()  # Where the temperature would end if one lease were gone, for each lease whose power is known.


class Session(Answer):
    """Session is a session on the page, without its secret."""

    id: str = ""
    user: str = ""  # Who signed in: login name, or token:NAME.
    uid: Optional[int] = None  # The session holds only for connections of this user. Absent: it began on another machine.
    token: str = ""  # Name of the token that it was begun with. Absent: with a link.
    role: str = ""  # The role that it gives now. One of stranger, scraper, viewer, user, operator or admin.
    begun: Optional[Time] = None
    used: Optional[Time] = None  # When it was last used, to the minute.
    expires: Optional[Time] = None  # When it ends, if nobody uses it until then.
    current: bool = False  # Whether the request was made with it.


class Whoami(Answer):
    """Whoami says which user the daemon takes the caller for."""

    user: str = ""  # Login name, token:NAME or cert:NAME; unknown: the daemon does not know the caller.
    uid: Optional[int] = None  # Absent: the caller is not known by a user id.
    role: str = ""  # One of stranger, scraper, viewer, user, operator or admin.
    why: List[str] = _list()  # Why the caller has this role, a sentence each. The first one decides.
    door: str = ""  # The way the caller came in. One of socket, tcp or process.
    token: str = ""  # Name of the token that the caller showed.
    service: str = ""  # The only service that the caller may act for. Absent: any.
    groups: List[str] = _list()  # Groups of the caller that the configuration has an entry for.
    session: Optional[Session] = None  # The session that the request was made with. Absent: none.


__all__ = [
    "Acknowledgement",
    "Alert",
    "Alerts",
    "Latency",
    "BatchGPU",
    "Batch",
    "CheckStep",
    "Check",
    "Setting",
    "Link",
    "Device",
    "Available",
    "Drain",
    "Holder",
    "By",
    "PacedBy",
    "Paced",
    "DeviceLease",
    "Drained",
    "Part",
    "Estimate",
    "Waiting",
    "Ancestor",
    "Belonging",
    "Launch",
    "CancelledBy",
    "Parking",
    "Idle",
    "Pool",
    "LibraryMemory",
    "LibraryReport",
    "Allocation",
    "Ended",
    "DeviceEnergy",
    "EnergyUse",
    "Energy",
    "InTheWay",
    "Obstacle",
    "Ranked",
    "Explanation",
    "OptimizationConfig",
    "QuotaConfig",
    "MatchConfig",
    "ReadyConfig",
    "CallConfig",
    "ServiceConfig",
    "FrontConfig",
    "QueueConfig",
    "EnergyConfig",
    "AuditConfig",
    "PastConfig",
    "AlertsConfig",
    "MetricsConfig",
    "GPUConfig",
    "JobTasks",
    "Job",
    "Leases",
    "Measured",
    "Monitoring",
    "Move",
    "RungStep",
    "Rung",
    "Reclaimed",
    "Optimization",
    "PastLease",
    "Ready",
    "Process",
    "Sample",
    "History",
    "ServiceCaller",
    "ServiceTime",
    "ServiceTimes",
    "ServiceFailure",
    "FrontStopped",
    "Program",
    "ThresholdForecast",
    "Outlook",
    "Slots",
    "Trust",
    "Throttling",
    "Machine",
    "Allocations",
    "Curves",
    "Status",
    "GPUUtilization",
    "Utilization",
    "Need",
    "StatusAll",
    "Stray",
    "Strays",
    "Forecast",
    "Throttle",
    "WithoutLease",
    "Trend",
    "Session",
    "Whoami",
]
