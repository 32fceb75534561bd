"""What is said about calls that cannot be: which argument is missing or unknown, what is
probably meant, and what a value must be."""

from __future__ import annotations

import difflib
import dis
import functools
import inspect
import re
import types
from typing import Any, Callable, Iterable, Optional, Tuple, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


# What programs for earlier systems call, and what to write now.
EARLIER = {
    "GPUManager": "nothing: the daemon is the manager, and the functions of berth ask it",
    "GPUResourceOptimizer": "berth.status_all() and berth.optimize(service)",
    "GPUMemoryTypeValidator": "berth.compile([load, segment])",
    "GPU_REGISTRY": "berth.status_all()",
    "acquire_gpu_slot": "with berth.lease() as gpu:",
    "allocate_gpu": "berth.allocate(id, memory, service=…, prefer=…)",
    "allocate_memory": "berth.allocate(id, memory)",
    "deallocate_memory": "berth.deallocate(id)",
    "get_all_gpus_status": "berth.status_all()",
    "get_available_memory": "berth.available()",
    "get_gpu_manager": "nothing: the daemon is the manager, and the functions of berth ask it",
    "get_gpu_metrics": "berth.metrics(gpu)",
    "get_gpu_registry_status": "berth.status_all()",
    "get_gpu_status": "berth.status(gpu)",
    "get_optimization_status": "berth.status_all()",
    "get_processing_speed_multiplier": "berth.throttle(gpu).multiplier",
    "get_temperature_trend": "berth.trend(gpu, minutes=5)",
    "initialize_gpu_registry": "nothing: the daemon has looked for GPUs when it started",
    "metrics_history": "berth.history(gpu)",
    "optimize_memory_usage": "berth.optimize(service)",
    "recover_gpu_if_available": "berth.check(gpu)",
    "register_callback": "berth.on(code, function)",
    "release_gpu_slot": "with berth.lease() as gpu:, which gives the slot back at the end of the block",
    "run_multi_gpu": "berth.map(function, records, gpus=4)",
    "should_throttle_processing": "berth.throttle(gpu).should_throttle",
    "start_monitoring": "berth.monitoring.start()",
    "start_optimization_loop": "optimization.interval in berth.yaml",
    "stop_monitoring": "berth.monitoring.stop()",
    "unregister_callback": "berth.off(function)",
    "update_config": "berth.config.set(temp_throttle=80)",
    "validate_step_plans": "berth.compile([load, segment])",
}
EARLIER_ARGUMENTS = {
    "batch_size": "batch", "callback": "function", "device_id": "gpu", "duration": "minutes", "duration_minutes": "minutes",
    "gpu_id": "gpu", "n_gpus": "gpus", "preferred_device_id": "prefer", "required_mb": "memory", "required_memory_mb": "memory",
    "task_id": "allocation_id",
}  # fmt: skip


def imports(frame: types.FrameType) -> bool:
    """Reports whether a name is looked up by ``from berth import``, where Python keeps the
    text of an AttributeError to itself."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]


def meant(word: str, words: Iterable[str]) -> str:
    """Returns a question about the word that was probably meant, or nothing."""
    words = list(words)
    if EARLIER_ARGUMENTS.get(word) in words:
        return ": did you mean %s?" % EARLIER_ARGUMENTS[word]
    found = difflib.get_close_matches(str(word), words, 1, 0.6)
    return ": did you mean %s?" % found[0] if found else ""


def mistaken(function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Any, name: str = "") -> Optional[str]:
    """Returns what is wrong with the arguments of a call, or None if they fit."""
    signature, name = inspect.signature(function), name or function.__name__
    known = [p for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    for word in kwargs:
        if word not in signature.parameters and not any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
            help_ = meant(word, [p.name for p in known]) or ": help(berth.%s) lists what it takes" % name
            return "%s takes no argument %s%s" % (name, word, help_)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as why:
        need = [p.name for p in known if p.default is p.empty]
        if len(known) > len(need) or len(known) < len(signature.parameters):
            words = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
            need.append("NAME=…" if words and not need else "…")
        return "%s: %s; write %s(%s)" % (name, why, name, ", ".join(need))
    return None


def explained(function: Function) -> Function:
    """Returns the function with words for calls that cannot be."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError:
            wrong = mistaken(function, args, kwargs)
            if wrong is None:
                raise
        raise TypeError(wrong)

    return cast(Function, call)


def number(what: str, value: Any, unit: str = "seconds", example: str = "10") -> None:
    """Refuses what is no number."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise TypeError("%s is a number of %s, such as %s, not %r" % (what, unit, example, value))


# What the daemon's checker of shapes says, and how that reads.
_WORDS = tuple(
    (re.compile(said), means)
    for said, means in (
        (r"^expected string to match pattern (.*)$", r"must look like \1"),
        (r"^expected string.*$", "must be a text: write it in quotes"),
        (r"^expected integer.*$", "must be a whole number"),
        (r"^expected number.*$", "must be a number"),
        (r"^expected boolean.*$", "must be True or False"),
        (r"^expected object.*$", "must be a dictionary"),
        (r"^expected array.*$", "must be a list"),
    )
)  # fmt: skip


def in_words(detail: str) -> str:
    """Returns what is wrong with a field as a person would say it."""
    for said, means in _WORDS:
        if said.match(detail):
            return said.sub(means, detail)
    return detail
