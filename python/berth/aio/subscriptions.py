"""Callbacks for events in the loop of asyncio, and events to loop over."""

from __future__ import annotations

import asyncio
import collections
import inspect
from typing import Any, AsyncIterator, Awaitable, Callable, Deque, Optional, Union

from .. import subscriptions
from ..answers import Event
from ..client import Client, Place
from ..subscriptions import Codes, GPUs, Leases, Subscription, query_of
from .transport import follow as follow_events

Callback = Callable[[Event], Union[Any, Awaitable[Any]]]


class LoopCourier:
    """Calls a callback in a loop, with one event after the other, and awaits what
    it returns."""

    def __init__(self, callback: Callback, loop: asyncio.AbstractEventLoop):
        self._callback, self._loop = callback, loop
        self._waiting: Deque[Event] = collections.deque()  # only the loop uses it
        self._dropped = 0
        self._task: "Optional[asyncio.Task[None]]" = None

    def __call__(self, event: Event) -> None:
        try:
            self._loop.call_soon_threadsafe(self._put, event)
        except RuntimeError:
            pass  # the loop is closed

    def _put(self, event: Event) -> None:
        if len(self._waiting) >= subscriptions.MOST_WAITING:
            self._waiting.popleft()
            self._dropped += 1
            if self._dropped == 1:
                subscriptions.warn_behind(self._callback)
        self._waiting.append(event)
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            with subscriptions.logged(self._callback, event):
                result = self._callback(event)
                if inspect.isawaitable(result):
                    await result
        self._dropped = 0


async def on(
    code: Codes,
    callback: Callback,
    *,
    gpu: GPUs = None,
    lease: Leases = None,
    severity: str = "info",
    client: Optional[Client] = None,
) -> Subscription:
    """Calls a function, or a coroutine function, with every event of a code from
    now on. It runs in the loop of the caller: a coroutine that never returns
    stops no other callback, a plain function that blocks stops the loop. The
    arguments are those of :func:`berth.on`."""
    courier = LoopCourier(callback, asyncio.get_running_loop())
    return await asyncio.to_thread(subscriptions.subscribe, code, callback, courier, gpu, lease, severity, client)


def off(callback: Union[Callback, Subscription]) -> bool:
    """Ends the subscriptions of a callback, or the one that :func:`on` returned.
    Returns whether there was one."""
    return subscriptions.off(callback)


async def events(
    code: Codes = None,
    *,
    after: int = 0,
    follow: bool = True,
    gpu: GPUs = None,
    lease: Leases = None,
    severity: str = "info",
    client: Optional[Client] = None,
) -> AsyncIterator[Event]:
    """Yields the events that the daemon has kept, oldest first, and with
    ``follow`` all further ones as they happen: ``async for event in
    berth.aio.events("critical")``. The arguments are those of
    :func:`berth.events`."""
    async for item in follow_events(client or Client(), Place(after), follow, query_of(code, gpu, lease, severity)):
        if not isinstance(item, int):
            yield Event.read(item)
