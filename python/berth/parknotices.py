"""Tells a program that its lease is going to be parked, and that it is back."""

from __future__ import annotations

import os
import threading
from typing import Dict, List, Optional

from .answers import Event
from .client import BerthError, Client
from .subscriptions import Choice, Deliver, Subscription

LEAVES, BACK = "lease_parking", "lease_resumed"


class ParkNotices:
    """Hears what becomes of the memory of one lease, as soon as somebody wants to
    know."""

    def __init__(self, client: Client, id: str, fence: int):
        self._client, self._id, self._fence = client, id, fence
        self._lock = threading.RLock()  # guards what follows; a signal handler may release the lease
        self._couriers: Dict[str, List[Deliver]] = {LEAVES: [], BACK: []}
        self._watch: Optional[Subscription] = None
        self._closed = False
        self._process = 0  # the one that watches: a forked child watches for itself

    def add(self, code: str, courier: Deliver) -> None:
        """Tells a courier of every event of a code from now on."""
        with self._lock:
            self._couriers[code].append(courier)

    def watch(self) -> None:
        """Begins to listen, unless it does already or nobody wants to know. It waits
        in the background for a daemon that is away."""
        with self._lock:
            if self._closed or self._process == os.getpid() or not any(self._couriers.values()):
                return
            self._process = os.getpid()
            choice = Choice(frozenset([LEAVES, "lease_parked", BACK]), leases=frozenset([self._id]))
            watch = self._watch = Subscription(choice, self._tell, self._tell, self._client)
        try:
            after = max((event.id for event in watch._kept()), default=0)
        except BerthError:
            after = 0  # the listener waits for the daemon
        watch._begin(after)

    def close(self) -> None:
        """Stops listening."""
        with self._lock:
            self._closed = True
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.off()

    def _tell(self, event: Event) -> None:
        if self._fence and event.data.get("fence", self._fence) != self._fence:
            return  # an earlier lease of the same id, or that of another user
        code = event.code
        if code == "lease_parked":
            if not event.data.get("failed") or event.severity == "critical":
                return  # it is away
            code = BACK  # it could not be parked, and stays on its device
        with self._lock:
            couriers = list(self._couriers[code])
        for courier in couriers:
            courier(event)
