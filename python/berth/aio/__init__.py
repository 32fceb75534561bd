"""The same for programs with asyncio: ``await berth.aio.status()``.

    async with berth.aio.lease(memory="4GiB") as gpu:
        await asyncio.create_subprocess_exec(*command, env=gpu.environ())

Every function of the API is here under its name, takes the same arguments and
returns the same answers.
"""

from .. import calls
from . import config, monitoring, services
from .asking import awaited
from .executor import Executor
from .leasing import Lease, Pool, lease, pool
from .submitting import Job, find_job, submit
from .subscriptions import events, off, on

acknowledge = awaited(calls.acknowledge)
admit = awaited(calls.admit)
adopt = awaited(calls.adopt)
alerts = awaited(calls.alerts)
allocate = awaited(calls.allocate)
ask_to_trim = awaited(calls.ask_to_trim)
available = awaited(calls.available)
batches = awaited(calls.batches)
bind = awaited(calls.bind)
cancel = awaited(calls.cancel)
check = awaited(calls.check)
deallocate = awaited(calls.deallocate)
devices = awaited(calls.devices)
drain = awaited(calls.drain)
explain = awaited(calls.explain)
explain_waiting = awaited(calls.explain_waiting)
find_lease = awaited(calls.find_lease)
history = awaited(calls.history)
is_available = awaited(calls.is_available)
jobs = awaited(calls.jobs)
leases = awaited(calls.leases)
measure = awaited(calls.measure)
measurements = awaited(calls.measurements)
energy = awaited(calls.energy)
metrics = awaited(calls.metrics)
optimize = awaited(calls.optimize)
orphans = awaited(calls.orphans)
park = awaited(calls.park)
past_leases = awaited(calls.past_leases)
query = awaited(calls.query)
query_range = awaited(calls.query_range)
ready = awaited(calls.ready)
release = awaited(calls.release)
report_libraries = awaited(calls.report_libraries)
renew = awaited(calls.renew)
resize = awaited(calls.resize)
resume = awaited(calls.resume)
hold_to = awaited(calls.hold_to)
status = awaited(calls.status)
status_all = awaited(calls.status_all)
throttle = awaited(calls.throttle)
trend = awaited(calls.trend)
unacknowledge = awaited(calls.unacknowledge)
undrain = awaited(calls.undrain)
wake = awaited(calls.wake)
whoami = awaited(calls.whoami)

__all__ = [
    "Executor", "Job", "Lease", "Pool", "acknowledge", "admit", "adopt", "alerts", "allocate", "ask_to_trim", "available", "batches",
    "bind", "cancel", "check", "config", "deallocate", "devices", "drain", "energy", "events", "explain",
    "explain_waiting", "find_job", "find_lease", "history", "hold_to", "is_available", "jobs", "lease", "leases", "measure",
    "measurements", "metrics", "monitoring", "off", "on", "optimize", "orphans", "park", "past_leases", "pool", "query",
    "query_range", "ready", "release", "renew", "report_libraries", "resize", "resume", "services", "status", "status_all", "submit",
    "throttle", "trend", "unacknowledge", "undrain", "wake", "whoami",
]  # fmt: skip
