"""The process of ``berth run`` behind a map or an executor. One thread feeds it and
reads it. For a map that is the thread of the caller: so the records are made where
the caller made them, an exception or an interrupt arrives there, and nothing is left
running.
"""

from __future__ import annotations

import codecs
import collections
import html
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import weakref
from typing import Any, Callable, Deque, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from .client import BerthError, Client
from .forks import disown_in_children
from .workers import AS_BEFORE

STOP_SECONDS = 10.0  # workers get five of them to finish their batch
READ_BYTES = 1 << 20
PIPE_BYTES = 1 << 20
INPUT_END = "the end"  # the line after the last record: it is no JSON
NO_LIMIT = 10_000  # days


def run_command(who: str, name: str, client: Optional[Client], options: Dict[str, Any]) -> List[str]:
    """Returns the command of ``berth run`` that takes records on its standard input
    and gives outcomes on its standard output, without that of the workers. ``who``
    is the function of the package that wants it, for errors. Options that are None
    are left out."""
    if not sys.platform.startswith("linux"):
        raise BerthError(
            "%s: berth starts workers on Linux only: call it there, under a daemon; leases, status and events work here, with BERTH_URL"
            % who
        )
    if "BERTH_WORKER_PROTOCOL" in os.environ:
        raise BerthError(
            "%s: this is a worker of a batch already: a module that workers import must not call %s by itself; "
            'put the call under if __name__ == "__main__":' % (who, who)
        )
    if client is not None and not client.local:
        raise BerthError("%s: the workers are processes of this machine, so it needs the daemon's socket, not a URL" % who)
    command = [_berth(who), "run", "--input", "-", "--input-format", "jsonl", "--input-end", INPUT_END]
    command += ["--output", "-", "--name", name, "--allow-failures"]
    if client is not None:
        command += ["--socket", client.sockets[0]]
    for flag, value in options.items():
        if value is not None:
            command += ["--" + flag.replace("_", "-"), str(value)]
    return command


def check_places(who: str, gpus: Union[int, str], workers_per_gpu: int) -> None:
    """Refuses numbers of GPUs and workers that cannot be."""
    if not isinstance(workers_per_gpu, int) or workers_per_gpu < 1:
        raise ValueError("%s: workers_per_gpu is a number from 1, not %r" % (who, workers_per_gpu))
    if gpus != "all" and (not isinstance(gpus, int) or gpus < 1):
        raise ValueError('%s: gpus is "all" or a number from 1, not %r' % (who, gpus))


def time_limit(who: str, what: str, seconds: Optional[float]) -> Optional[str]:
    """Returns a number of seconds as berth run takes it."""
    if seconds is not None and not 0 < seconds < NO_LIMIT * 86400:
        raise ValueError("%s: %s is a number of seconds above 0, not %r" % (who, what, seconds))
    return None if seconds is None else "%fs" % seconds


class Folder:
    """A temporary folder. The process that made it removes it, and no child does that
    has a copy of this object from before a fork."""

    def __init__(self, prefix: str, atexit: bool = True):
        self.path = tempfile.mkdtemp(prefix=prefix)
        self._remove = weakref.finalize(self, _remove_folder, self.path, os.getpid())
        self._remove.atexit = atexit

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, *_: Any) -> None:
        self.remove()

    def remove(self) -> None:
        self._remove()


