"""An executor of :mod:`concurrent.futures` whose calls run on GPUs.

It starts ``berth run`` and speaks with it through pipes, as a map does, so that its
workers are processes with a GPU of their own, each under a lease.
"""

from __future__ import annotations

import atexit
import collections
import concurrent.futures
import itertools
import json
import os
import sys
import threading
import time
import weakref
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union

from .asking import devices
from .callpickle import Dumps, Writer, loads, main_program, pack, unpack
from .client import BerthError, Client
from .maprun import NO_LIMIT, Folder, Runner, check_places, run_command, time_limit, worker_program
from .memorytypes import Amount, asked

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    Args = ParamSpec("Args")

AHEAD = 0.05  # seconds; calls that take less than that together are sent before workers are free
MOST_AHEAD = 512  # calls
MOST_BYTES = 4 << 20  # that are sent at a time

T = TypeVar("T")


class BrokenWorker(concurrent.futures.BrokenExecutor, BerthError):
    """The worker of a call died, hung or was stopped, or no worker can be started. The
    text says why. The call may have happened in part, and is not made again."""


class _RemoteTraceback(Exception):
    """Where a call failed, in the words of the worker."""

    def __init__(self, text: str):
        super().__init__(text)
        self._text = text

    def __str__(self) -> str:
        return '\n"""\n%s"""' % self._text


