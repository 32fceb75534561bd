"""Makes the calls of the API, and awaits their answers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Coroutine

from ..asking import begun, described
from ..client import Call, Result
from .transport import run

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    Args = ParamSpec("Args")


def awaited(ask: "Callable[Args, Call[Result]]", name: str = "") -> "Callable[Args, Coroutine[Any, Any, Result]]":
    """Makes a coroutine function that makes a call and returns its answer."""

    @functools.wraps(ask)
    async def call(*args: "Args.args", **kwargs: "Args.kwargs") -> Result:
        return await run(begun(ask, call.__name__, args, kwargs))

    return described(call, ask, name)
