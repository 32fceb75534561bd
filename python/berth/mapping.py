"""A function over many records, on every GPU: ``berth.map`` and ``berth.imap``.

Both start ``berth run`` and speak with it through pipes, so that a map has what
a batch has: a process for each GPU under its lease, exactly one outcome for each
record whatever dies, smaller batches when memory runs out, bars.
"""

from __future__ import annotations

import collections.abc
import itertools
import json
import os
import sys
import time
from typing import (
    TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Literal, NamedTuple, Optional, Sequence, TypedDict, TypeVar, Union, overload,
)  # fmt: skip

from . import maparrays, workers
from .client import BerthError, Client
from .maphosts import away, gather
from .mapkept import Kept, kept_file
from .maprun import Folder, Runner, check_places, run_command, time_limit, worker_program, write
from .mapsource import source_of
from .memorytypes import asked
from .mistakes import explained

if TYPE_CHECKING:
    from typing_extensions import Unpack

Made = TypeVar("Made")

LONGEST_RECORD = 16 << 20  # bytes; berth run takes no longer line
AHEAD = 256  # batches whose outcomes imap holds while an earlier one is missing
LATE = 0.01  # seconds that a record waits for others, so that many are sent at a time
MOST = 512  # records that are sent at a time
HEAD_START = "2s"  # what the first worker does in this time starts no others
MANY = 10_000  # so many records are worth other workers from the start


Outcome = Sequence[Any]  # the number of a record, and its outcome


class Failure(NamedTuple):
    """A record that failed: its number, from 0, why, and its outcome, which is
    the record with the reason in ``_error``."""

    index: int
    error: str
    outcome: Any


class MapError(BerthError):
    """Records of a map failed. ``failures`` has them; ``outcomes`` has what map
    would have returned, with ``_error`` in the outcomes of those that failed."""

    def __init__(self, failures: Sequence[Failure], outcomes: Sequence[Any]):
        self.failures: List[Failure] = list(failures)
        self.outcomes: List[Any] = list(outcomes)
        first = self.failures[0]
        many = "1 record failed" if len(self.failures) == 1 else "%d records failed, the first of them" % len(self.failures)
        super().__init__("map: %s: record %d: %s" % (many, first.index, first.error))


class Rest(TypedDict, total=False):
    """What map and imap take by name alone, without what decides about their types."""

    read: Optional[Callable[[Any], Any]]
    memory: Union[str, int, None]
    where: Optional[str]
    service: Optional[str]
    timeout: Optional[float]
    ready_timeout: Optional[float]
    progress: bool
    client: Optional[Client]
    hosts: Union[str, Iterable[str], None]
    files: Iterable[str]
    python: Optional[str]
    kubernetes: Optional[Dict[str, Any]]


class Options(Rest, total=False):
    """What map and imap take by name, without what decides about their types."""

    gpus: Union[int, str]
    batch: int
    workers_per_gpu: int
    io_threads: Optional[int]
    ordered: bool
    name: Optional[str]


