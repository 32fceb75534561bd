"""Brings a parked lease back before its program uses the device again."""

from __future__ import annotations

import time
from typing import Optional

from . import calls
from .client import Broken, Call, Client, NoDaemon, Problem

AGAIN = (0.2, 0.4, 0.8, 1.6, 3.2)  # seconds between the questions to a daemon that restarts
GONE = (404, 410)  # there is no such lease, or the daemon knows no parking
NEEDLESS = ("stale_fence", "lease_ended", "wrong_state")  # it has ended, or is back already
LOOK = 0.2  # seconds between two looks at a lease that is being parked


def waking(id: str, fence: int, client: Optional[Client], timeout: Optional[float]) -> Call[None]:
    """Wakes a lease if it is parked, and waits until it is back: for ``timeout``
    seconds, if that is given. A lease that has ended needs no waking. Nor does a
    program wait for a daemon that is away: it may well not be parked."""
    for pause in (0.0, *AGAIN):
        try:
            if pause:
                yield pause
            yield from _asking(id, fence, client, timeout)
            return
        except Problem as refused:
            if refused.status in GONE or refused.code in NEEDLESS:
                return
            if refused.status != 503 or pause == AGAIN[-1]:  # the daemon starts or stops
                raise
        except Broken:  # it may have stopped while the lease waited for its turn
            if pause == AGAIN[-1]:
                raise
        except NoDaemon:
            if not pause:
                return


def _asking(id: str, fence: int, client: Optional[Client], timeout: Optional[float]) -> Call[None]:
    if timeout is None:
        yield from calls.wake(id, fence=fence or None, client=client)
        return
    until = time.monotonic() + timeout
    found = yield from calls.find_lease(id, client=client)
    while found.state == "parking" and time.monotonic() < until:  # it can be resumed when that is done
        yield LOOK
        found = yield from calls.find_lease(id, client=client)
    if found.state in ("parking", "parked", "resuming") and fence in (0, found.fence):
        left = max(until - time.monotonic(), 0.0)
        yield from calls.resume(id, timeout=left, fence=fence or None, client=client)
