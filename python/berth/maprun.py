"""The process of ``berth run`` behind a map. One thread feeds it and reads it, the
thread of the caller: so the records are made where the caller made them, an
exception or an interrupt arrives there, and nothing is left running.
"""

from __future__ import annotations

import collections
import fcntl
import os
import selectors
import signal
import subprocess
import sys
from typing import Any, Callable, Deque, Iterator, List, Tuple

from .client import BerthError

STOP_SECONDS = 10.0  # workers get five of them to finish their batch
READ_BYTES = 1 << 20
PIPE_BYTES = 1 << 20


class Runner:
    """``berth run``, fed with lines and answering with lines."""

    def __init__(self, command: List[str], progress: bool = True):
        self._forward = progress
        self._said: Deque[str] = collections.deque(maxlen=20)  # the last lines of its standard error
        # On a terminal, berth run draws bars by itself. Elsewhere, a notebook
        # for example, what it says goes to where Python's standard error goes.
        inherit = progress and _is_terminal(sys.stderr)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None if inherit else subprocess.PIPE,
            bufsize=0, start_new_session=True,  # an interrupt of the terminal reaches this process, which stops it
        )  # fmt: skip
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            _widen(pipe.fileno())

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def answers(self, chunks: Iterator[bytes], room: Callable[[], bool]) -> Iterator[List[bytes]]:
        """Sends chunks of lines, as long as there is room for their outcomes,
        and gives the lines that come back, a list each time; an empty one after
        a chunk was taken."""
        process = self._process
        unsent, half = memoryview(b""), b""
        with selectors.DefaultSelector() as waiting:
            waiting.register(process.stdout, selectors.EVENT_READ)
            if process.stderr is not None:
                waiting.register(process.stderr, selectors.EVENT_READ)
            feeding = ended = False
            while len(waiting.get_map()) > feeding:
                wanted = process.stdin is not None and (bool(unsent) or room())
                if wanted and not feeding:
                    waiting.register(process.stdin, selectors.EVENT_WRITE)
                elif feeding and not wanted:
                    waiting.unregister(process.stdin)
                feeding = wanted
                for key, _ in waiting.select():
                    if key.fileobj is process.stdin:
                        if not unsent:
                            chunk = next(chunks, None)
                            ended = chunk is None
                            unsent = memoryview(chunk or b"")
                            yield []
                        if unsent:
                            unsent, ended = self._send(unsent)
                        if ended:
                            waiting.unregister(process.stdin)
                            self._close_input()
                            feeding, unsent = False, memoryview(b"")
                        continue
                    data = os.read(key.fd, READ_BYTES)
                    if not data:
                        waiting.unregister(key.fileobj)
                    elif key.fileobj is process.stdout:
                        lines = (half + data).split(b"\n")
                        half = lines.pop()
                        if lines:
                            yield lines
                    else:
                        self._say(data.decode("utf-8", "replace"))

    def _send(self, unsent: memoryview) -> Tuple[memoryview, bool]:
        """Sends what the pipe takes. Returns the rest, and whether berth run
        has ended; check says why."""
        assert self._process.stdin is not None
        try:
            return unsent[os.write(self._process.stdin.fileno(), unsent) :], False
        except BlockingIOError:
            return unsent, False
        except BrokenPipeError:
            return unsent, True

    def _close_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
            self._process.stdin = None

    def _say(self, text: str) -> None:
        self._said.extend(line for line in text.splitlines() if line.strip())
        if self._forward:
            sys.stderr.write(text)
            sys.stderr.flush()

    def check(self) -> None:
        """Waits for the end, and raises what berth run failed with."""
        code = self._process.wait()
        if code == 0:
            return
        reasons = [line[len("berth: ") :] for line in self._said if line.startswith("berth: ")]
        raise BerthError("map: berth run ended with status %d: %s" % (code, reasons[-1] if reasons else "see above"))

    def stop(self) -> None:
        """Ends berth run with its workers, if it still runs."""
        process = self._process
        self._close_input()
        if process.stdout is not None:
            process.stdout.close()  # it may wait for somebody to read
            process.stdout = None
        try:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=STOP_SECONDS)
        except BaseException as why:  # an interrupt while it is being stopped among them
            process.kill()  # its workers die with it
            process.communicate()
            if not isinstance(why, subprocess.TimeoutExpired):
                raise


def _is_terminal(file: Any) -> bool:
    try:
        return bool(file.isatty()) and os.isatty(2) and file.fileno() == 2
    except (AttributeError, OSError, ValueError):
        return False


def _widen(pipe: int) -> None:
    """Makes a pipe larger, where the system lets us: fewer turns."""
    try:
        fcntl.fcntl(pipe, getattr(fcntl, "F_SETPIPE_SZ", 1031), PIPE_BYTES)
    except OSError:
        pass
