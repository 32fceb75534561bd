"""Giving memory back when the daemon asks for it, for programs that were started
under a lease."""

from __future__ import annotations

import threading
from typing import Optional

from .client import Client, Stop
from .leasing import Lease, current
from .trimming import trim_when_asked


def trim_on_request(lease: Optional[Lease] = None) -> Stop:
    """Trims whenever the daemon asks the holder of the lease to, in the
    background, until ``set`` of what it returns is called. The limits of libraries
    follow when somebody gives the lease another size. A lease of one's own
    does it with ``lease(…, trim_on_request=True)``; this is for a program that
    was started under one."""
    lease = lease or current()
    if lease is None:
        raise RuntimeError("trim_on_request: this process has no lease: take one with berth.lease(…), or start it with berth exec")
    stop = Stop()
    args = (lease._client or Client(), stop, lease.id, lease.fence, lease._resized)
    threading.Thread(target=trim_when_asked, args=args, name="berth-trim", daemon=True).start()
    return stop
