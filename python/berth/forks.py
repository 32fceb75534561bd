"""What children of a fork must not share with their parent."""

from __future__ import annotations

import os
import weakref
from typing import Any, Callable


def in_children(forget: Callable[[], None]) -> None:
    """Calls a function in each child of a fork. Windows has none."""
    register = getattr(os, "register_at_fork", None)
    if register is not None:
        register(after_in_child=forget)


_OWN: "weakref.WeakSet[Any]" = weakref.WeakSet()


def disown_in_children(thing: Any) -> None:
    """Has children of a fork call ``disown`` of a thing."""
    _OWN.add(thing)


def _disown() -> None:
    for thing in list(_OWN):
        thing.disown()


in_children(_disown)