def _remove_folder(path: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


def worker_program(folder: str, module: str, work: Dict[str, Any], here: bool = True) -> str:
    """Writes the program of the workers, which call ``serve`` of a module of the
    package with ``work``, and returns its path. Workers that do not run ``here`` find
    what they import beside it."""
    path = "sys.path[:] = %r\n\n" % [os.path.abspath(entry) for entry in sys.path] if here else ""
    program = (
        "# The program of workers of berth.\nimport sys\n\n%s"
        'if __name__ == "__main__":\n    from berth.%s import serve\n\n    serve(%r)\n' % (path, module, work)
    )
    return write(folder, "berth_worker.py" if not here else "worker.py", program)


def write(folder: str, name: str, text: str) -> str:
    """Writes a file, and returns its path."""
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    return path


def _berth(who: str) -> str:
    named = os.environ.get("BERTH_BIN") or "berth"
    found = shutil.which(named)
    if found is None:
        raise BerthError("%s: the program %s is not there: put berth into the PATH, or name it in BERTH_BIN" % (who, named))
    return found


class Runner:
    """``berth run``, fed with lines and answering with lines. ``progress`` shows all
    that it says, ``prints`` what its workers print. ``variables`` are for it where the
    environment has none of these names."""

    def __init__(
        self, who: str, command: List[str], progress: bool = True, prints: bool = False, folder: Optional[str] = None,
        variables: Mapping[str, str] = types.MappingProxyType({}),
    ):  # fmt: skip
        self._who = who
        self._forward, self._prints = progress, prints
        self._owner = os.getpid()
        self._half = ""  # a line that is not whole yet
        self._text = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._bar = notebook_bar() if progress else None
        self._said: Deque[str] = collections.deque(maxlen=20)  # the last lines of its standard error
        # On a terminal, berth run draws bars by itself. Elsewhere, a notebook
        # for example, what it says goes to where Python's standard error goes.
        inherit = progress and _is_terminal(sys.stderr)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None if inherit else subprocess.PIPE,
            bufsize=0, cwd=folder, env={**variables, **os.environ}, start_new_session=True,  # an interrupt of the terminal reaches this process, which stops it
        )  # fmt: skip
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            _widen(pipe.fileno())
        disown_in_children(self)

    def disown(self) -> None:
        """Closes the pipes in a child of a fork. They are its parent's: if the child
        kept them, berth run would not see the end of the parent."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def answers(
        self, chunks: Iterator[bytes], room: Callable[[], bool], wake: Optional[int] = None
    ) -> Iterator[List[bytes]]:
        """Sends chunks of lines, as long as there is room for their outcomes,
        and gives the lines that come back, a list each time; an empty one after
        a chunk was taken. ``room`` is asked again after each of them, and when
        there is something to read at the descriptor ``wake``."""
        for lines in self._exchange(chunks, room, wake):
            yield lines
            if self._owner != os.getpid():
                raise BerthError("%s: its outcomes belong to the parent of this process" % self._who)

    def _exchange(self, chunks: Iterator[bytes], room: Callable[[], bool], wake: Optional[int]) -> Iterator[List[bytes]]:
        process = self._process
        unsent = memoryview(b"")
        half: List[bytes] = []  # pieces of a line that is not whole yet
        with selectors.DefaultSelector() as waiting:
            waiting.register(process.stdout, selectors.EVENT_READ)
            if process.stderr is not None:
                waiting.register(process.stderr, selectors.EVENT_READ)
            if wake is not None:
                waiting.register(wake, selectors.EVENT_READ)
            feeding = ended = last = False
            while len(waiting.get_map()) > feeding + (wake is not None):
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
                            last = chunk is None
                            # By a message: a process that was forked from this one may keep the pipe open.
                            unsent = memoryview((INPUT_END + "\n").encode() if chunk is None else chunk)
                            yield []
                        if unsent:
                            unsent, ended = self._send(unsent)
                        if ended or last and not unsent:
                            waiting.unregister(process.stdin)
                            self._close_input()
                            feeding, unsent = False, memoryview(b"")
                        continue
                    data = os.read(key.fd, READ_BYTES)
                    if key.fd == wake:
                        yield []
                    elif not data:
                        waiting.unregister(key.fileobj)
                    elif key.fileobj is process.stdout:
                        half.append(data)
                        if b"\n" in data:
                            lines = b"".join(half).split(b"\n")
                            half = [lines.pop()]
                            yield lines
                    else:
                        self._say(data)

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

    def _say(self, data: bytes) -> None:
        text = self._text(data)
        lines = (self._half + text).splitlines(keepends=True)
        self._half = "" if not lines or lines[-1].endswith("\n") else lines.pop()
        self._said.extend(line.rstrip() for line in lines if line.strip())
        if self._bar is not None:
            _show("".join(line for line in lines if not self._bar.take(line)))
        elif self._forward:
            _show(text)
        elif self._prints:
            _show("".join(line for line in lines if line.startswith("[worker ") and "] " + AS_BEFORE not in line))

    def check(self) -> None:
        """Waits for the end, and raises what berth run failed with."""
        code = self._process.wait()
        if code == 0:
            return
        reasons = [line[len("berth: ") :] for line in (*self._said, self._half) if line.startswith("berth: ")]
        raise BerthError("%s: berth run ended with status %d: %s" % (self._who, code, reasons[-1] if reasons else "see above"))

    def stop(self) -> None:
        """Ends berth run with its workers, if it still runs and is this process's."""
        if self._owner != os.getpid():
            return
        process = self._process
        try:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)  # first: it says nothing of pipes that close then
            self._close_input()
            process.communicate(timeout=STOP_SECONDS)  # reads on: it may wait for somebody to read
        except BaseException as why:  # an interrupt while it is being stopped among them
            process.kill()  # its workers die with it
            process.communicate()
            if not isinstance(why, subprocess.TimeoutExpired):
                raise


class NotebookBar:
    """A bar in a notebook, instead of a line after the other about how far it is."""

    _LINE = re.compile(r"berth: ([\d,]+) of ([\d,]+) records \(\d+ %\)(?:, (.*))?")

    def __init__(self, display: Any):
        self._display = display
        self._handle: Any = None  # of the bar, once it is shown

    def take(self, line: str) -> bool:
        """Shows how far it is; False if the line says something else."""
        found = self._LINE.match(line)
        if found is None:
            return False
        done, all_of_it = (int(number.replace(",", "")) for number in found.group(1, 2))
        text = "%s of %s records%s" % (found[1], found[2], ", " + found[3] if found[3] else "")
        bar = self._display.HTML("<progress value=%d max=%d></progress> %s" % (done, all_of_it, html.escape(text.strip())))
        if self._handle is None:
            self._handle = self._display.display(bar, display_id=True)
        else:
            self._handle.update(bar)
        return True


def notebook_bar() -> Optional[NotebookBar]:
    """Returns a bar if this program runs in a notebook. Nothing is imported for it."""
    ipython, display = sys.modules.get("IPython"), sys.modules.get("IPython.display")
    shell = ipython.get_ipython() if ipython is not None and display is not None else None
    return NotebookBar(display) if getattr(shell, "kernel", None) is not None else None


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _is_terminal(file: Any) -> bool:
    try:
        return bool(file.isatty()) and os.isatty(2) and file.fileno() == 2
    except (AttributeError, OSError, ValueError):
        return False


def _widen(pipe: int) -> None:
    """Makes a pipe larger, where the system lets us: fewer turns."""
    import fcntl  # which Windows lacks

    try:
        fcntl.fcntl(pipe, getattr(fcntl, "F_SETPIPE_SZ", 1031), PIPE_BYTES)
    except OSError:
        pass
