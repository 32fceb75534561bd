"""Pipelines: steps that are planned before anything runs, and run on one GPU
with the conversions between them placed there."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .client import BerthError, Client
from .conversions import Conversion, conversion
from .devices import index_of
from .leases import Lease, current, lease
from .libraries import LIBRARIES, library_of
from .memorytypes import Declaration
from .peaks import Meter
from .probing import probe as probe_libraries
from .trimming import empty_pools

WAIT = 30.0  # seconds for the lease of a run, unless said otherwise


@dataclasses.dataclass(frozen=True)
class Step:
    """A function with its place in a pipeline. A function that is declared with
    :func:`berth.memory` can stand for itself."""

    function: Callable[..., Any]
    name: str = ""  # that of the function
    after: Optional[Sequence[str]] = None  # steps whose results it takes; None: the one before it
    memory: Optional[Declaration] = None  # that of the function

    @property
    def declaration(self) -> Declaration:
        found = self.memory or getattr(self.function, "__berth__", None)
        if not isinstance(found, Declaration):
            raise TypeError(
                'compile: step %s does not say what it takes and gives: put @berth.memory(input="…", output="…") '
                "above the function" % self.label
            )
        return found

    @property
    def label(self) -> str:
        return self.name or str(getattr(self.function, "__name__", "step"))


StepLike = Union[Step, Callable[..., Any]]


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """Steps that run one after the other in one process, on one GPU."""

    name: str
    steps: Sequence[StepLike]
    gpu: Optional[str] = None  # an index, a UUID, or what it must be like
    count: Optional[int] = None  # how often it runs
    slots: Optional[int] = None
    policy: Optional[str] = None
    service: Optional[str] = None
    priority: Optional[int] = None

    def named(self) -> Dict[str, Step]:
        """Every step by its name; functions that stand there twice are numbered."""
        found: Dict[str, Step] = {}
        for item in self.steps:
            step = item if isinstance(item, Step) else Step(item)
            name, number = step.label, 2
            while name in found and not step.name:
                name, number = "%s-%d" % (step.label, number), number + 1
            if name in found:
                raise ValueError("compile: pipeline %s has two steps called %s" % (self.name, name))
            found[name] = step
        return found

    def document(self) -> Dict[str, Any]:
        """The pipeline as the daemon takes it."""
        fields = ("name", "gpu", "count", "slots", "policy", "service", "priority")
        wanted = {field: getattr(self, field) for field in fields}
        wanted["gpu"] = None if self.gpu is None else str(self.gpu)
        wanted["steps"] = [_step_document(name, step) for name, step in self.named().items()]
        return {key: value for key, value in wanted.items() if value is not None}


def _step_document(name: str, step: Step) -> Dict[str, Any]:
    declared = step.declaration
    wanted = {
        "name": name, "input": declared.input, "output": declared.output,
        "memory_mb": declared.memory_mb or None, "output_mb": declared.output_mb or None,
        "libraries": list(declared.libraries) or None,
        "after": None if step.after is None else list(step.after),
    }  # fmt: skip
    return {key: value for key, value in wanted.items() if value is not None}


Pipelines = Union[Pipeline, Sequence[Union[Pipeline, StepLike]], Mapping[str, Sequence[StepLike]]]


def compile(
    steps: Pipelines,
    *,
    name: str = "pipeline",
    gpu: Optional[str] = None,
    python: Optional[str] = None,
    client: Optional[Client] = None,
) -> "Plan":
    """Plans steps, or whole pipelines, before anything runs: which GPU, how
    much memory, what is converted where. ``steps`` is a list of functions, a
    :class:`Pipeline` or several, or a dictionary of lists by name. What cannot
    work is refused with a :class:`berth.Problem` that names every reason."""
    pipelines = _pipelines(steps, name, gpu)
    python = python or sys.executable
    libraries = {library for p in pipelines for step in p.named().values() for library in _needs(step)}
    body = {
        "pipelines": [p.document() for p in pipelines],
        "interpreter": python,
        "libraries": probe_libraries(python, libraries),
    }
    client = client or Client()
    document = client.call("POST", "/api/plans", body)
    functions = {p.name: {n: step.function for n, step in p.named().items()} for p in pipelines}
    return Plan(document, functions, client)


def run(steps: Pipelines, data: Any, **options: Any) -> Any:
    """Plans steps and runs them on data; see :func:`compile` and :meth:`Plan.run`."""
    return compile(steps, **options).run(data)


def _pipelines(steps: Pipelines, name: str, gpu: Optional[str]) -> List[Pipeline]:
    if isinstance(steps, Pipeline):
        return [steps]
    if isinstance(steps, Mapping):
        return [Pipeline(str(key), list(value), gpu=gpu) for key, value in steps.items()]
    items = list(steps)
    if not items:
        raise ValueError("compile: there are no steps")
    whole = [item for item in items if isinstance(item, Pipeline)]
    if len(whole) == len(items):
        return whole
    if whole:
        raise TypeError("compile: give steps or pipelines, not both in one list")
    return [Pipeline(name, items, gpu=gpu)]  # type: ignore[arg-type]


def _needs(step: Step) -> Tuple[str, ...]:
    declared = step.declaration
    return (declared.input, declared.output) + declared.libraries


@dataclasses.dataclass(frozen=True)
class StepRun:
    """What one step took."""

    name: str
    seconds: float
    memory_mb: int  # the most GPU memory in its libraries; 0 for a step without a GPU
    conversions: Tuple[Conversion, ...] = dataclasses.field(default=(), repr=False)


@dataclasses.dataclass(frozen=True)
class Run:
    """What came out of a run, and how it went."""

    value: Any = dataclasses.field(repr=False)
    pipeline: str
    gpu: str  # UUID; empty if it needed none
    moved: str  # why it is not the GPU of the plan; empty if it is
    steps: Tuple[StepRun, ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What will happen, before anything does. It prints as a table."""

    document: Mapping[str, Any]  # as the daemon wrote it
    functions: Mapping[str, Mapping[str, Callable[..., Any]]] = dataclasses.field(repr=False)
    client: Client = dataclasses.field(repr=False)

    @property
    def pipelines(self) -> List[Mapping[str, Any]]:
        return list(self.document["pipelines"])

    def run(self, data: Any = None, *, pipeline: Optional[str] = None, timeout: float = WAIT) -> Any:
        """Runs a pipeline on data and returns its result: that of the last
        step, or a dictionary if several steps end it."""
        return self.execute(data, pipeline=pipeline, timeout=timeout).value

    def execute(
        self, data: Any = None, *, pipeline: Optional[str] = None, timeout: float = WAIT, run: int = 0
    ) -> Run:
        """Like :meth:`run`, and says how it went. Steps run in this process,
        under the lease that it has, or one for this run, which is given back
        whatever happens; ``timeout`` is for getting it, and ``run`` says for
        which run of a repeated pipeline. What was measured goes to the daemon,
        for the next plan of these steps."""
        planned = self._planned(pipeline)
        with self._lease(planned, run, timeout) as (held, moved):
            result = _Execution(planned, self.functions[planned["name"]], held, moved).go(data)
        self._report(result)
        return result

    def _planned(self, name: Optional[str]) -> Mapping[str, Any]:
        names = [p["name"] for p in self.pipelines]
        if name is None and len(names) != 1:
            raise ValueError("run: say which pipeline: %s" % ", ".join(names))
        if name is not None and name not in names:
            raise ValueError("run: there is no pipeline %r: there are %s" % (name, ", ".join(names)))
        return self.pipelines[0 if name is None else names.index(name)]

    @contextlib.contextmanager
    def _lease(self, planned: Mapping[str, Any], run: int, timeout: float) -> Iterator[Tuple[Optional[Lease], str]]:
        """The lease for a run, and why it is not on the device of the plan."""
        here = current()
        if not planned.get("memory_mb") and not planned.get("slots"):
            yield None, ""  # it needs nothing and gets nothing
        elif here is not None:
            yield here, ""
        elif self.client.local:
            with _RunLease(planned, planned["runs"][run], timeout, self.client) as held:
                yield held, held.reason
        else:
            wanted = {key: planned[key] for key in ("policy", "service", "priority") if planned.get(key) is not None}
            wanted.update(_wish(planned), name=planned["runs"][run]["name"], client=self.client)
            with lease(planned["memory_mb"], slots=planned["slots"], timeout=timeout, **wanted) as held:
                yield held, "" if held.uuid == planned["runs"][run].get("gpu") else "the daemon is far away"

    def _report(self, run: Run) -> None:
        for step in run.steps:
            body = {"name": run.pipeline, "step": step.name, "memory_mb": step.memory_mb, "seconds": step.seconds}
            try:
                self.client.call("POST", "/api/measurements", body, timeout=5.0)
            except BerthError:
                return  # the work is done; what was learned from it is not worth an error

    def __str__(self) -> str:
        return "\n\n".join(_table(p) for p in self.pipelines)


