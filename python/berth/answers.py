"""The answers of the daemon as dataclasses.

Fields have the names of the JSON; one that is a word of Python has an underscore
at its end, such as ``from_``. A field that an answer lacks has its default, and a
field that this package does not know stays in ``document``: so the package works
with daemons that are older or newer than itself.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from .answer import Answer, Time, _dict, _list
from .schemas import *
from .schemas import Allocation as Allocation
from .schemas import By as By
from .schemas import Waiting as Waiting


class QuerySeries(Answer):
    """The values of one set of labels, the oldest first."""

    labels: Dict[str, str] = _dict()  # __name__ is the name of the metric
    times: List[float] = _list()  # seconds since 1970
    values: List[float] = _list()  # as many; may be NaN or infinite

    @property
    def value(self) -> float:
        """The last value."""
        return self.values[-1]


class QueryAnswer(Answer):
    """The answer to a question in PromQL."""

    type: str = ""  # vector: series with one value each; matrix: series over a time; scalar; string
    series: List[QuerySeries] = _list()
    value: Optional[float] = None  # of a scalar
    text: str = ""  # of a string
    warnings: List[str] = _list()
    infos: List[str] = _list()


class Service(Answer):
    """A service: what the configuration says about it, and what it holds."""

    name: str = ""
    settings: Dict[str, str] = _dict()  # such as max_memory_mb, as in berth.yaml
    leases: List[Allocation] = _list()
    waiting: List[Waiting] = _list()

    @property
    def memory_mb(self) -> int:
        """The memory that its leases hold, over all devices."""
        return sum(part.memory_mb for lease in self.leases for part in lease.parts)


class Event(Answer):
    """Something that happened. docs/reference/events.md lists the codes."""

    id: int = 0
    time: Optional[Time] = None
    code: str = ""
    also: List[str] = _list()  # codes of what happened with it, for the same reason
    severity: str = ""  # info, warning or critical
    gpu: str = ""  # UUID of the device it is about
    lease: str = ""  # id of the lease it is about
    user: str = ""
    by: Optional[By] = None  # None: the daemon did it by itself
    text: str = ""  # one sentence for people
    data: Dict[str, Any] = _dict()  # the numbers behind the sentence
