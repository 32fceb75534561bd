"""The services that share the GPUs: ``berth.services.all()``; and those whose programs
the daemon runs: ``berth.services.programs()``."""

from . import calls
from .asking import answered

all = answered(calls.services_all, "all")
get = answered(calls.services_get, "get")
programs = answered(calls.services_programs, "programs")
program = answered(calls.services_program, "program")
start = answered(calls.services_start, "start")
stop = answered(calls.services_stop, "stop")
restart = answered(calls.services_restart, "restart")
move = answered(calls.services_move, "move")
log = answered(calls.services_log, "log")

__all__ = ["all", "get", "programs", "program", "start", "stop", "restart", "move", "log"]