class _RunLease(Lease):
    """The lease of a run: on the device of its plan, or on another that will do
    if the world has changed."""

    def __init__(self, planned: Mapping[str, Any], run: Mapping[str, Any], timeout: float, client: Client):
        super().__init__({"name": run["name"]}, timeout, None, False, False, client)
        self._plan = {"pipelines": [dict(planned, steps=[], runs=[run])]}
        self.reason = ""  # why it is on another device; empty if it is not

    def __enter__(self) -> "_RunLease":
        self.acquire()
        return self

    def _post(self, client: Client, body: Dict[str, Any], limit: Optional[float]) -> Dict[str, Any]:
        asked = {"plan": self._plan, "id": body["id"], "timeout_seconds": body["timeout_seconds"]}
        (run,) = client.call("POST", "/api/plans/run", asked, timeout=limit)["runs"]
        self.reason = run.get("reason") or ""
        granted: Dict[str, Any] = run["lease"]
        return granted


def _wish(planned: Mapping[str, Any]) -> Dict[str, str]:
    wish = str(planned.get("gpu") or "")
    if not wish:
        return {}
    return {"where" if any(c in wish for c in "=~<>,") else "gpu": wish}


class _Execution:
    """One run of a pipeline in this process."""

    def __init__(
        self,
        planned: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
        held: Optional[Lease],
        moved: str,
    ):
        self.planned, self.functions, self.held, self.moved = planned, functions, held, moved
        self.steps: List[Mapping[str, Any]] = list(planned["steps"])
        used = [name for step in self.steps for name in _used(step)]
        self.libraries = [name for name in dict.fromkeys(used) if name in LIBRARIES and name != "numpy"]
        self.index = index_of(held) if held is not None and self.libraries else None
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
        gpu = self.held.uuid if self.held is not None else ""
        return Run(value, self.planned["name"], gpu, self.moved, tuple(self.done))

    def _step(self, position: int, data: Any) -> None:
        step = self.steps[position]
        before = step.get("after") or []
        made: List[Conversion] = []
        with Meter(self.libraries, self.index) as meter:
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

    def _drop(self, names: Sequence[str], position: int) -> None:
        """Lets go of results that no later step takes."""
        later = {name for step in self.steps[position + 1 :] for name in step.get("after") or []}
        for name in names:
            if name not in later:
                self.results.pop(name, None)

    def _converted(self, value: Any, to: str, made: List[Conversion]) -> Any:
        """Arrays, and arrays in lists, tuples and dictionaries. What is no array
        stays as it is: a first step may take the name of a file."""
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(self._converted(v, to, made) for v in value)
        if isinstance(value, dict):
            return {k: self._converted(v, to, made) for k, v in value.items()}
        try:
            library_of(value)
        except TypeError:
            return value
        done = conversion(value, to, None if to == "numpy" else self.index)
        if done.cost != "none":
            made.append(done)
        return done.value

    def _check(self, step: Mapping[str, Any], result: Any) -> None:
        try:
            found = library_of(result).name
        except TypeError:
            return
        if found != step["output"]:
            raise TypeError(
                "run: step %s says that it gives %s, and gave %s: correct @berth.memory(output=…)"
                % (step["name"], step["output"], found)
            )


