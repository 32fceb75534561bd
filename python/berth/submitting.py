"""Jobs: commands that the daemon runs, as the user who submits them, when there is
room for them. They outlive this process and the daemon."""

from __future__ import annotations

import datetime
import functools
import operator
import os
import time as clock
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, TypeVar, Union

from . import answers, calls
from .asking import answered, run
from .client import BerthError, Call, Client, Problem
from .memorytypes import Amount, asked
from .persisting import went_away

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    Args = ParamSpec("Args")

OVER = ("done", "failed", "cancelled", "timed_out", "lost")
OF_ANOTHER = ("BERTH_JOB", "BERTH_TASK", "BERTH_LEASE", "BERTH_FENCE", "BERTH_MINDER")  # about the job that this process runs under
LONG = 30.0  # seconds that one question about the end of a job waits for it

Command = Union[str, Sequence[str]]
When = Union[str, datetime.datetime, None]
Made = TypeVar("Made")


def submission(
    command: Command,
    *,
    memory: Amount = 0,
    gpus: int = 1,
    slots: Optional[int] = None,
    name: Optional[str] = None,
    service: Optional[str] = None,
    gpu: Union[int, str, None] = None,
    where: Optional[str] = None,
    policy: Optional[str] = None,
    prefer: Union[int, str, None] = None,
    priority: Optional[int] = None,
    timeout: Optional[float] = None,
    time: Optional[float] = None,
    compute: Optional[int] = None,
    isolation: Optional[str] = None,
    parkable: Union[bool, str] = False,
    exclusive: bool = False,
    array: Union[str, Iterable[int], None] = None,
    params: Optional[Mapping[str, Any]] = None,
    after: Sequence[Union[str, "Job"]] = (),
    after_any: Sequence[Union[str, "Job"]] = (),
    after_failed: Sequence[Union[str, "Job"]] = (),
    begin: When = None,
    hold: bool = False,
    retry: int = 0,
    requeue: Union[bool, str] = False,
    signal: Optional[str] = None,
    signal_seconds: Optional[float] = None,
    output: Optional[str] = None,
    error: Optional[str] = None,
    directory: Optional[str] = None,
    environment: Optional[Mapping[str, str]] = None,
    cpus: Optional[float] = None,
    host_memory: Amount = 0,
    comment: Optional[str] = None,
    client: Optional[Client] = None,
) -> Call[answers.Job]:
    """Submits a job, and returns it as soon as the daemon has written it down::

        job = berth.submit(["python", "train.py"], memory="8GiB", name="train")
        print(job.id, job.wait(), job.log())

    The daemon runs the command as the user of this process, in this folder and with
    this environment, when there is room and its turn has come. The job needs neither
    this process nor the daemon of now: it survives the end of both.

    command   the program and its arguments, or a text for a shell. {NAME} stands for
              the value of a parameter
    memory    on each device; none: what earlier runs of the name used, or else a
              device alone
    gpus, slots, gpu, where, policy, prefer, priority, service, parkable, exclusive, comment
              as for :func:`lease`
    name      the id begins with it, which others can read
    timeout   give up if there is no room this many seconds after it could begin;
              None: wait as long as it takes
    time      the job ends after this many seconds
    signal    what the command gets ``signal_seconds`` (60) before that, as in "USR1"
    compute   percent of the multiprocessors, by MPS
    isolation "cgroup": the kernel keeps it from other GPUs
    array     a task for each number: range(20), [1, 3, 7], or a text such as "1-20",
              "0-100:10"; "%4" at the end of it: at most 4 at a time
    params    a task for each combination of values: {"lr": [0.1, 0.01], "seed": 1}
    after     jobs that must succeed first; ``after_any``: that must end first;
              ``after_failed``: that must end first, and one not well
    begin     not before this time
    hold      not before :meth:`Job.unhold`
    retry     how often a task that fails is run again
    requeue   True: queue it again after a reboot or the fault of a device; "time":
              also after its time limit
    output    file for what it prints; "%j" is the id, "%n" the try. None: berth-ID.log
              in its folder
    error     file for its errors; None: the same
    directory, environment
              None: those of this process
    cpus, host_memory
              what each task may use of the machine at most
    """
    if requeue not in (True, False, "machine", "time"):
        raise ValueError("requeue is %r: use True, False or 'time'" % (requeue,))
    calls.number("timeout", timeout), calls.number("time", time), calls.number("signal_seconds", signal_seconds)
    body = {
        "command": ["/bin/sh", "-c", command] if isinstance(command, str) else [os.fspath(word) for word in command],
        "name": name, "array": _array(array), "params": _params(params), "after": _ids(after),
        "after_any": _ids(after_any), "after_failed": _ids(after_failed), "begin": calls.moment(begin),
        "hold": hold or None, "retry": retry or None, "requeue": "machine" if requeue is True else requeue or None,
        "signal": signal, "signal_seconds": signal_seconds, "output": output, "error": error, "cpus": cpus,
        "host_memory_mb": asked(host_memory) or None, "compute_percent": compute, "umask": _umask(),
        "directory": os.path.abspath(directory or os.getcwd()), "environment": _environment(environment),
    }  # fmt: skip
    body["lease"] = calls.given({
        "memory_mb": asked(memory) or None, "gpus": gpus, "slots": slots, "service": service,
        "gpu": None if gpu is None else str(gpu), "where": where, "policy": policy,
        "prefer": None if prefer is None else str(prefer), "priority": priority, "timeout_seconds": timeout,
        "time_limit_seconds": time, "isolation": isolation, "comment": comment,
        "exclusive": exclusive or None, **calls.may_park(parkable),
    })  # fmt: skip
    return (yield from calls.submit_job(body, client=client))


