"""The sampling loop of the daemon: ``berth.monitoring.start()``."""

from . import calls
from .asking import answered

start = answered(calls.monitoring_start, "start")
stop = answered(calls.monitoring_stop, "stop")

__all__ = ["start", "stop"]