def _used(step: Mapping[str, Any]) -> List[str]:
    """The libraries of a step as it is planned."""
    return [step["input"], step["output"]] + [library["name"] for library in step.get("libraries") or []]


def _table(planned: Mapping[str, Any]) -> str:
    """A pipeline for people."""
    rows = [("STEP", "ON", "IN → OUT", "CONVERTED FROM", "MEMORY", "FROM")]
    for step in planned["steps"]:
        came = ", ".join("%s (%s)" % (c["from"], c["cost"].replace("_", " ")) for c in step.get("conversions") or [])
        on_gpu = step.get("on_gpu")
        rows.append((
            step["name"], "GPU" if on_gpu else "CPU", "%s → %s" % (step["input"], step["output"]), came or "-",
            "%d MiB" % step["memory_mb"] if on_gpu else "-", str(step.get("memory_from") or "-"),
        ))  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    notes = ["not now: " + text for text in planned.get("unsatisfied") or []]
    notes += ["note: " + text for text in planned.get("notes") or []]
    return "\n".join([_headline(planned)] + ["  " + line for line in lines + notes])


def _headline(planned: Mapping[str, Any]) -> str:
    runs = planned.get("runs") or []
    text = "pipeline %s: %d run%s" % (planned["name"], len(runs), "" if len(runs) == 1 else "s")
    if not planned.get("memory_mb"):
        return text + ", no GPU needed"
    if len(runs) == 1 and runs[0].get("gpu"):
        text += " on %s" % runs[0]["gpu"]
    return "%s, %d MiB and %d slot%s each" % (
        text, planned["memory_mb"], planned["slots"], "" if planned["slots"] == 1 else "s"
    )  # fmt: skip