# A function that is typed gives outcomes of its type, unless failures may be among them.
# fmt: off
@overload
def map(
    function: Callable[..., Iterable[Made]], records: Iterable[Any], init: Optional[Callable[[], Any]] = None, *,
    each: Literal[False] = False, write: None = None, errors: Literal["raise"] = "raise", **options: "Unpack[Options]",
) -> List[Made]: ...
@overload
def map(
    function: Callable[..., Made], records: Iterable[Any], init: Optional[Callable[[], Any]] = None, *,
    each: Literal[True], write: None = None, errors: Literal["raise"] = "raise", **options: "Unpack[Options]",
) -> List[Made]: ...
@overload
def map(
    function: Callable[..., Any], records: Iterable[Any], init: Optional[Callable[[], Any]] = None, *,
    each: bool = False, write: Callable[[Any], Made], errors: Literal["raise"] = "raise", **options: "Unpack[Options]",
) -> List[Made]: ...
@overload
def map(
    function: Callable[..., Any], records: Iterable[Any], init: Optional[Callable[[], Any]] = None, gpus: Union[int, str] = "all",
    batch: int = 128, workers_per_gpu: int = 1, io_threads: Optional[int] = None, ordered: bool = True, name: Optional[str] = None, *,
    each: bool = False, write: Optional[Callable[[Any], Any]] = None, errors: str = "raise", **options: "Unpack[Rest]",
) -> List[Any]: ...
# fmt: on
@explained
def map(
    function: Callable[..., Any],
    records: Iterable[Any],
    init: Optional[Callable[[], Any]] = None,
    gpus: Union[int, str] = "all",
    batch: int = 128,
    workers_per_gpu: int = 1,
    io_threads: Optional[int] = None,
    ordered: bool = True,
    name: Optional[str] = None,
    *,
    each: bool = False,
    read: Optional[Callable[[Any], Any]] = None,
    write: Optional[Callable[[Any], Any]] = None,
    errors: str = "raise",
    memory: Union[str, int, None] = None,
    where: Optional[str] = None,
    service: Optional[str] = None,
    timeout: Optional[float] = None,
    ready_timeout: Optional[float] = None,
    progress: bool = True,
    client: Optional[Client] = None,
    hosts: Union[str, Iterable[str], None] = None,
    files: Iterable[str] = (),
    python: Optional[str] = None,
    kubernetes: Optional[Dict[str, Any]] = None,
) -> List[Any]:
    """Calls a function with batches of records on every GPU, and returns the
    outcomes::

        def load():
            import torch
            return torch.load("model.pt").cuda()

        def embed(texts, model):            # a list in, a list out
            return model(texts).tolist()

        vectors = berth.map(embed, texts, init=load)

    ``function`` and ``init`` are those of :func:`worker`. They run in other
    processes, which import them by name; a function of a notebook or a script
    is taken by its source if it uses no globals. With ``each`` the function
    takes one record and returns one outcome. Records and outcomes are JSON, or have
    arrays in them, which are arrays of NumPy on the other side.

    If records fail, the others are finished, and then :class:`MapError` is
    raised; with ``errors="mark"`` their outcomes have the reason in ``_error``.
    With a ``name``, a call that was stopped goes on when it is made again.
    ``read`` makes of a record what the function gets, and ``write`` of an
    outcome what map returns: ``io_threads`` threads of each worker, 4 unless you
    say, call them while the GPU computes.

    With ``hosts="gpu1,gpu2:2"``, workers run on other machines over ssh. The
    modules of the functions go there, and ``files``; the libraries that they
    import have to be there. ``python`` is the interpreter of the workers. With
    ``kubernetes={"image": …, "workers": 8}``, they run in pods of a cluster."""
    call = _Call(**locals())
    outcomes: List[Any] = []
    failures: List[Failure] = []
    for group in call.outcomes():  # all is done as outcomes come: after the last one, nobody works
        if call.suspicious and errors == "raise":
            failures += [Failure(index, str(outcome["_error"]), outcome) for index, outcome in group if _failed(outcome)]
        if ordered:
            outcomes += [None] * (call.taken - len(outcomes))
            for index, outcome in group:
                outcomes[index] = outcome
        else:
            outcomes += [outcome for _, outcome in group]
    if failures:
        raise MapError(sorted(failures, key=lambda failure: failure.index), outcomes)
    return outcomes