def of_kind(
    ask: "Callable[Args, Call[answers.Job]]", kind: Callable[[answers.Job, Optional[Client]], Made]
) -> "Callable[Args, Call[Made]]":
    """Returns the call that makes a kind of job of what another call answers."""

    @functools.wraps(ask)
    def call(*args: "Args.args", **kwargs: "Args.kwargs") -> Call[Made]:
        client: Any = kwargs.get("client")
        return _made(ask(*args, **kwargs), kind, client)

    call.__annotations__ = {**ask.__annotations__, "return": "Call[Job]"}
    return call


def _made(
    call: Call[answers.Job], kind: Callable[[answers.Job, Optional[Client]], Made], client: Optional[Client]
) -> Call[Made]:
    return kind((yield from call), client)


def _array(array: Union[str, Iterable[int], None]) -> Optional[str]:
    """Writes the numbers of tasks as the API takes them."""
    if array is None or isinstance(array, str):
        return array
    wrong = 'array is range(20), a list of numbers, or a text such as "1-20", not %r' % (array,)
    try:
        numbers = [operator.index(number) for number in array]
    except TypeError:
        raise TypeError(wrong) from None
    if not numbers:
        raise ValueError(wrong + ": it has no numbers")
    if isinstance(array, range) and len(array) > 1:
        return "%d-%d:%d" % (min(array), max(array), abs(array.step))
    return ",".join(str(number) for number in numbers)


def _params(params: Optional[Mapping[str, Any]]) -> Optional[List[Dict[str, Any]]]:
    if not isinstance(params or {}, Mapping):
        raise TypeError('params is a dictionary such as {"lr": [0.1, 0.01]}, not %r' % (params,))
    values = {name: [_written(name, value) for value in _values(several)] for name, several in (params or {}).items()}
    return [{"name": name, "values": several} for name, several in values.items()] or None


def _values(value: Any) -> Iterable[Any]:
    """Returns the values of a parameter, which may be one."""
    return [value] if isinstance(value, (str, bytes, bytearray, Mapping)) or not isinstance(value, Iterable) else value


def _written(name: str, value: Any) -> str:
    """Writes the value of a parameter."""
    if isinstance(value, (bytes, bytearray, Mapping)):
        raise TypeError("params: %s is a number, a text, or a list of them, not %r" % (name, value))
    return str(value)


def _ids(jobs: Sequence[Union[str, "Job"]]) -> Optional[List[str]]:
    if isinstance(jobs, (str, Job)):
        jobs = [jobs]
    return [job if isinstance(job, str) else job.id for job in jobs] or None


def _environment(given: Optional[Mapping[str, str]]) -> List[str]:
    if given is None:
        given = {k: v for k, v in os.environ.items() if k not in OF_ANOTHER and not k.startswith("BERTH_PARAM_")}
    return ["%s=%s" % pair for pair in given.items()]


