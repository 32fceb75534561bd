"""Makes the calls of the API, and waits for their answers."""

from __future__ import annotations

import functools
import inspect
import time
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from . import calls
from .client import BerthError, Call, Client, Request, Result
from .mistakes import mistaken

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    Args = ParamSpec("Args")


def answered(ask: "Callable[Args, Call[Result]]", name: str = "") -> "Callable[Args, Result]":
    """Makes a function that makes a call and returns its answer."""

    @functools.wraps(ask)
    def call(*args: "Args.args", **kwargs: "Args.kwargs") -> Result:
        try:
            return run(begun(ask, call.__name__, args, kwargs))
        except (BerthError, TypeError, ValueError) as why:
            # The frames of this package say nothing to its users.
            raise why.with_traceback(None)

    return described(call, ask, name)


def begun(ask: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Begins a call, or says what is wrong with its arguments."""
    try:
        return ask(*args, **kwargs)
    except TypeError as why:  # of the arguments: a generator has not run yet
        wrong = mistaken(ask, args, kwargs, name) or str(why)
    raise TypeError(wrong)


def described(call: Any, ask: Callable[..., Any], name: str) -> Any:
    """Gives a function the name and the signature that its callers see."""
    returns = str(ask.__annotations__["return"])[len("Call[") : -1]
    call.__name__ = call.__qualname__ = name or ask.__name__
    call.__annotations__ = {**ask.__annotations__, "return": returns}
    call.__signature__ = inspect.signature(ask).replace(return_annotation=returns)
    return call


def run(call: Call[Result]) -> Result:
    """Sends the requests of a call, one after the other, and returns its result."""
    answer: Any = None
    error: Optional[BerthError] = None
    try:
        while True:
            request = call.send(answer) if error is None else call.throw(error)
            answer = error = None
            try:
                answer = send(request)
            except BerthError as why:
                error = why
    except StopIteration as done:
        result: Result = done.value
        return result
    finally:
        call.close()


def send(request: Union[Request, float]) -> Any:
    """Sends a request and returns the JSON of the answer; or waits."""
    if not isinstance(request, Request):
        time.sleep(request)
        return None
    client = request.client or Client()
    return client.call(request.method, request.path, request.body, request.query, request.timeout, plain=request.plain)


acknowledge = answered(calls.acknowledge)
admit = answered(calls.admit)
adopt = answered(calls.adopt)
alerts = answered(calls.alerts)
allocate = answered(calls.allocate)
ask_to_trim = answered(calls.ask_to_trim)
available = answered(calls.available)
batches = answered(calls.batches)
bind = answered(calls.bind)
cancel = answered(calls.cancel)
check = answered(calls.check)
deallocate = answered(calls.deallocate)
devices = answered(calls.devices)
drain = answered(calls.drain)
explain = answered(calls.explain)
explain_waiting = answered(calls.explain_waiting)
find_lease = answered(calls.find_lease)
history = answered(calls.history)
is_available = answered(calls.is_available)
jobs = answered(calls.jobs)
leases = answered(calls.leases)
measure = answered(calls.measure)
measurements = answered(calls.measurements)
energy = answered(calls.energy)
metrics = answered(calls.metrics)
optimize = answered(calls.optimize)
orphans = answered(calls.orphans)
park = answered(calls.park)
past_leases = answered(calls.past_leases)
query = answered(calls.query)
query_range = answered(calls.query_range)
ready = answered(calls.ready)
release = answered(calls.release)
report_libraries = answered(calls.report_libraries)
renew = answered(calls.renew)
resize = answered(calls.resize)
resume = answered(calls.resume)
hold_to = answered(calls.hold_to)
status = answered(calls.status)
status_all = answered(calls.status_all)
throttle = answered(calls.throttle)
trend = answered(calls.trend)
unacknowledge = answered(calls.unacknowledge)
undrain = answered(calls.undrain)
wake = answered(calls.wake)
whoami = answered(calls.whoami)
