"""The services that share the GPUs: ``await berth.aio.services.all()``; and those whose
programs the daemon runs: ``await berth.aio.services.programs()``."""

from .. import calls
from .asking import awaited

all = awaited(calls.services_all, "all")
get = awaited(calls.services_get, "get")
programs = awaited(calls.services_programs, "programs")
program = awaited(calls.services_program, "program")
start = awaited(calls.services_start, "start")
stop = awaited(calls.services_stop, "stop")
restart = awaited(calls.services_restart, "restart")
move = awaited(calls.services_move, "move")
log = awaited(calls.services_log, "log")

__all__ = ["all", "get", "programs", "program", "start", "stop", "restart", "move", "log"]