def _umask() -> Optional[int]:
    """Returns the umask of this process. To ask for it otherwise is to change it."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            return next((int(line.split()[1], 8) for line in status if line.startswith("Umask:")), None)
    except OSError:
        return None


def finding(id: str, *, client: Optional[Client] = None) -> Call[answers.Job]:
    """Returns a job or a task by its id, also after its end."""
    return (yield from calls.get_job(id, client=client))


class Job:
    """A job, or one task of it. :func:`submit` and :func:`find_job` return it. What its
    attributes say is as of the last call: :meth:`refresh` asks again."""

    def __init__(self, answer: answers.Job, client: Optional[Client] = None):
        self.answer = answer  #: everything that the daemon says about it
        self._client = client

    def __repr__(self) -> str:
        return "<Job %s: %s>" % (self.id, self.state)

    @property
    def id(self) -> str:
        """Its id, as in "train-17"; of a task "train-17.3"."""
        return self.answer.id

    @property
    def state(self) -> str:
        """held, waiting, starting, running, parked, done, failed, cancelled, timed_out
        or lost."""
        return self.answer.state

    @property
    def cause(self) -> str:
        """Why it is in this state, in words."""
        return self.answer.cause

    @property
    def over(self) -> bool:
        """Whether it has ended, however it ended."""
        return self.state in OVER

    @property
    def exit_code(self) -> Optional[int]:
        """The exit code of the command; 128 and the number of a signal that ended it.
        None: it has not ended, nobody knows, or it is a job with tasks."""
        return self.answer.exit_code

    @property
    def tasks(self) -> List["Job"]:
        """Its tasks, if it has an array or parameters. :meth:`refresh` first."""
        return [type(self)(task, self._client) for task in self.answer.list]

    def refresh(self) -> "Job":
        """Asks the daemon how it stands, and returns the job itself."""
        return self._take(run(calls.get_job(self.id, client=self._client)))

    def wait(self, timeout: Optional[float] = None) -> Optional[int]:
        """Waits until the job has ended, and returns its exit code. With ``timeout``,
        it raises TimeoutError after that many seconds; the job runs on. The daemon may
        be restarted meanwhile."""
        self._take(run(self._waiting(timeout)))
        return self.exit_code

    def log(self, *, errors: bool = False, lines: Optional[int] = None) -> str:
        """Returns what the job has printed; with ``errors``, the log of errors if it
        has one of its own. ``lines`` is how many of the last lines; None: all, of the last 64 MiB."""
        return run(calls.job_log(self.id, errors=errors, lines=lines, client=self._client))

    def cancel(self) -> "Job":
        """Cancels it: what waits never starts, and what runs gets SIGTERM, and SIGKILL
        if it does not end."""
        return self._take(run(calls.cancel_job(self.id, client=self._client)))

    def hold(self) -> "Job":
        """Keeps it from starting until :meth:`unhold`."""
        return self._take(run(calls.hold_job(self.id, client=self._client)))

    def unhold(self) -> "Job":
        """Lets it start at its turn."""
        return self._take(run(calls.unhold_job(self.id, client=self._client)))

    def prioritize(self, priority: int) -> "Job":
        """Changes its priority while it waits. Owners lower it, operators set it."""
        return self._take(run(calls.prioritize_job(self.id, priority, client=self._client)))

    def redo(self, failed: bool = False) -> "Job":
        """Submits it again, and returns the new job; with ``failed``, only the tasks
        that did not end well."""
        return type(self)(run(calls.redo_job(self.id, failed=failed, client=self._client)), self._client)

    def _take(self, answer: answers.Job) -> "Job":
        self.answer = answer
        return self

    def _waiting(self, timeout: Optional[float]) -> Call[answers.Job]:
        """Asks until the job has ended. A daemon that is away is waited for, once it
        has answered, and before that if it is being replaced."""
        until = None if timeout is None else clock.monotonic() + timeout
        seen, pause = False, 0.1
        while True:
            left = LONG if until is None else min(LONG, max(until - clock.monotonic(), 0.0))
            asked = clock.monotonic()
            try:
                answer = yield from calls.get_job(self.id, wait=left, client=self._client)
            except BerthError as why:
                seen = seen or went_away(why)
                if not seen or isinstance(why, Problem) and not why.passes:
                    raise
                if until is not None and clock.monotonic() >= until:
                    raise TimeoutError("%s has not ended within %g s, as far as is known: %s" % (self.id, timeout, why)) from why
                yield pause if until is None else min(pause, max(until - clock.monotonic(), 0.0))
                pause = min(2 * pause, 5.0)
                continue
            if answer.state in OVER:
                return answer
            seen, pause = True, 0.1
            if until is not None and clock.monotonic() >= until:
                raise TimeoutError("%s has not ended within %g s; it is %s" % (self.id, timeout, answer.state))
            if clock.monotonic() - asked < 1:
                yield 1.0 if until is None else min(1.0, max(until - clock.monotonic(), 0.0))


submit = answered(of_kind(submission, Job), "submit")
find_job = answered(of_kind(finding, Job), "find_job")
