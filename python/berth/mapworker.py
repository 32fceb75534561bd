"""The worker's side of ``berth.map``: a program that ``berth run`` starts on each
GPU, and that answers as one of :func:`berth.worker` does.

With ``io_threads``, one thread decodes records and another one encodes outcomes
beside the function, and that many threads call ``read`` and ``write``: the files
of the next batch are read, and those of the last one written, while the GPU
computes.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import importlib.util
import os
import queue
import sys
import threading
import traceback
from typing import Any, Callable, Dict, List, Optional, Sequence

from . import maparrays, workers
from .leasing import current
from .trimrequests import trim_on_request

Frame = Dict[str, Any]


def serve(work: Dict[str, Any]) -> None:
    """Works on records until there are no more. ``work`` says what map was
    called with."""
    folder = os.path.dirname(sys.argv[0])
    workers._FOLDERS.append(folder)
    with workers.saying_why(folder):
        functions = {role: _load(role, **where) for role, where in work["functions"].items()}
    function, init = functions["function"], functions.get("init")
    process = workers._for_each(function) if work["each"] else function
    if "read" in functions:
        process = _readable(process)
    beside = _Beside(functions.get("read"), functions.get("write"), work["io_threads"])
    pipes = workers._open()
    with workers.saying_why(folder):
        state = () if init is None else (init(),)
    if current() is not None:
        trim_on_request()
    workers._settle()
    pipes.say({"type": "ready", "protocol": workers.PROTOCOL, "ahead": beside.ahead})
    for frame in beside.batches(pipes):
        beside.answer(pipes, workers._work(process, state, frame))
    beside.end()
    pipes.close()


def _load(role: str, module: str, name: str, file: str = "") -> Callable[..., Any]:
    if file:
        spec = importlib.util.spec_from_file_location("berth_map_" + role, file)
        assert spec is not None and spec.loader is not None
        found: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    else:
        found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


class _Failed:
    """Stands for a record that could not be read."""

    def __init__(self, why: Exception):
        self.why = why


def _readable(function: Callable[..., Any]) -> Callable[..., List[Any]]:
    """Keeps records that could not be read from a function."""

    def process(records: List[Any], *state: Any) -> List[Any]:
        good = [record for record in records if type(record) is not _Failed]
        outcomes = iter(workers._outcomes(function, good, *state) if good else [])
        return [record.why if type(record) is _Failed else next(outcomes) for record in records]

    return process


class _Beside:
    """What happens beside the function: reading and decoding of records,
    writing and encoding of outcomes. Without threads, it happens before and
    after."""

    def __init__(self, read: Optional[Callable[..., Any]], write: Optional[Callable[..., Any]], threads: int):
        self._read, self._write, self._threads = read, write, threads
        self._pool = concurrent.futures.ThreadPoolExecutor(threads) if threads and (read or write) else None
        self._answers: "queue.SimpleQueue[Optional[Frame]]" = queue.SimpleQueue()
        self._writer: Optional[threading.Thread] = None
        self.ahead = self._pool is not None

    def batches(self, pipes: workers._Pipes) -> Any:
        """Gives the batches of the runner, with what ``read`` made of their
        records."""
        if self._threads == 0:
            for frame in self._frames(pipes):
                self._begin(frame)
                yield self._finish(frame)
            return
        come: "queue.SimpleQueue[Any]" = queue.SimpleQueue()  # the runner sends at most two ahead
        threading.Thread(target=self._listen, args=(pipes, come), daemon=True).start()
        self._writer = threading.Thread(target=self._reply, args=(pipes,), daemon=True)
        self._writer.start()
        while True:
            frame = come.get()
            if frame is None:
                return
            if isinstance(frame, BaseException):
                raise frame
            yield self._finish(frame)

    def _frames(self, pipes: workers._Pipes) -> Any:
        for line in pipes.lines:
            frame = workers._read(line, maparrays.loads)
            if frame["type"] == "bye":
                return
            if frame["type"] == "batch":
                yield frame

    def _listen(self, pipes: workers._Pipes, come: "queue.SimpleQueue[Any]") -> None:
        try:
            for frame in self._frames(pipes):
                self._begin(frame)
                come.put(frame)
            come.put(None)
        except BaseException as why:
            come.put(why)

    def _begin(self, frame: Frame) -> None:
        if self._read is not None and "records" in frame:
            try:
                frame["values"] = self._each(self._read, frame["records"])
            except Exception as why:
                frame["unreadable"] = why

    def _finish(self, frame: Frame) -> Frame:
        if "values" in frame:
            try:
                values = list(frame.pop("values"))
            except Exception as why:
                frame["unreadable"] = why
            else:
                frame["records"] = [_Failed(value) if isinstance(value, Exception) else value for value in values]
        return frame

    def answer(self, pipes: workers._Pipes, frame: Frame) -> None:
        if self._writer is None:
            self._send(pipes, frame)
        else:
            self._answers.put(frame)

    def _reply(self, pipes: workers._Pipes) -> None:
        try:
            while True:
                frame = self._answers.get()
                if frame is None:
                    return
                self._send(pipes, frame)
        except BaseException:
            traceback.print_exc()
            os._exit(1)  # the runner starts another worker

    def _send(self, pipes: workers._Pipes, frame: Frame) -> None:
        if self._write is not None and frame["type"] == "result":
            outcomes = frame["outcomes"]
            good = [place for place, outcome in enumerate(outcomes) if not isinstance(outcome, BaseException)]
            try:
                for place, value in zip(good, self._each(self._write, [outcomes[place] for place in good])):
                    outcomes[place] = value
            except Exception as why:
                frame = workers._given_up(frame["id"], why)
        pipes.write(workers._line(frame, maparrays.encode))

    def _each(self, function: Callable[..., Any], values: Sequence[Any]) -> Any:
        """Gives what a function makes of each value, an exception where it raises one
        about the value. One about the process goes on."""

        def one(value: Any) -> Any:
            try:
                return function(value)
            except Exception as why:
                if workers.of_the_process(why):
                    raise
                return why

        return [one(value) for value in values] if self._pool is None else self._pool.map(one, values)

    def end(self) -> None:
        if self._writer is not None:
            self._answers.put(None)
            self._writer.join()
