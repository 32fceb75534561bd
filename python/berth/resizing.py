"""The limits of libraries, while a lease that they keep to gets another size."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping

from . import caps
from .trimming import trim


class Resizing:
    """Keeps the limits of the libraries in this process below the size of a lease at
    every moment: before it gets smaller, the limits do, and caches are freed. A
    refusal takes that back. Limits grow only after the lease has."""

    def __init__(self, had_mb: int, wants_mb: int, context_mb: int):
        self._had, self._wants, self._context = had_mb, wants_mb, context_mb
        self.limits: Dict[str, str] = {}  # what became of the limit of each library

    def __enter__(self) -> "Resizing":
        if self._wants < self._had:
            self._limit(self._wants)
            trim()
        return self

    def __exit__(self, error: Any, *_: Any) -> None:
        if error is not None and self._wants < self._had:
            self._limit(self._had)

    def follow(self, memory_mb: int) -> None:
        """Gives the libraries the size that the lease has now."""
        self._had = self._wants = memory_mb
        self._limit(memory_mb)

    def tell(self, memory_mb: int, total_mb: int) -> None:
        """Changes the variables from which programs that start later take their
        limits, where there are such variables."""
        pool = caps.pool(memory_mb, self._context)
        _change(dict(caps.environment(pool, total_mb), BERTH_MEMORY_MB=str(memory_mb)))

    def _limit(self, memory_mb: int) -> None:
        self.limits = caps.follow(caps.pool(memory_mb, self._context))


def _change(variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        if name in os.environ:
            os.environ[name] = value
