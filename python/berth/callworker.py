"""The worker's side of an executor: a program that ``berth run`` starts on each GPU.
It gets one call at a time, and answers with what came of it.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
import traceback
from typing import Any, Dict, List, Tuple

from . import workers
from .callpickle import Dumps, Program, loads, pack, unpack
from .client import BerthError
from .leasing import current
from .trimming import trim
from .trimrequests import trim_on_request

LONGEST_TRACEBACK = 100_000  # characters


def serve(work: Dict[str, Any]) -> None:
    """Answers calls until there are no more. ``work`` says what the executor was made
    with."""
    pipes = workers._open()
    sys.argv = work["argv"]
    with workers.saying_why(work["folder"]):
        calls = _Calls(work["folder"], Program(work["main"]))
    if current() is not None:
        trim_on_request()
    pipes.say({"type": "ready", "protocol": workers.PROTOCOL})
    for line in pipes.lines:
        frame = workers._read(line)
        if frame["type"] == "bye":
            break
        if frame["type"] == "batch":
            pipes.say({"type": "result", "id": frame["id"], "outcomes": [calls.answer(*call) for call in frame["records"]]})
            if calls.broken:
                pipes.say({"type": "bye"})  # the next call gets a fresh process
                _wait_for_the_end(pipes)
                break
    pipes.close()


def _wait_for_the_end(pipes: workers._Pipes) -> None:
    """Leaves calls that were sent meanwhile to others."""
    for line in pipes.lines:
        if workers._read(line)["type"] == "bye":
            return


class _Calls:
    """Answers calls, each of them once. Which ones were begun is in a file that all
    workers share, with a byte for each: ``berth run`` tries a GPU on which workers
    have died with a record that it knows, and that call must not happen again."""

    def __init__(self, folder: str, program: Program):
        self._folder, self._program = folder, program
        self._begun = os.open(os.path.join(folder, "begun"), os.O_RDWR | os.O_CREAT, 0o600)
        os.set_inheritable(self._begun, False)
        self.broken = False  # whether this process has lost its GPU
        with open(os.path.join(folder, "setup"), "rb") as file:
            initializer, arguments, dumps = loads(file.read(), program)
        self._dumps: Dumps = dumps or _dumps
        if initializer is not None:
            initializer(*arguments)

    def answer(self, number: int, packed: str) -> List[Any]:
        """Returns the outcome of a call: its number, how it ended, what it gave, where
        it failed, and how many seconds it took."""
        if os.pread(self._begun, 1, number) == b"\1":
            return [number, "begun", "", "", 0.0]
        os.pwrite(self._begun, b"\1", number)
        since = time.perf_counter()
        how, value, place = self._call(packed)
        path = os.path.join(self._folder, "outcome-%d" % number)
        try:
            text = pack(value, path)
        except OSError as why:
            how, value, place = self._failure(BerthError("executor: what came of the call cannot be kept: %s" % why))
            text = pack(value, path)
        return [number, how, text, place, time.perf_counter() - since]

    def _call(self, packed: str) -> Tuple[str, bytes, str]:
        try:
            function, arguments, named = loads(unpack(packed), self._program)
            value = function(*arguments, **named)
        except BaseException as why:
            return self._failure(why)
        try:
            return "done", self._dumps(value), ""
        except Exception as why:
            error = BerthError(
                "executor: what the call returned cannot be pickled: %s: return numbers, texts, lists, arrays or objects "
                "of a module" % workers._text(why)
            )
            error.__cause__ = why
            return self._failure(error)

    def _failure(self, why: BaseException) -> Tuple[str, bytes, str]:
        place = "".join(traceback.format_exception(type(why), why, why.__traceback__))[-LONGEST_TRACEBACK:]
        self.broken = self.broken or workers.broken_device(why)
        memory = workers.out_of_memory(why)
        why.__traceback__ = why.__cause__ = why.__context__ = None  # their frames hold arrays
        if memory:
            trim()
        try:
            return "raised", self._dumps(why), place
        except Exception:
            return "raised", b"", place


def _dumps(value: Any) -> bytes:
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
