"""Hears when the daemon wants the holder of a lease to end."""

from __future__ import annotations

import os
import threading
from typing import List, Optional

from .answers import Event
from .client import BerthError, Client
from .subscriptions import Choice, Deliver, Subscription

# The codes of events after which a holder should end: it was told to stop, or
# the lease has ended under it.
ENDED = frozenset(["lease_revoked", "lease_expired", "lease_released"])
STOPS = ENDED | {"lease_stop", "lease_over_limit", "lease_granted"}


class StopRequests:
    """Keeps the first event that asks the holder of a lease to end, and tells
    those who want to know."""

    def __init__(self, client: Client, id: str, fence: int):
        self._client, self._id, self._fence = client, id, fence
        self._lock = threading.RLock()  # guards what follows; a signal handler may release the lease
        self.event: Optional[Event] = None  # that asked for the end
        self._couriers: List[Deliver] = []
        self._watch: Optional[Subscription] = None
        self._closed = False
        self._process = 0  # the one that watches: a forked child watches for itself

    def add(self, courier: Deliver) -> None:
        """Tells a courier, once: at once if the event was there before."""
        with self._lock:
            self._couriers.append(courier)
            event = self.event
        if event is not None:
            courier(event)

    def tell(self, event: Event) -> None:
        """Takes an event that may ask for the end. Only the first one counts."""
        if not self._asks(event):
            return
        with self._lock:
            if self.event is not None:
                return
            self.event, couriers = event, list(self._couriers)
        for courier in couriers:
            courier(event)

    def watch(self) -> None:
        """Begins to listen, unless it does already. It asks the daemon what was
        said before, and waits in the background for a daemon that is away."""
        with self._lock:
            if self._closed or self.event is not None or self._process == os.getpid():
                return
            self._process = os.getpid()
            choice = Choice(STOPS, leases=frozenset([self._id]))
            watch = self._watch = Subscription(choice, self.tell, self.tell, self._client)
        try:
            kept = watch._kept()
        except BerthError:
            kept = []  # the listener waits for the daemon, and gets them then
        for event in self._own(kept):
            self.tell(event)
        watch._begin(max((event.id for event in kept), default=0))

    def close(self) -> None:
        """Stops listening."""
        with self._lock:
            self._closed = True
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.off()

    def _own(self, kept: List[Event]) -> List[Event]:
        """Leaves out the events of earlier leases that had the same id."""
        grants = [i for i, e in enumerate(kept) if e.code == "lease_granted" and e.data.get("fence") == self._fence]
        return kept[grants[-1] :] if grants else kept

    def _asks(self, event: Event) -> bool:
        if self._fence and event.data.get("fence", self._fence) != self._fence:
            return False  # an earlier lease of the same id, or that of another user
        if event.code in ENDED:
            return True
        if event.code == "lease_over_limit":
            return bool(event.data.get("policy") in ("stop", "revoke"))
        return event.code == "lease_stop"