class Executor(concurrent.futures.Executor):
    """Runs calls in processes with a GPU of their own, for programs that are written
    for :class:`concurrent.futures.ProcessPoolExecutor`::

        with berth.Executor(memory="8GiB") as pool:
            futures = [pool.submit(train, lr, seed=1) for lr in (0.1, 0.01, 0.001)]
            losses = [future.result() for future in futures]

    Workers start with the first calls, as many as there are calls and room for, and
    live until the executor is shut down. Each has one GPU, which is device 0 there,
    and one call at a time. A call happens at most once: if its worker dies, that call
    alone fails, with :class:`BrokenWorker`, and another worker takes the next one.

    max_workers  workers at a time, at most; None: as many as there is room for
    memory       of the lease of each worker
    gpus         GPUs to use, at most
    workers_per_gpu  workers on each GPU, at most
    initializer  called in each worker before its first call, with ``initargs``; a model
                 that it puts into a global of its module stays there
    name         what lists call it
    where        what the GPUs must be like: "name~H200,memory>=40GiB"
    service      the service whose limits hold
    timeout      seconds that a call may take; then its worker is ended; None: any
    ready_timeout  seconds that a worker may take to start, with its initializer; 300
    dumps        pickles calls and outcomes: ``cloudpickle.dumps`` takes lambdas too
    progress     show bars; what workers print is shown anyway
    """

    def __init__(
        self,
        max_workers: Optional[int] = None,
        *,
        memory: Optional[Amount] = None,
        gpus: Union[int, str] = "all",
        workers_per_gpu: int = 1,
        initializer: Optional[Callable[..., Any]] = None,
        initargs: Tuple[Any, ...] = (),
        name: Optional[str] = None,
        where: Optional[str] = None,
        service: Optional[str] = None,
        timeout: Optional[float] = None,
        ready_timeout: Optional[float] = None,
        dumps: Optional[Dumps] = None,
        progress: bool = False,
        client: Optional[Client] = None,
    ):
        check_places("executor", gpus, workers_per_gpu)
        if max_workers is not None and (not isinstance(max_workers, int) or max_workers < 1):
            raise ValueError("executor: max_workers is a number from 1, not %r" % (max_workers,))
        if initializer is not None and not callable(initializer):
            raise TypeError("executor: initializer must be a function, and %r is none" % (initializer,))
        command = run_command("executor", name or "executor", client, {
            "batch": 1, "cost": "none", "tries": 1, "workers": max_workers, "workers_per_gpu": workers_per_gpu,
            "gpus": gpus, "memory": None if memory is None else "%dMiB" % asked(memory), "where": where, "service": service,
            "timeout": time_limit("executor", "timeout", timeout) or "%dd" % NO_LIMIT,
            "ready_timeout": time_limit("executor", "ready_timeout", ready_timeout),
        })  # fmt: skip
        places = None if gpus == "all" else int(gpus) * workers_per_gpu
        own = Folder("berth-executor-", atexit=False)  # calls are made at the exit, too
        folder = own.path
        main = main_program()
        self._dumps = dumps or Writer(folder, main).dumps
        try:
            setup = self._pickled("initializer", (initializer, tuple(initargs), dumps))
            with open(os.path.join(folder, "setup"), "wb") as file:
                file.write(setup)
            program = {"folder": folder, "main": main, "argv": list(sys.argv)}
            command += ["--", sys.executable, worker_program(folder, "callworker", program)]
        except BaseException:
            own.remove()
            raise
        most = [number for number in (max_workers, places) if number is not None]
        self._work = _Work(own, command, progress, min(most, default=0), workers_per_gpu, client)
        weakref.finalize(self, self._work.close).atexit = False  # one that is forgotten does its calls, and ends

    def submit(self, fn: "Callable[Args, T]", /, *args: "Args.args", **kwargs: "Args.kwargs") -> "Future[T]":
        """Makes a call in a worker, and returns its future at once. The call is
        pickled here, and refused if that cannot be."""
        if not self._work.is_mine():
            raise RuntimeError("executor: it belongs to the parent of this process: make another one here")
        if not callable(fn):
            raise TypeError("executor: %r is not a function" % (fn,))
        data = self._pickled(getattr(fn, "__name__", "the function"), (fn, args, kwargs))
        future: "Future[T]" = Future()
        self._work.add(future, data)
        return future

    def _pickled(self, what: str, value: Any) -> bytes:
        try:
            return self._dumps(value)
        except BerthError:
            raise  # it says what to do
        except Exception as why:
            raise BerthError(
                "executor: the call of %s cannot be pickled (%s: %s): give a function that is defined with def in a module, "
                "and arguments of types that can be pickled; paths instead of open files, names instead of connections; "
                "dumps=cloudpickle.dumps takes lambdas and functions inside of functions" % (what, type(why).__name__, why)
            ) from why

    def map(  # type: ignore[override]
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: Optional[float] = None,
        chunksize: int = 1,
        buffersize: Optional[int] = None,
    ) -> Iterator[T]:
        """Calls a function with the items of iterables, and gives what it returns in
        their order. With ``chunksize`` one call to a worker has so many items.
        With ``buffersize`` at most so many chunks are taken ahead of what was given;
        without it, all are taken at once. ``timeout`` is in seconds from now."""
        end = None if timeout is None else time.monotonic() + timeout
        return _in_turn(*self._calls(fn, iterables, chunksize, buffersize), end)

    def _calls(
        self, fn: Callable[..., T], iterables: Tuple[Iterable[Any], ...], chunksize: int, buffersize: Optional[int]
    ) -> "Tuple[Deque[Future[List[T]]], Iterator[Future[List[T]]]]":
        """Makes the first calls of a map, and returns them and what makes the others."""
        for what, number in (("chunksize", chunksize), ("buffersize", buffersize)):
            if number is not None and number < 1:
                raise ValueError("executor: %s is a number from 1, not %r" % (what, number))
        calls = (self.submit(call_each, fn, chunk) for chunk in _chunks(zip(*iterables), chunksize))
        return collections.deque(itertools.islice(calls, buffersize)), calls

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more calls. Workers end when the calls are done; ``wait`` waits for
        that. With ``cancel_futures`` calls that have not begun are cancelled."""
        self._work.close(cancel_futures)
        if wait:
            self._work.join()

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None and not issubclass(kind, Exception):  # an interrupt: nobody wants the rest
            self._work.stop()
        self.shutdown()

    def __repr__(self) -> str:
        return "<berth.Executor: %s>" % self._work


def call_each(function: Callable[..., T], calls: Sequence[Tuple[Any, ...]]) -> List[T]:
    """Makes the calls of a chunk."""
    return [function(*arguments) for arguments in calls]


def _chunks(items: Iterable[T], size: int) -> Iterator[List[T]]:
    rest = iter(items)
    chunk = list(itertools.islice(rest, size))
    while chunk:
        yield chunk
        chunk = list(itertools.islice(rest, size))


def next_of(items: Iterator[T]) -> List[T]:
    """Returns the next item, if there is one."""
    return list(itertools.islice(items, 1))


def _in_turn(futures: "Deque[Future[List[T]]]", more: "Iterator[Future[List[T]]]", end: Optional[float]) -> Iterator[T]:
    try:
        while futures:
            outcomes = futures[0].result(None if end is None else end - time.monotonic())
            futures.popleft()
            futures.extend(next_of(more))
            outcomes.reverse()
            while outcomes:
                yield outcomes.pop()  # nothing here holds what the caller has
    finally:
        for future in futures:
            future.cancel()


class _Work:
    """The calls of an executor, and the thread that has ``berth run`` do them."""

    def __init__(
        self, folder: Folder, command: List[str], progress: bool, workers: int, per_gpu: int, client: Optional[Client]
    ):
        self._own, self._folder = folder, folder.path
        self._command, self._progress, self._client = command, progress, client
        self._owner = os.getpid()
        self._workers, self._per_gpu = workers, per_gpu  # 0 workers: as many as there are GPUs
        self._seconds = float("inf")  # that calls take, of late
        self._lock = threading.RLock()  # guards what follows; a collection of garbage may close an executor anywhere
        self._waiting: "Deque[Tuple[Future[Any], bytes]]" = collections.deque()
        self._sent: "Dict[int, Future[Any]]" = {}  # by the number of the call
        self._number = 0  # of the next call
        self._closed = self._stopped = False
        self._broken: Optional[BrokenWorker] = None
        self._thread: Optional[threading.Thread] = None
        self._wake: Tuple[int, int] = (-1, -1)  # a pipe: a byte has the thread look again
        _ALL.add(self)

    def is_mine(self) -> bool:
        """Whether the calls are this process's, and not its parent's: a child of a fork
        has a copy, whose lock may be held for ever."""
        return self._owner == os.getpid()

    def add(self, future: "Future[Any]", data: bytes) -> None:
        with self._lock:
            if self._broken is not None:
                raise BrokenWorker(str(self._broken))
            if self._closed:
                raise RuntimeError("executor: it is shut down, and takes no more calls")
            self._waiting.append((future, data))
            if self._thread is None:
                self._start()
            elif len(self._waiting) == 1:
                self._rouse()

    def close(self, cancel: bool = False) -> None:
        """Takes no more calls."""
        if not self.is_mine():
            return
        with self._lock:
            self._closed = True
            cancelled = list(self._waiting) if cancel else []
            if self._thread is None:
                self._own.remove()
            self._rouse()
        for future, _ in cancelled:
            future.cancel()  # outside of the lock: callbacks may come back here

    def stop(self) -> None:
        """Ends the workers, whatever they do."""
        if not self.is_mine():
            return
        with self._lock:
            self._stopped = True
        self.close(cancel=True)

    def join(self) -> None:
        if self.is_mine() and self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def __str__(self) -> str:
        if self._broken is not None:
            return "broken, %s" % self._broken
        return "%d calls wait, %d are with workers%s" % (
            len(self._waiting), len(self._sent), ", shut down" if self._closed else "",
        )  # fmt: skip

    def _start(self) -> None:
        self._wake = os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)
        self._thread = threading.Thread(target=self._run, name="berth-executor", daemon=True)
        self._thread.start()

    def _rouse(self) -> None:
        if self._wake[1] >= 0:
            try:
                os.write(self._wake[1], b"\0")
            except BlockingIOError:
                pass  # it is roused already

    # What follows runs in the thread.

    def _run(self) -> None:
        why = "executor: it was stopped"
        try:
            if self._workers == 0:
                self._workers = self._places()
            with Runner("executor", self._command, self._progress, prints=True) as runner:
                for lines in runner.answers(self._chunks(), self._room, self._wake[0]):
                    for line in lines:
                        self._settle(json.loads(line))
                    if self._stopped:
                        break
                else:
                    runner.check()
                    why = "executor: berth run has ended"
        except BaseException as error:
            why = str(error)
        self._end(why)

    def _places(self) -> int:
        try:
            return self._per_gpu * max(len(devices(client=self._client)), 1)
        except BerthError:
            return self._per_gpu  # berth run says what is wrong

    def _end(self, why: str) -> None:
        with self._lock:
            left = [*self._sent.values(), *(future for future, _ in self._waiting)]
            if left or not self._closed:
                self._broken = BrokenWorker(why)
            self._sent.clear()
            self._waiting.clear()
            for end in self._wake:
                os.close(end)
            self._wake = (-1, -1)
        for future in left:
            if future.running() or future.set_running_or_notify_cancel():
                future.set_exception(BrokenWorker(why))
        self._own.remove()

    def _room(self) -> bool:
        return len(self._sent) < self._most() if self._waiting else self._closed

    def _most(self) -> int:
        """How many calls may be sent and not answered: one for each worker and one
        more, and further ones if they are over before they could be cancelled."""
        ahead = self._workers * int(AHEAD / max(self._seconds, 1e-6))
        return self._workers + 1 + min(ahead, MOST_AHEAD)

    def _chunks(self) -> Iterator[bytes]:
        while self._waiting or not self._closed:
            yield "".join(self._lines()).encode()

    def _lines(self) -> Iterator[str]:
        length = 0
        while length < MOST_BYTES and len(self._sent) < self._most():
            with self._lock:
                if not self._waiting:
                    return
                future, data = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            number, self._number = self._number, self._number + 1
            self._sent[number] = future
            try:
                packed = pack(data, os.path.join(self._folder, "call-%d" % number))
            except OSError as why:
                del self._sent[number]
                future.set_exception(why)
                continue
            line = json.dumps([number, packed]) + "\n"
            length += len(line)
            yield line

    def _settle(self, answer: Any) -> None:
        if isinstance(answer, dict):  # berth run gives back a record whose worker broke
            future = self._sent.pop(answer["_input"][0])
            future.set_exception(BrokenWorker("executor: the worker of the call %s" % answer["_error"]))
            return
        number, how, packed, place, seconds = answer
        future = self._sent.pop(number)
        known = self._seconds != float("inf")
        self._seconds = self._seconds + 0.2 * (seconds - self._seconds) if known else seconds
        if how == "begun":
            future.set_exception(BrokenWorker("executor: the worker of the call died"))
            return
        error: Optional[BaseException] = None
        value = None
        try:
            value = loads(unpack(packed))
        except Exception as why:
            error = BerthError("executor: the outcome of the call cannot be unpickled: %s: %s" % (type(why).__name__, why))
        if how == "raised":
            if not isinstance(value, BaseException):  # one that cannot be pickled
                said = place.strip().rpartition("\n")[2]
                value = BerthError("executor: the call raised an exception that cannot be pickled: %s" % said)
            value.__cause__ = _RemoteTraceback(place)
            error = value
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)


_ALL: "weakref.WeakSet[_Work]" = weakref.WeakSet()


@atexit.register
def _finish() -> None:
    """Does the calls that are left when the program ends, as other executors do."""
    for work in list(_ALL):
        work.close()
        work.join()
