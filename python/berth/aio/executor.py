"""An executor for programs with asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Iterable, List, Optional, TypeVar

from .. import executor

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    Args = ParamSpec("Args")

T = TypeVar("T")


class Executor:
    """A :class:`berth.Executor` for an ``async with`` statement::

        async with berth.aio.Executor(memory="8GiB") as pool:
            losses = await asyncio.gather(*(pool.submit(train, lr) for lr in rates))

    Its arguments are those of :class:`berth.Executor`. ``submit`` returns a future of
    asyncio; a task that is cancelled while it awaits one cancels the call if it has
    not begun."""

    def __init__(self, max_workers: Optional[int] = None, **options: Any):
        self._pool = executor.Executor(max_workers, **options)

    async def __aenter__(self) -> "Executor":
        return self

    async def __aexit__(self, kind: Any, *_: Any) -> None:
        if kind is not None and not issubclass(kind, Exception):  # a cancellation: nobody wants the rest
            self._pool._work.stop()
        await self.shutdown()

    def submit(self, fn: "Callable[Args, T]", /, *args: "Args.args", **kwargs: "Args.kwargs") -> "asyncio.Future[T]":
        """Makes a call in a worker, and returns what to await."""
        return asyncio.wrap_future(self._pool.submit(fn, *args, **kwargs))

    async def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], chunksize: int = 1, buffersize: Optional[int] = None
    ) -> AsyncIterator[T]:
        """Calls a function with the items of iterables, and gives what it returns in
        their order, for ``async for``. ``chunksize`` and ``buffersize`` are those of
        :class:`berth.Executor`."""
        futures, more = self._pool._calls(fn, iterables, chunksize, buffersize)
        try:
            while futures:
                outcomes: List[T] = await asyncio.wrap_future(futures[0])
                futures.popleft()
                futures.extend(executor.next_of(more))
                outcomes.reverse()
                while outcomes:
                    yield outcomes.pop()  # nothing here holds what the caller has
        finally:
            for future in futures:
                future.cancel()

    async def shutdown(self, *, cancel_futures: bool = False) -> None:
        """Takes no more calls, and waits until those that it has are done. With
        ``cancel_futures`` calls that have not begun are cancelled."""
        self._pool.shutdown(wait=False, cancel_futures=cancel_futures)
        await asyncio.to_thread(self._pool.shutdown)
