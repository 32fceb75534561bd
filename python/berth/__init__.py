"""GPU resources from the berth daemon, for Python programs.

    with berth.lease(memory="4GiB") as gpu:
        subprocess.run(command, env=gpu.environ())

It needs nothing but the standard library, and imports no array library by
itself: what is installed and asked for is used.
"""

from .caps import cap, install_caps
from .client import BerthError, Broken, Client, NoDaemon, Problem, Stop
from .conversions import Conversion, conversion, convert, memory_type, pointer
from .execution import Run, StepRun
from .leasing import Lease, current, lease
from .memorytypes import MEMORY_TYPES, Declaration, memory
from .pacing import Pace, pace, speed
from .plans import Pipeline, Plan, Step, compile, run
from .trimming import trim
from .trimrequests import trim_on_request
from .workers import progress, worker

__version__ = "0.1.0"

__all__ = [
    "MEMORY_TYPES", "BerthError", "Broken", "Client", "Conversion", "Declaration", "Lease", "NoDaemon", "Pace",
    "Pipeline", "Plan", "Problem", "Run", "Step", "StepRun", "Stop", "cap", "compile", "conversion", "convert",
    "current", "install_caps", "lease", "memory", "memory_type", "pace", "pointer", "progress", "run", "speed", "trim",
    "trim_on_request", "worker",
]  # fmt: skip

install_caps()  # does nothing unless this program was started under a memory lease
