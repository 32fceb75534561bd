"""The sampling loop of the daemon: ``await berth.aio.monitoring.start()``."""

from .. import calls
from .asking import awaited

start = awaited(calls.monitoring_start, "start")
stop = awaited(calls.monitoring_stop, "stop")

__all__ = ["start", "stop"]
