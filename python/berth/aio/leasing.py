"""Leases for programs with asyncio."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Optional, Union

from .. import calls, leasing
from ..calls import Request
from ..client import BerthError, Client, NoDaemon, Problem
from ..leasing import give_back_later, request_of
from ..memorytypes import Amount
from ..subscriptions import Callback, Deliver
from .subscriptions import LoopCourier
from .transport import run, send


def lease(
    memory: Amount = 0,
    *,
    gpus: int = 1,
    slots: int = 1,
    name: Optional[str] = None,
    service: Optional[str] = None,
    gpu: Union[int, str, None] = None,
    where: Optional[str] = None,
    policy: Optional[str] = None,
    prefer: Union[int, str, None] = None,
    priority: Optional[int] = None,
    timeout: Optional[float] = None,
    ttl: Optional[float] = None,
    time: Optional[float] = None,
    pin: bool = False,
    trim_on_request: bool = False,
    client: Optional[Client] = None,
) -> "Lease":
    """Returns a lease for an ``async with`` statement::

        async with berth.aio.lease(memory="4GiB") as gpu:
            await asyncio.create_subprocess_exec(*command, env=gpu.environ())

    The arguments are those of :func:`berth.lease`."""
    request = request_of(memory, gpus, slots, name, service, gpu, where, policy, prefer, priority, time)
    return Lease(request, timeout, ttl, pin, trim_on_request, client)


class Lease(leasing.Lease):
    """A :class:`berth.Lease` for an ``async with`` statement. What ``on_stop``
    is given runs in the loop, and may be a coroutine function."""

    _loop: Optional[asyncio.AbstractEventLoop] = None

    async def __aenter__(self) -> "Lease":
        self._loop = asyncio.get_running_loop()
        client = self._prepare()
        body, limit = self._body(client)
        try:
            granted = await send(Request("POST", "/api/leases", body, timeout=limit, client=client))
        except (Problem, NoDaemon):
            raise  # nothing was granted
        except BaseException:
            give_back_later(client, body["id"], None)
            raise
        self._hold(client, granted)
        return self

    async def __aexit__(self, *_: Any) -> None:
        granted = self._let_go()
        if granted is None:
            return
        try:
            await run(calls.release(granted["id"], fence=granted["fence"], client=self._client))
        except Problem as refused:
            if refused.status >= 500:
                self._give_back_later(granted)
        except BerthError:
            self._give_back_later(granted)
        except BaseException:
            self._give_back_later(granted)
            raise

    def _give_back_later(self, granted: Any) -> None:
        assert self._client is not None
        give_back_later(self._client, granted["id"], granted["fence"])

    def _courier(self, callback: Callback) -> Deliver:
        if self._loop is None:
            return super()._courier(callback)  # it is held by a plain with statement
        return LoopCourier(callback, self._loop)

    def _watch_stops(self) -> None:
        # To listen is to ask the daemon first, and the loop must not wait for that.
        threading.Thread(target=self._requests().watch, name="berth-stops", daemon=True).start()
