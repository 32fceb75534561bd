"""Makes a request again while the daemon is being replaced, or too many connections are open."""

from __future__ import annotations

import logging
import os
import time
from typing import Any

from .client import BerthError, Call, Client, NoDaemon, Problem, Request

REPLACED = 60.0  # seconds after the end of a daemon in which the next one is expected
FIRST, LONGEST = 0.05, 1.0  # seconds between two tries

LOG = logging.getLogger("berth")


def enduring(request: Request, limit: float = float("inf")) -> Call[Any]:
    """Makes a request, again while a daemon is being replaced or too many connections are
    open: for ``BERTH_PATIENCE`` seconds, and for ``limit`` at most. The daemon has read
    nothing of the request."""
    since, pause, told = time.monotonic(), FIRST, False
    limit = min(limit, patience())
    while True:
        try:
            return (yield request)
        except (NoDaemon, Problem) as why:
            waited = time.monotonic() - since
            if waited >= limit or not (turned_away(why) or _replaced(request, why)):
                raise
            if waited >= LONGEST and not told:
                LOG.warning("%s; %s", why, "asking again" if turned_away(why) else "waiting for it to come back")
                told = True
        yield pause
        pause = min(2 * pause, LONGEST)


def patience() -> float:
    """Returns the seconds for which a daemon that is being replaced is waited for."""
    text = os.environ.get("BERTH_PATIENCE", "")
    return float(text) if text.isascii() and text.isdecimal() and int(text) > 0 else 10.0


def turned_away(why: BerthError) -> bool:
    """Reports whether the daemon took no connection, because the user has too many open,
    or all users together have. It takes one when others end."""
    return isinstance(why, Problem) and why.code == "too_many_connections"


def _replaced(request: Request, why: BerthError) -> bool:
    return isinstance(why, NoDaemon) and (request.client or Client()).local and replaced(why)


def replaced(why: NoDaemon) -> bool:
    """Reports whether no daemon listens at any of some sockets, but one did: its socket
    refuses, because it was killed since the machine started, or has just gone. Without
    either, the machine has no daemon."""
    return any(
        isinstance(error, ConnectionRefusedError) and _since_boot(path)
        or isinstance(error, FileNotFoundError) and time.time() - _traced_since(path) < REPLACED
        for path, error in why.attempts
    )  # fmt: skip


def _since_boot(path: str) -> bool:
    """Reports whether a file was written since the machine started. If nobody knows when
    that was, it was."""
    try:
        written = os.lstat(path).st_mtime
        with open("/proc/uptime", encoding="ascii") as uptime:
            return time.time() - written <= float(uptime.read().split()[0])
    except (OSError, ValueError, IndexError):
        return True


def _traced_since(path: str) -> float:
    """Returns when the daemon of a socket last began or ended, as its trace says: a link
    beside the socket. 0: nobody knows."""
    try:
        return os.lstat(path + ".state").st_mtime
    except OSError:
        return 0.0
