"""One run of a planned pipeline in this process: the steps in their order, on
one GPU, with the conversions between them placed there."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from .conversions import HOST_COPY, Conversion, conversion
from .libraries import LIBRARIES, library_of
from .peaks import Meter
from .trimming import empty_pools
from .visible import index_of


@dataclasses.dataclass(frozen=True)
class StepRun:
    """What one step took."""

    name: str
    seconds: float
    # The most GPU memory in its libraries; 0 for a step without a GPU, None if
    # another run in this process used them at the same time.
    memory_mb: Optional[int]
    conversions: Tuple[Conversion, ...] = dataclasses.field(default=(), repr=False)


@dataclasses.dataclass(frozen=True)
class Run:
    """What came out of a run, and how it went."""

    value: Any = dataclasses.field(repr=False)
    pipeline: str
    gpu: str  # UUID; empty if it needed none
    moved: str  # why it is not the GPU of the plan; empty if it is
    steps: Tuple[StepRun, ...]


class Execution:
    """A run under way on a GPU, named by its UUID, or on none."""

    def __init__(
        self, planned: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]], gpu: str, moved: str
    ):
        self.planned, self.functions, self.gpu, self.moved = planned, functions, gpu, moved
        self.steps: List[Mapping[str, Any]] = list(planned["steps"])
        used = [name for step in self.steps for name in _used(step)]
        self.libraries = [name for name in dict.fromkeys(used) if name in LIBRARIES and name != "numpy"]
        self.index = index_of(gpu) if gpu and self.libraries else None
        self.results: Dict[str, Any] = {}  # of steps that others wait for, and of the last ones
        self.done: List[StepRun] = []

    def go(self, data: Any) -> Run:
        with contextlib.ExitStack() as devices:
            if self.index is not None:
                for name in self.libraries:
                    devices.enter_context(LIBRARIES[name].using(self.index))
            for position in range(len(self.steps)):
                self._step(position, data)
        ends = {step["name"]: self.results[step["name"]] for step in self.steps if step["name"] in self.results}
        value = next(iter(ends.values())) if len(ends) == 1 else ends
        return Run(value, self.planned["name"], self.gpu, self.moved, tuple(self.done))

    def _step(self, position: int, data: Any) -> None:
        step = self.steps[position]
        before = step.get("after") or []
        made: List[Conversion] = []
        with self._meter(position) as meter:
            inputs = [self._converted(self.results[b], step["input"], made) for b in before]
            if not before:
                inputs = [self._converted(data, step["input"], made)]
            self._drop(before, position)
            if step.get("on_gpu") and self.index is not None:
                # What others keep for later is missing in this step's share.
                empty_pools(set(self.libraries) - set(_used(step)))
            result = self.functions[step["name"]](*inputs)
            del inputs
        self._check(step, result)
        self.results[step["name"]] = result
        kept = tuple(dataclasses.replace(c, value=None) for c in made)
        self.done.append(StepRun(step["name"], meter.seconds, meter.memory_mb, kept))

    def _meter(self, position: int) -> Meter:
        """Measures a step by itself. Results that only wait for later steps are
        not its own: a plan adds them to what the step needs."""
        step = self.steps[position]
        if not step.get("on_gpu"):
            return Meter()
        inputs = step.get("after") or []
        copied = {c["step"] for c in step.get("conversions") or [] if c["cost"] == HOST_COPY}
        later = self._taken_after(position)
        waiting = [v for name, v in self.results.items() if name not in inputs or name in copied and name in later]
        return Meter(self.libraries, self.index, sum(_on_gpu(waiting).values()))

    def _drop(self, names: Sequence[str], position: int) -> None:
        """Lets go of results that no later step takes."""
        later = self._taken_after(position)
        for name in names:
            if name not in later:
                self.results.pop(name, None)

    def _taken_after(self, position: int) -> Set[str]:
        return {name for step in self.steps[position + 1 :] for name in step.get("after") or []}

    def _converted(self, value: Any, to: str, made: List[Conversion]) -> Any:
        """Arrays, and arrays in lists, tuples and dictionaries. What is no array
        stays as it is: a first step may take the name of a file."""
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(self._converted(v, to, made) for v in value)
        if isinstance(value, dict):
            return {k: self._converted(v, to, made) for k, v in value.items()}
        if not _is_array(value):
            return value
        done = conversion(value, to, None if to == "numpy" else self.index)
        if done.cost != "none":
            made.append(done)
        return done.value

    def _check(self, step: Mapping[str, Any], result: Any) -> None:
        if _is_array(result) and library_of(result).name != step["output"]:
            raise TypeError(
                "run: step %s says that it gives %s, and gave %s: correct @berth.memory(output=…)"
                % (step["name"], step["output"], library_of(result).name)
            )


def _used(step: Mapping[str, Any]) -> List[str]:
    """The libraries of a step as it is planned."""
    return [step["input"], step["output"]] + [library["name"] for library in step.get("libraries") or []]


def _on_gpu(value: Any) -> Dict[int, int]:
    """How many bytes arrays take on a GPU, by their addresses: several names for
    the same memory count once. What does not say where it is does not count."""
    found: Dict[int, int] = {}
    for array in _arrays(value):
        library = library_of(array)
        with contextlib.suppress(TypeError):
            plain = library.plain(array)
            if library.index(plain) is not None:
                found[library.pointer(plain)] = library.nbytes(plain)
    return found


def _arrays(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _arrays(item)
    elif isinstance(value, dict):
        yield from _arrays(list(value.values()))
    elif _is_array(value):
        yield value


def _is_array(value: Any) -> bool:
    try:
        library_of(value)
    except TypeError:
        return False
    return True
