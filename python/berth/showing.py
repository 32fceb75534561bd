"""How answers look to people: one line in a terminal, a table in a notebook."""

from __future__ import annotations

import html
from typing import Any, Callable, Dict, Iterable, List, Sequence, Tuple, TypeVar

MANY = 4  # words of a list that are shown
WIDEST = 200  # letters of the line of an answer that has none of its own
Item = TypeVar("Item")
Columns = Sequence[Tuple[str, Callable[[Any], Any]]]


class Table(List[Item]):
    """A list of answers that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return table(self)


def amount(mb: Any) -> str:
    """Writes MiB for people."""
    if not isinstance(mb, (int, float)) or isinstance(mb, bool):
        return "–"
    return "%g MiB" % mb if abs(mb) < 1024 else "%.3g GiB" % (mb / 1024) if abs(mb) < 1024 * 1000 else "%d GiB" % (mb / 1024)


def _percent(value: Any) -> str:
    return "–" if value is None else "%.0f %%" % value


def _celsius(value: Any) -> str:
    return "–" if value is None else "%.0f °C" % value


def _of_sample(name: str, write: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda status: write(getattr(status.sample, name, None))


def _used(status: Any) -> str:
    used = getattr(status.sample, "memory_used_mb", None)
    return "%s of %s" % (amount(used), amount(status.device.memory_total_mb))


_LEASE: Columns = (
    ("id", lambda x: x.id), ("user", lambda x: x.holder.user), ("service", lambda x: x.holder.service),
    ("memory", lambda x: amount(x.memory_mb)), ("slots", lambda x: sum(part.slots for part in x.parts)),
    ("GPU", lambda x: ", ".join(part.gpu for part in x.parts)), ("state", lambda x: x.state or "active"),
    ("ends with", lambda x: {"process": "its process", "ttl": "its ttl", "named": "a release"}.get(x.binding, x.binding)),
)  # fmt: skip

# The columns of the kinds of answers that have a table, by the name of the class.
COLUMNS: Dict[str, Columns] = {
    "Device": (
        ("GPU", lambda x: x.index), ("name", lambda x: x.name), ("memory", lambda x: amount(x.memory_total_mb)),
        ("UUID", lambda x: x.uuid),
    ),
    "Status": (
        ("GPU", lambda x: x.device.index), ("name", lambda x: x.device.name), ("state", lambda x: x.state),
        ("load", _of_sample("utilization_percent", _percent)), ("memory", _used),
        ("temperature", _of_sample("temperature_celsius", _celsius)),
        ("slots", lambda x: "%d of %d" % (x.slots.active, x.slots.capacity)),
    ),
    "Allocation": _LEASE,
    "Waiting": (
        ("waits", lambda x: x.position), ("id", lambda x: x.id), ("user", lambda x: x.holder.user),
        ("service", lambda x: x.holder.service), ("memory", lambda x: amount(x.memory_mb)), ("GPUs", lambda x: x.gpus),
    ),
    "Job": (
        ("id", lambda x: x.id), ("user", lambda x: x.user), ("state", lambda x: x.state),
        ("memory", lambda x: amount(x.memory_mb)), ("why", lambda x: x.cause),
    ),
}  # fmt: skip

# The lists of answers that are shown as one table after the other. Who goes through the
# answer gets what is in the first.
PARTS = {"StatusAll": ("gpus",), "Leases": ("leases", "waiting"), "Strays": ("orphans", "foreign")}


def table(items: Iterable[Any]) -> str:
    """Returns answers of one kind as a table. Whatever others wrote is text."""
    rows = list(items)
    columns = COLUMNS.get(type(rows[0]).__name__, ()) if rows else ()
    if not columns:
        return "<p>%s</p>" % html.escape("none" if not rows else repr(rows))
    head = "".join("<th>%s</th>" % html.escape(name) for name, _ in columns)
    lines = ["<table><thead><tr>%s</tr></thead><tbody>" % head]
    for row in rows:
        cells = "".join("<td>%s</td>" % html.escape(str(_read(read, row))) for _, read in columns)
        lines.append("<tr>%s</tr>" % cells)
    return "".join(lines) + "</tbody></table>"


def page(answer: Any) -> Any:
    """Returns an answer as tables, or None if it has none."""
    kind = type(answer).__name__
    if kind in PARTS:
        lists = [getattr(answer, name) for name in PARTS[kind]]
        return "".join(table(each) for each in lists if each) or table([])
    return table([answer]) if kind in COLUMNS else None


def line(answer: Any, values: Dict[str, Any], empty: Dict[str, Any]) -> str:
    """Returns an answer in one line: what a table has of it, or the fields that are not
    as they are when nothing is said."""
    kind = type(answer).__name__
    if kind in COLUMNS:
        said = ["%s %s" % (name, text) for name, text in _texts(answer, COLUMNS[kind]) if text not in ("", "None")]
        return "<%s: %s>" % (kind, ", ".join(said))
    said = ["%s=%s" % (name, _short(value)) for name, value in values.items() if value != empty.get(name)]
    text = ", ".join(said)
    return "%s(%s)" % (kind, text if len(text) <= WIDEST else text[:WIDEST] + "…")


def _texts(answer: Any, columns: Columns) -> List[Tuple[str, str]]:
    return [(name, str(_read(read, answer))) for name, read in columns]


def _read(read: Callable[[Any], Any], answer: Any) -> Any:
    try:
        return read(answer)
    except (AttributeError, TypeError, ValueError):
        return "–"  # a daemon of another version, or something that is none


def _short(value: Any) -> str:
    if isinstance(value, list) and 0 < len(value) <= MANY and all(isinstance(item, str) for item in value):
        return repr(value)
    if isinstance(value, (list, dict)) and value:
        return "%s of %d" % (type(value).__name__, len(value))
    return repr(value)
