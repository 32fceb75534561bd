"""Leases for programs with asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any, AsyncContextManager, AsyncIterator, Dict, List, Optional, Tuple, Union

from .. import calls, leasing
from ..answers import Allocation, Ended
from ..client import BerthError, Client, NoDaemon, Problem, Request
from ..leasing import give_back_later, perhaps_parked, request_of, stands
from ..memorytypes import Amount, resized
from ..persisting import persisting
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
    parkable: Union[bool, str] = False,
    exclusive: bool = False,
    on_park: Optional[Callback] = None,
    on_resume: Optional[Callback] = None,
    comment: Optional[str] = None,
    pool: Union[str, leasing.Pool, "Pool", None] = None,
    client: Optional[Client] = None,
) -> "Lease":
    """Returns a lease for an ``async with`` statement::

        async with berth.aio.lease(memory="4GiB") as gpu:
            await asyncio.create_subprocess_exec(*command, env=gpu.environ())

    The arguments are those of :func:`berth.lease`, and so is the use as a
    decorator."""
    request = request_of(
        memory, gpus, slots, name, service, gpu, where, policy, prefer, priority, time, parkable, comment, exclusive, pool
    )
    made = Lease(request, timeout, ttl, pin, trim_on_request, client)
    made._call_when_parked(on_park, on_resume)
    return made


def pool(
    memory: Amount,
    *,
    name: Optional[str] = None,
    gpu: Union[int, str, None] = None,
    where: Optional[str] = None,
    policy: Optional[str] = None,
    prefer: Union[int, str, None] = None,
    priority: Optional[int] = None,
    timeout: Optional[float] = None,
    ttl: Optional[float] = None,
    time: Optional[float] = None,
    comment: Optional[str] = None,
    client: Optional[Client] = None,
) -> "Pool":
    """Returns a pool for an ``async with`` statement. The arguments are those of
    :func:`berth.pool`."""
    request = request_of(memory, 1, 0, name, None, gpu, where, policy, prefer, priority, time, False, comment)
    return Pool({**request, "pool": True}, timeout, ttl, False, False, client)


class Lease(leasing.Lease):
    """A :class:`berth.Lease` for an ``async with`` statement. What ``on_stop``,
    ``on_park`` and ``on_resume`` are given runs in the loop, and may be a coroutine
    function. ``park``, ``resume``, ``wake`` and ``resize`` are coroutines, and
    ``use`` is for ``async with``."""

    _loop: Optional[asyncio.AbstractEventLoop] = None

    async def __aenter__(self) -> "Lease":
        self._loop = asyncio.get_running_loop()
        client = self._prepare()
        self._asking = True
        try:
            granted = await self._held_here(client)
        finally:
            self._asking = False
        try:
            await run(self._announcing())
        except BaseException:
            if self._let_go() is not None:
                self._give_back_later(granted)
            raise
        return self

    async def _held_here(self, client: Client) -> Dict[str, Any]:
        """Takes the lease, and returns what was granted."""
        for other in perhaps_parked():
            await run(other._waking(self._patience()))
        body, limit = self._body(client)
        try:
            granted: Dict[str, Any] = await run(persisting(Request("POST", "/api/leases", body, timeout=limit, client=client)))
        except (Problem, NoDaemon):
            raise  # nothing was granted
        except BaseException:
            if self._made_id(body):
                give_back_later(client, body["id"], None)
            raise
        try:
            known = await self._asked_ahead(client, granted)
        except BaseException:
            self._give_back_later(granted)
            raise
        self._hold(client, granted, *known)
        return granted

    async def _asked_ahead(self, client: Client, granted: Dict[str, Any]) -> Tuple[List[Dict[str, Any]], Optional[int]]:
        """Returns what ``env`` needs of the daemon, which the loop must not wait for
        later; nothing if the daemon does not answer now."""
        try:
            uuids = [part["gpu"] for part in granted["parts"]]
            devices = [await send(Request("GET", "/api/gpu/status", query={"gpu": uuid}, client=client)) for uuid in uuids]
            config = await send(Request("GET", "/api/gpu/config", client=client))
            return [found["device"] for found in devices], int(config["context_mb"])
        except BerthError:
            return [], None

    async def __aexit__(self, *_: Any) -> None:
        granted = self._let_go()
        if granted is None:
            return
        try:
            await run(calls.release(granted["id"], fence=granted["fence"], client=self._client))
        except Problem as refused:
            if stands(refused):
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

    async def cancel(self, reason: Optional[str] = None) -> Ended:  # type: ignore[override]
        return await run(self._cancelling(reason))

    async def park(self, reason: Optional[str] = None, unshared: bool = False) -> Allocation:  # type: ignore[override]
        return self._described_as(await run(self._parking(reason, unshared)))

    async def resume(self, timeout: Optional[float] = None) -> Allocation:  # type: ignore[override]
        return self._described_as(await run(self._resuming(timeout)))

    async def wake(self) -> None:  # type: ignore[override]
        await run(self._named(calls.wake))

    async def resize(self, memory: Amount, timeout: Optional[float] = None) -> Dict[str, str]:  # type: ignore[override]
        with self._resizing(resized(memory)) as change:
            self._take_size(change, await run(self._named(calls.resize, memory, timeout=timeout)))
        return change.limits

    def use(self) -> AsyncContextManager["Lease"]:  # type: ignore[override]
        return self._use_here()

    @contextlib.asynccontextmanager
    async def _use_here(self) -> AsyncIterator["Lease"]:
        await run(self._waking(None))
        yield self

    def _watch_parks(self) -> None:
        if self._parks is not None:
            threading.Thread(target=self._parks.watch, name="berth-parks", daemon=True).start()

    def _watch_stops(self) -> None:
        # To listen is to ask the daemon first, and the loop must not wait for that.
        threading.Thread(target=self._requests().watch, name="berth-stops", daemon=True).start()


class Pool(Lease, leasing.Pool):
    """A :class:`berth.Pool` for an ``async with`` statement. ``left_mb`` is awaited."""

    def lease(self, memory: Amount, *, name: Optional[str] = None, **wishes: Any) -> Lease:  # type: ignore[override]
        return lease(memory, name=name, pool=self, **{"client": self._client, **wishes})

    @property
    async def left_mb(self) -> int:  # type: ignore[override]
        found = await run(calls.find_lease(self.id, client=self._client))
        return found.pool.left_mb if found.pool is not None else 0
