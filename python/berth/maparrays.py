"""Arrays among the records and outcomes of a map. They travel as JSON with their bytes,
and are arrays of NumPy on the other side."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any, Callable, Dict

from .client import BerthError
from .libraries import library_of
from .workers import _plain

MARK = "__berth_array__"  # the only key of an object that stands for an array
_FOUND = b'"' + MARK.encode() + b'"'


def plain(value: Any) -> Any:
    """What stands for a value that is not JSON: an array of numbers keeps its type and
    its shape, and the rest is what :func:`berth.worker` makes of it."""
    if "numpy" not in sys.modules or not hasattr(value, "dtype") or getattr(value, "ndim", 0) == 0:
        return _plain(value)
    numpy = sys.modules["numpy"]
    try:
        library = library_of(value)
        array = value if isinstance(value, numpy.ndarray) else library.to_host(library.plain(value))
    except TypeError:
        return _plain(value)
    if array.dtype.hasobject or array.dtype.names or array.dtype.kind in "Mm":
        return array.tolist()
    data = base64.b64encode(numpy.ascontiguousarray(array).tobytes()).decode("ascii")
    return {MARK: [array.dtype.str, list(array.shape), data]}


def loads(text: bytes) -> Any:
    """Reads JSON, with the arrays in it."""
    if _FOUND not in text:
        return json.loads(text)
    return json.loads(text, object_hook=_revive)


def _revive(found: Dict[str, Any]) -> Any:
    said = found.get(MARK)
    if len(found) != 1 or not isinstance(said, list) or len(said) != 3 or not isinstance(said[2], str):
        return found
    try:
        import numpy
    except ImportError as why:
        raise BerthError("map: an array came, and NumPy is not there to hold it: install numpy (%s)" % why) from None
    try:
        data = base64.b64decode(said[2], validate=True)
        return numpy.frombuffer(data, dtype=numpy.dtype(said[0])).reshape(said[1]).copy()
    except (TypeError, ValueError):
        return found  # of somebody who uses the same key


encode: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=plain).encode

