"""The worker's side of a batch: ``berth run … -- python worker.py`` starts the
program with a GPU of its own, and the program calls :func:`worker`.

Frames are lines of JSON on two pipes, whose numbers are in the environment;
docs/reference/batch-protocol.md describes them. Standard output is free for printing.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import inspect
import json
import os
import re
import sys
import threading
import traceback
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Optional, Tuple

from .client import BerthError
from .leasing import current
from .trimming import trim
from .trimrequests import trim_on_request

PROTOCOL = 1


def worker(process: Callable[..., Any], init: Optional[Callable[[], Any]] = None, *, each: bool = False) -> None:
    """Works on records until there are no more, and returns::

        def load_model(): ...

        def embed(records, model):
            return [{"id": r["id"], "vector": v} for r, v in zip(records, model(records))]

        berth.worker(embed, init=load_model)

    ``process`` takes a list of records and returns a list of outcomes, one for
    each, in their order; ``init`` is called once before, and what it returns is
    given to ``process`` too. With ``each`` they are single records and outcomes.

    An exception in the place of an outcome, or with ``each`` raised by
    ``process``, is the error of that record. One that is raised for a whole
    batch has the batch taken apart until the record is found. When memory runs
    out, caches are freed and the next batches are smaller."""
    pipes = _open()
    _check(process, init, each)
    state = () if init is None else (init(),)
    if each:
        process = _for_each(process)
    if current() is not None:
        trim_on_request()
    _settle()
    pipes.say({"type": "ready", "protocol": PROTOCOL})
    for line in pipes.lines:
        batch = _read(line)
        if batch["type"] == "bye":
            break
        if batch["type"] == "batch":
            pipes.write(_line(_work(process, state, batch)))
    pipes.close()


def progress() -> None:
    """Says that the worker is alive: the time limit of the batch begins anew.
    For batches, and models, that take longer than the limit."""
    if _PIPES:
        _PIPES[-1].say({"type": "progress"})


class _Pipes:
    def __init__(self, lines: BinaryIO, out: BinaryIO):
        self.lines, self._out = lines, out
        self._lock = threading.Lock()  # a frame is written whole

    def say(self, frame: Dict[str, Any]) -> None:
        self.write(json.dumps(frame, separators=(",", ":")))

    def write(self, frame: str) -> None:
        with self._lock:
            self._out.write(frame.encode() + b"\n")
            self._out.flush()

    def close(self) -> None:
        _PIPES.remove(self)
        self.lines.close()
        self._out.close()


_PIPES: List[_Pipes] = []  # of the worker that runs in this process, if one does


def _open() -> _Pipes:
    version = os.environ.get("BERTH_WORKER_PROTOCOL")
    if version is None:
        raise BerthError(
            "this is a worker for batches: start it with berth run --input in.jsonl --output out.jsonl -- python %s"
            % (os.path.basename(sys.argv[0]) or "worker.py")
        )
    if version != str(PROTOCOL):
        raise BerthError(
            "this worker speaks version %d of the protocol, and berth run version %s: "
            "install the package that came with it" % (PROTOCOL, version)
        )
    ends = [int(os.environ[name]) for name in ("BERTH_WORKER_IN", "BERTH_WORKER_OUT")]
    for end in ends:
        os.set_inheritable(end, False)  # what the worker starts must not keep them open
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)  # records are not for us to judge
    pipes = _Pipes(open(ends[0], "rb", buffering=1 << 20), open(ends[1], "wb", buffering=1 << 20))
    _PIPES.append(pipes)
    return pipes


def _settle() -> None:
    """Keeps what is loaded out of garbage collections: batches have many objects, and
    each collection of all would look at every module and at the model."""
    gc.collect()
    gc.freeze()


def _check(process: Callable[..., Any], init: Optional[Callable[[], Any]], each: bool) -> None:
    """Refuses a function that cannot be called as it will be, before a model is
    loaded for it and every record fails."""
    given = ["record" if each else "records"] + ([] if init is None else ["what init returned"])
    try:
        inspect.signature(process).bind(*given)
    except ValueError:
        pass  # nobody knows: it is not written in Python
    except TypeError as why:
        name = getattr(process, "__name__", "process")
        hint = "; give init=, which makes the model" if init is None else ""
        raise BerthError("worker: %s is called with (%s): %s%s" % (name, ", ".join(given), why, hint)) from None


_HEAD = re.compile(rb'\{"type":"batch","id":(\d+),')


def _read(line: bytes, loads: Callable[[bytes], Any] = json.loads) -> Dict[str, Any]:
    """A frame. One that Python cannot read (it is nested too deep) comes with
    the reason, so that the record can be found."""
    try:
        return loads(line)  # type: ignore[no-any-return]
    except (ValueError, RecursionError) as why:
        head = _HEAD.match(line)
        if head is None:
            raise BerthError("worker: %r is not a frame" % line[:60]) from why
        return {"type": "batch", "id": int(head[1]), "unreadable": why}


def _work(process: Callable[..., Any], state: Tuple[Any, ...], batch: Dict[str, Any]) -> Dict[str, Any]:
    """Returns the frame that answers a batch."""
    id = batch["id"]
    try:
        if "unreadable" in batch:
            raise batch["unreadable"]
        records = batch["records"]
        outcomes = _outcomes(process, records, *state)
        return {"type": "result", "id": id, "outcomes": outcomes}
    except Exception as why:
        if of_the_process(why):
            return _given_up(id, why)
        # Where a record failed goes to the log when it is found. After a wrong number of
        # outcomes single records may pass, and nobody would know that the function is wrong.
        if len(batch.get("records", ())) == 1 or isinstance(why, Miscounted):
            (_hint if SINGLY in str(why) else _show)(why)
        return {"type": "error", "id": id, "text": _text(why)}


def _given_up(id: int, why: Exception) -> Dict[str, Any]:
    """Returns the frame that answers a batch if its records are not to blame, or ends the
    worker."""
    if not out_of_memory(why):
        raise why  # this process cannot use its GPU any more: another one can
    why.__traceback__ = None  # its frames hold the arrays
    trim()
    return {"type": "oom", "id": id, "text": _text(why)}


SINGLY = "a function gets a list of records and returns a list of outcomes; for one record at a time, give each=True"


class Miscounted(BerthError):
    """A function returned more or fewer outcomes than it got records."""


def _outcomes(process: Callable[..., Any], records: List[Any], *state: Any) -> List[Any]:
    """Calls a function with records, and returns as many outcomes. A function that is
    meant for one record is told of ``each``."""
    name = getattr(process, "__name__", "process")
    try:
        returned = process(records, *state)
    except (TypeError, AttributeError) as why:
        if "list" in str(why) and SINGLY not in str(why) and len(why.args) == 1:
            why.args = ("%s (%s)" % (why.args[0], SINGLY),)
        raise
    if isinstance(returned, (str, bytes, dict)) or not hasattr(returned, "__iter__"):
        raise BerthError("%s returned %s: %s" % (name, type(returned).__name__, SINGLY))
    outcomes = list(returned)
    if len(outcomes) != len(records):
        raise Miscounted(
            "%s returned %d outcome%s for %d record%s: %s"
            % (name, len(outcomes), "s"[: len(outcomes) != 1], len(records), "s"[: len(records) != 1], SINGLY)
        )
    return outcomes


def _line(frame: Dict[str, Any], encode: Optional[Callable[[Any], str]] = None) -> str:
    """Returns an answer as it is sent."""
    write = encode or _encode
    return _result(frame["id"], frame["outcomes"], write) if frame["type"] == "result" else write(frame)


_SHOWN: Dict[Tuple[str, int], int] = {}  # how often a failure was met, by its place in the code
_FOLDERS: List[str] = []  # the one that the workers of a map share, if this is one of them


def _hint(why: Exception) -> None:
    """Shows the failure of a function that seems to be meant for single records, once for
    all workers of a map."""
    met = _SHOWN["each", 0] = _SHOWN.get(("each", 0), 0) + 1
    if met > 1 or not all(_is_first(folder, "each") for folder in _FOLDERS):
        return
    if isinstance(why, Miscounted):
        print("%s. Its records are given to it in smaller batches now." % why, file=sys.stderr, flush=True)
    elif isinstance(why, BerthError):  # no line of the function is to blame
        print(why, file=sys.stderr, flush=True)
    else:
        print_failure(why)


def _is_first(folder: str, what: str) -> bool:
    """Reports whether no other worker with this folder has left a mark of something, and
    leaves it."""
    mark = "failed-" + hashlib.blake2b(what.encode("utf-8", "replace"), digest_size=8).hexdigest()
    try:
        os.close(os.open(os.path.join(folder, mark), os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return False
    return True


def _show(why: BaseException) -> None:
    """Prints where a record failed, the first times: a mistake in the function
    fails for every record, and each record says what it failed with."""
    last = traceback.extract_tb(why.__traceback__)[-1:]
    place = (last[0].filename, last[0].lineno or 0) if last else ("", 0)
    met = _SHOWN[place] = _SHOWN.get(place, 0) + 1
    if met <= 3:
        print_failure(why)
    if met == 3:
        print("further failures at this place are not shown; their records have them in _error", file=sys.stderr, flush=True)


AS_BEFORE = "as before: "  # begins what a worker prints that fails like another one


@contextlib.contextmanager
def saying_why(folder: str) -> Iterator[None]:
    """Ends the worker if it cannot start. The first worker prints where that happened,
    and those that fail like it one line: a mistake in the program fails on every GPU,
    again and again. ``folder`` is one that the workers share."""
    try:
        yield
    except Exception as why:
        text = _text(why)
        if _is_first(folder, text):
            print_failure(why)
        else:
            print(AS_BEFORE + text, file=sys.stderr)
        sys.stderr.flush()
        raise SystemExit(1) from None


def print_failure(why: BaseException) -> None:
    """Prints an exception with the frames of the program, without those of this package
    that called it."""
    here, frames = os.path.dirname(os.path.abspath(__file__)), why.__traceback__
    while frames is not None and os.path.dirname(os.path.abspath(frames.tb_frame.f_code.co_filename)) == here:
        frames = frames.tb_next
    traceback.print_exception(type(why), why, frames or why.__traceback__)


def _result(id: int, outcomes: List[Any], encode: Callable[[Any], str]) -> str:
    errors: Dict[str, str] = {}
    for place, outcome in enumerate(outcomes):
        if isinstance(outcome, BaseException):
            errors[str(place)] = _text(outcome)
            outcomes[place] = None
    try:
        return encode({"type": "result", "id": id, "outcomes": outcomes, "errors": errors})
    except (TypeError, ValueError, RecursionError):
        pass  # at least one of them; which, is found out one by one
    for place, outcome in enumerate(outcomes):
        try:
            encode(outcome)
        except (TypeError, ValueError, RecursionError) as why:
            errors[str(place)] = "the outcome cannot be written as JSON: " + _text(why)
            outcomes[place] = None
    return encode({"type": "result", "id": id, "outcomes": outcomes, "errors": errors})


def _plain(value: Any) -> Any:
    """What NumPy, torch and others have for numbers and lists."""
    for name in ("tolist", "item"):
        convert = getattr(value, name, None)
        if callable(convert):
            return convert()
    raise TypeError("%s is not JSON" % type(value).__qualname__)


# NaN and infinity are not JSON, whatever Python's default is.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain).encode


def _for_each(process: Callable[..., Any]) -> Callable[..., List[Any]]:
    def batch(records: List[Any], *state: Any) -> List[Any]:
        return [one(record, *state) for record in records]

    def one(record: Any, *state: Any) -> Any:
        try:
            return process(record, *state)
        except Exception as why:
            if of_the_process(why):
                raise
            return why

    return batch


def of_the_process(why: BaseException) -> bool:
    """Whether an exception is about this process and not about the record: memory ran
    out, or the GPU is lost."""
    return out_of_memory(why) or broken_device(why)


def out_of_memory(why: BaseException) -> bool:
    """Whether memory ran out, on the GPU or here: every library has an error of
    its own for it."""
    if isinstance(why, MemoryError) or type(why).__name__ in ("OutOfMemoryError", "ResourceExhaustedError"):
        return True
    text = str(why)
    return any(word in text for word in ("out of memory", "RESOURCE_EXHAUSTED", "CUBLAS_STATUS_ALLOC_FAILED"))


def broken_device(why: BaseException) -> bool:
    """Whether the CUDA context is lost: after such an error every call fails,
    until the process ends."""
    return bool(_BROKEN.search(str(why)))


_BROKEN = re.compile(
    r"CUDA error: |cudaError(?!MemoryAllocation|NotReady)[A-Z]|CUDA_ERROR_(?!OUT_OF_MEMORY|NOT_READY)[A-Z]"
    r"|illegal memory access|device-side assert|unspecified launch failure"
)


def _text(why: BaseException) -> str:
    return ("%s: %s" % (type(why).__name__, why)).strip(": ")[:2000]