# fmt: off
@overload
def imap(
    function: Callable[..., Iterable[Made]], records: Iterable[Any], init: Optional[Callable[[], Any]] = None, *,
    each: Literal[False] = False, write: None = None, errors: Literal["raise"] = "raise", **options: "Unpack[Options]",
) -> Iterator[Made]: ...
@overload
def imap(
    function: Callable[..., Made], records: Iterable[Any], init: Optional[Callable[[], Any]] = None, *,
    each: Literal[True], write: None = None, errors: Literal["raise"] = "raise", **options: "Unpack[Options]",
) -> Iterator[Made]: ...
@overload
def imap(
    function: Callable[..., Any], records: Iterable[Any], init: Optional[Callable[[], Any]] = None, *,
    each: bool = False, write: Callable[[Any], Made], errors: Literal["raise"] = "raise", **options: "Unpack[Options]",
) -> Iterator[Made]: ...
@overload
def imap(
    function: Callable[..., Any], records: Iterable[Any], init: Optional[Callable[[], Any]] = None, gpus: Union[int, str] = "all",
    batch: int = 128, workers_per_gpu: int = 1, io_threads: Optional[int] = None, ordered: bool = True, name: Optional[str] = None, *,
    each: bool = False, write: Optional[Callable[[Any], Any]] = None, errors: str = "raise", **options: "Unpack[Rest]",
) -> Iterator[Any]: ...
# fmt: on
@explained
def imap(
    function: Callable[..., Any],
    records: Iterable[Any],
    init: Optional[Callable[[], Any]] = None,
    gpus: Union[int, str] = "all",
    batch: int = 128,
    workers_per_gpu: int = 1,
    io_threads: Optional[int] = None,
    ordered: bool = True,
    name: Optional[str] = None,
    *,
    each: bool = False,
    read: Optional[Callable[[Any], Any]] = None,
    write: Optional[Callable[[Any], Any]] = None,
    errors: str = "raise",
    memory: Union[str, int, None] = None,
    where: Optional[str] = None,
    service: Optional[str] = None,
    timeout: Optional[float] = None,
    ready_timeout: Optional[float] = None,
    progress: bool = True,
    client: Optional[Client] = None,
    hosts: Union[str, Iterable[str], None] = None,
    files: Iterable[str] = (),
    python: Optional[str] = None,
    kubernetes: Optional[Dict[str, Any]] = None,
) -> Iterator[Any]:
    """Does what :func:`map` does, and gives outcomes as they come. It takes
    records as it needs them: neither the records nor the outcomes have to fit
    into memory.

    A record that failed raises :class:`MapError` when it is its turn. If
    ``records`` raises an exception, the outcomes of the records before it come
    first, then the exception. A loop that ends early ends the workers; call
    ``close()`` on an iterator that is not used up."""
    call = _Call(**locals(), streaming=True)
    return _turns(call, ordered, errors)


def _turns(call: "_Call", ordered: bool, errors: str) -> Iterator[Any]:
    early: Dict[int, Any] = {}
    for index, outcome in itertools.chain.from_iterable(call.outcomes()):
        if not ordered:
            yield _settle(index, outcome, errors)
            call.given += 1
            continue
        early[index] = outcome
        while call.given in early:
            yield _settle(call.given, early.pop(call.given), errors)
            call.given += 1


def _settle(index: int, outcome: Any, errors: str) -> Any:
    if errors == "raise" and _failed(outcome):
        raise MapError([Failure(index, str(outcome["_error"]), outcome)], [outcome])
    return outcome


def _failed(outcome: Any) -> bool:
    return type(outcome) is dict and "_error" in outcome


