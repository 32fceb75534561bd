"""GPU resources from the berth daemon, for Python programs.

    with berth.lease(memory="4GiB") as gpu:
        subprocess.run(command, env=gpu.environ())

It needs nothing but the standard library, and imports no array library by
itself: what is installed and asked for is used.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any, List

from . import rival

rival.refuse(__file__)  # before files of another project are imported

from . import answers, config, leasing, mistakes, monitoring, services
from .answers import Event
from .asking import (
    acknowledge, admit, adopt, alerts, allocate, ask_to_trim, available, batches, bind, cancel, check, deallocate,
    devices, drain, energy, explain, explain_waiting, find_lease, history, hold_to, is_available, jobs, leases, measure, measurements,
    metrics,
    optimize, orphans, park, past_leases, query, query_range, ready, release, renew, report_libraries, resize, resume, status,
    status_all, throttle, trend, unacknowledge, undrain, wake, whoami,
)  # fmt: skip
from .caps import cap, install_caps
from .client import BerthError, Broken, Client, NoDaemon, Problem, Stop
from .conversions import Conversion, conversion, convert, memory_type, pointer
from .execution import Run, StepRun
from .executor import BrokenWorker, Executor
from .leasing import Lease, Pool, current, lease, pool
from .librarymemory import library_memory
from .mapping import Failure, MapError, imap, map
from .memorytypes import MEMORY_TYPES, Declaration, memory
from .mistakes import EARLIER, meant
from .operations import Operation, operation
from .pacing import Pace, pace, speed
from .plans import Pipeline, Plan, Step, compile, run
from .submitting import Job, find_job, submit
from .subscriptions import Subscription, events, off, on
from .trimming import trim
from .trimrequests import trim_on_request
from .workers import progress, worker

if TYPE_CHECKING:
    from . import aio

__version__ = "0.1.0"

__all__ = [
    "BerthError", "Broken", "BrokenWorker", "Client", "Conversion", "Declaration", "Event", "Executor", "Failure", "Job", "Lease", "MEMORY_TYPES",
    "MapError", "NoDaemon", "Operation", "Pace", "Pipeline", "Plan", "Pool", "Problem", "Run", "Step", "StepRun", "Stop",
    "Subscription", "acknowledge", "admit", "adopt", "aio", "alerts", "allocate", "answers", "ask_to_trim",
    "available", "batches", "bind", "cancel", "cap", "check", "compile", "config", "conversion", "convert", "current",
    "deallocate", "devices", "drain", "energy", "events", "explain", "explain_waiting", "find_job", "find_lease",
    "history", "hold_to", "imap", "install_caps", "is_available", "jobs", "lease", "leases", "library_memory", "map", "measure", "measurements",
    "memory", "memory_type", "metrics", "monitoring", "off", "on", "operation", "optimize", "orphans", "pace", "park",
    "past_leases", "pointer", "pool", "progress", "query", "query_range", "ready", "release", "renew", "report_libraries", "resize", "resume",
    "run", "services", "speed", "status", "status_all", "submit", "throttle", "trend", "trim", "trim_on_request",
    "unacknowledge", "undrain", "wake", "whoami", "worker",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name != "aio":
        help_ = ": write " + EARLIER[name] if name in EARLIER else meant(name, __all__)
        if mistakes.imports(sys._getframe(1)):
            raise ImportError("cannot import name %r from %r%s" % (name, __name__, help_))
        raise AttributeError("module %r has no attribute %r%s" % (__name__, name, help_))
    return importlib.import_module(".aio", __name__)  # when it is used: it takes as long as all the rest


leasing.awaited = lambda: __getattr__("aio").leasing.Lease


def __dir__() -> List[str]:
    return sorted([*__all__, "__version__"])  # and not what is imported here


install_caps()  # does nothing unless this program was started under a memory lease