class _Call:
    """One call of map or imap."""

    def __init__(
        self,
        function: Callable[..., Any],
        records: Iterable[Any],
        init: Optional[Callable[[], Any]],
        *,
        gpus: Union[int, str],
        batch: int,
        workers_per_gpu: int,
        io_threads: Optional[int],
        ordered: bool,
        name: Optional[str],
        each: bool,
        read: Optional[Callable[[Any], Any]],
        write: Optional[Callable[[Any], Any]],
        errors: str,
        memory: Union[str, int, None],
        where: Optional[str],
        service: Optional[str],
        timeout: Optional[float],
        ready_timeout: Optional[float],
        progress: bool,
        client: Optional[Client],
        hosts: Union[str, Iterable[str], None],
        files: Iterable[str],
        python: Optional[str],
        kubernetes: Optional[Dict[str, Any]],
        streaming: bool = False,
    ):
        if not isinstance(records, collections.abc.Iterable):
            raise TypeError("map: records are a list or something else to go through, such as range(5), not %r" % (records,))
        if errors not in ("raise", "mark"):
            raise ValueError('map: errors is "raise" or "mark", not %r' % (errors,))
        if io_threads is None:  # without them, threads would only hand the interpreter over
            io_threads = 0 if read is None and write is None else 4
        for what, number, least in (("batch", batch, 1), ("io_threads", io_threads, 0)):
            if not isinstance(number, int) or number < least:
                raise ValueError("map: %s is a number from %d, not %r" % (what, least, number))
        check_places("map", gpus, workers_per_gpu)
        if name is not None:
            kept_file(name)  # refuses a name that cannot be
        self._functions = {"function": source_of(function, "function")}
        for role, given in (("init", init), ("read", read), ("write", write)):
            if given is not None:
                self._functions[role] = source_of(given, role)
        workers._check(function, init, each)
        elsewhere = away(hosts, kubernetes)
        self._away, self._files = bool(elsewhere), list(files)
        if self._files and not self._away:
            raise ValueError("map: files go to hosts, and there are none: give hosts, or leave files out")
        self._python = python or ("python3" if self._away else sys.executable)
        self._records, self._batch, self._each, self._threads = records, batch, each, io_threads
        self._progress, self._streaming, self._in_turn = progress, streaming, streaming and ordered
        self._name, self._title = name, name or getattr(function, "__name__", "map")
        self._given_up: Optional[Exception] = None  # what records raised
        self._local: List[Outcome] = []  # outcomes that need no worker
        self._kept: Optional[Kept] = None
        self._encode = _encoder()
        self._fed = 0  # records that went to berth run, which numbers them
        self._numbers: Dict[int, int] = {}  # of records on their way, where ours differ from those of berth run
        self.taken = 0  # records of the caller
        self.given = 0  # outcomes that the caller has had
        self.suspicious = False  # whether a record may have failed
        expect = len(records) if isinstance(records, collections.abc.Sized) else None
        self._command = run_command("map", self._title, client, {
            "batch": batch, "workers_per_gpu": workers_per_gpu, "gpus": gpus,
            "memory": None if memory is None else "%dMiB" % asked(memory), "where": where, "service": service,
            "timeout": time_limit("map", "timeout", timeout),
            "ready_timeout": time_limit("map", "ready_timeout", ready_timeout), "cost": "none" if self._in_turn else None,
            "output_format": "numbered", "expect": expect,
        }) + elsewhere  # fmt: skip
        # By a variable, not by the flag: an older berth run passes it over.
        self._variables = {} if elsewhere or (expect or 0) > MANY else {"BERTH_HEAD_START": HEAD_START}

    def outcomes(self) -> Iterator[List[Outcome]]:
        """Gives the outcomes as they come, several at a time."""
        if self._name is not None:
            source = self._functions["function"]
            self._kept = Kept(self._name, "%s.%s" % (source.module or "__main__", source.name))
        try:
            failed = False
            for group in self._all():
                failed = failed or self._kept is not None and any(_failed(outcome) for _, outcome in group)
                yield group
            if self._kept is not None and not failed:
                self._kept.finish()
        finally:
            if self._kept is not None:
                self._kept.close()

    def _all(self) -> Iterator[List[Outcome]]:
        chunks = self._chunks()
        for chunk in chunks:  # workers are not started before there is a record for them
            yield self._drain()
            if chunk:
                with Folder("berth-map-") as folder:
                    yield from self._run(itertools.chain([chunk], chunks), self._program(folder), folder if self._away else None)
                break
        yield self._drain()
        if self._given_up is not None:
            raise self._given_up

    def _run(self, chunks: Iterator[bytes], program: str, folder: Optional[str]) -> Iterator[List[Outcome]]:
        came = 0
        command = self._command + ["--", self._python, program]
        with Runner("map", command, self._progress, folder=folder, variables=self._variables) as runner:
            for lines in runner.answers(chunks, self._room):
                yield self._drain()
                if lines:
                    came += len(lines)
                    yield self._decode(lines)
            runner.check()
        if came != self._fed:
            raise BerthError("map: berth run gave %d outcomes for %d records" % (came, self._fed))

    def _room(self) -> bool:
        return not self._in_turn or self.taken - self.given < AHEAD * self._batch

    def _drain(self) -> List[Outcome]:
        local, self._local = self._local, []
        return local

    def _chunks(self) -> Iterator[bytes]:
        """Gives the records as lines for berth run, many at a time while they
        come quickly. An empty chunk stands for records that need no worker."""
        if type(self._records) in (list, tuple) and self._kept is None:
            yield from self._slices(self._records)  # type: ignore[arg-type]
            return
        lines: List[str] = []
        most = 1
        begun = time.monotonic()
        for index, record in enumerate(self._all_records()):
            line = self._line(index, record)
            if line is not None:
                lines.append(line)
            late = time.monotonic() - begun > LATE
            if late or len(lines) >= most or len(self._local) >= MOST:
                most = max(len(lines) // 2, 1) if late else min(2 * most, MOST)
                yield "".join(lines).encode()
                lines.clear()
                begun = time.monotonic()
        yield "".join(lines).encode()

    def _slices(self, records: Sequence[Any]) -> Iterator[bytes]:
        """Gives the records of a list as chunks. They are all there, so that the
        clock is read once for each chunk."""
        at, most = 0, 1
        while at < len(records):
            begun = time.monotonic()
            part = records[at : at + most]
            text = self._text(at, part)
            late = time.monotonic() - begun > LATE
            at, most = at + len(part), max(most // 2, 1) if late else min(2 * most, MOST)
            yield text.encode()

    def _text(self, first: int, records: Sequence[Any]) -> str:
        """Returns the lines of records, whose numbers begin with ``first``."""
        encode = self._encode
        if self._fed == first:  # our numbers are those of berth run
            try:
                text = "\n".join([encode(record) for record in records]) + "\n"
                if len(text) <= LONGEST_RECORD:  # none of them is too long
                    self._fed = self.taken = first + len(records)
                    return text
            except (TypeError, ValueError, RecursionError):
                pass  # at least one of them; which, is found out one by one
        lines = [self._line(index, record) for index, record in enumerate(records, first)]
        return "".join([line for line in lines if line is not None])

    def _all_records(self) -> Iterator[Any]:
        try:
            yield from self._records
        except Exception as why:
            if not self._streaming:
                raise
            self._given_up = why

    def _line(self, index: int, record: Any) -> Optional[str]:
        """Returns the line of a record, or None if it has its outcome already."""
        self.taken = index + 1
        try:
            text = self._encode(record)
            if len(text) > LONGEST_RECORD:
                raise ValueError("it has %d bytes, and at most 16 MiB are taken: give a path instead" % len(text))
        except (TypeError, ValueError, RecursionError) as why:
            error = "the record cannot be written as JSON: %s: %s" % (type(why).__name__, why)
            self._local.append((index, _marked(record, error)))
            self.suspicious = True
            return None
        if self._kept is not None:
            found = self._kept.find(index, text)
            if found is not None:
                self._local.append((index, found[0]))
                return None
        if self._fed != index:
            self._numbers[self._fed] = index
        self._fed += 1
        return text + "\n"

    def _decode(self, lines: List[bytes]) -> List[Outcome]:
        text = b"[" + b",".join(lines) + b"]"
        self.suspicious = self.suspicious or b'"_error"' in text
        group: List[Outcome]
        try:
            group = maparrays.loads(text)
        except (ValueError, RecursionError):
            group = [_outcome(line) for line in lines]  # at least one of them cannot be read
            self.suspicious = True
        if self._numbers:
            group = [(self._numbers.pop(number, number), outcome) for number, outcome in group]
        if self._kept is not None:
            for line, (index, outcome) in zip(lines, group):
                if _failed(outcome):
                    self._kept.failed(index)
                else:
                    self._kept.add(index, line)
            self._kept.flush()
        return group

    def _program(self, folder: str) -> str:
        """Writes the program of the workers, and returns its path."""
        functions = {}
        for role, source in self._functions.items():
            functions[role] = {"module": source.module, "name": source.name}
            if not source.module:
                file = write(folder, "berth_map_" + role + ".py", source.text)
                functions[role]["file"] = os.path.basename(file) if self._away else file
        work = {"functions": functions, "each": self._each, "io_threads": self._threads}
        if not self._away:
            return worker_program(folder, "mapworker", work)
        gather(folder, [source.module for source in self._functions.values()], self._files)
        return os.path.basename(worker_program(folder, "mapworker", work, here=False))


def _outcome(line: bytes) -> Outcome:
    """Returns the outcome in a line, or a failure if this Python cannot read it: a
    whole number may be too long for it, or a list too deep."""
    try:
        return maparrays.loads(line)  # type: ignore[no-any-return]
    except (ValueError, RecursionError) as why:
        error = "the outcome cannot be read: %s: %s" % (type(why).__name__, why)
        return [int(line[1 : line.index(b",")]), {"_error": error}]


def _encoder() -> Callable[[Any], str]:
    """Returns what writes one record as JSON. The encoder of the json module
    sets itself up for each value anew, which takes as long as a short record."""
    try:
        parts = json.encoder.c_make_encoder(  # type: ignore[attr-defined,misc]
            None, maparrays.plain, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False
        )
    except (AttributeError, TypeError):  # another Python
        return maparrays.encode
    return lambda value: "".join(parts(value, 0))


def _marked(record: Any, error: str) -> Dict[str, Any]:
    """Returns the outcome of a record that failed, as berth run writes it."""
    if type(record) is dict:
        return {**record, "_error": error}
    return {"_input": record, "_error": error}
