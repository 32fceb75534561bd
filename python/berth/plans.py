"""Pipelines: steps that are planned before anything runs, and run on one GPU
under the lease that the plan asks for."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .client import BerthError, Client
from .execution import Execution, Run
from .given import Given, Shape, given
from .leasing import Lease, own
from .memorytypes import Declaration
from .probing import NoInterpreter
from .probing import probe as probe_libraries
from .runleases import RunLease, under_lease

WAIT = 30.0  # seconds for the lease of a run, unless said otherwise
LONGEST_NAME = 100  # bytes that the daemon takes


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
    gpu: Union[int, str, None] = None  # an index, a UUID, or what it must be like
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
            if not callable(step.function):
                raise TypeError(
                    "compile: %.60r is no function: give functions with @berth.memory(…); "
                    "a plan of dictionaries goes to POST /api/plans" % (step.function,)
                )
            name, number = step.label, 2
            while name in found and not step.name:
                name, number = "%s-%d" % (step.label, number), number + 1
            if name in found:
                raise ValueError("compile: pipeline %s has two steps called %s" % (self.name, name))
            found[name] = step
        return found

    def shape(self) -> Shape:
        """Its steps as a plan describes them."""
        found: Shape = {}
        for name, step in self.named().items():
            after = list(found)[-1:] if step.after is None else list(step.after)
            found[name] = (step.declaration.input, step.declaration.output, tuple(after))
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
        "function": _place(step.function),
    }  # fmt: skip
    return {key: value for key, value in wanted.items() if value is not None}


def _place(function: Callable[..., Any]) -> Optional[str]:
    """Where a function is defined: what it took is remembered under that name,
    for every pipeline that calls it. None for what is made on the fly, which
    can be something else each time."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module == "__main__":
        module = _script()
    if not module or not name or "<" in name:
        return None
    return _fitting("%s.%s" % (module, name)) or None


def _script() -> str:
    """What others would import this program as; empty for one without a file."""
    main = sys.modules.get("__main__")
    spec, path = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return _fitting(str(spec.name).replace(".__main__", ""))
    return _fitting(os.path.splitext(os.path.basename(path))[0]) if path else ""


def _fitting(name: str) -> str:
    """A name, or nothing if the daemon would not take it."""
    return name if name.isprintable() and len(name.encode("utf-8", "replace")) <= LONGEST_NAME else ""


Pipelines = Union[Pipeline, Sequence[Union[Pipeline, StepLike]], Mapping[str, Sequence[StepLike]]]


def compile(
    steps: Pipelines,
    *,
    name: Optional[str] = None,
    gpu: Union[int, str, None] = None,
    python: Optional[str] = None,
    probe: bool = True,
    client: Optional[Client] = None,
) -> "Plan":
    """Plans steps, or whole pipelines, before anything runs: which GPU, how
    much memory, what is converted where. ``steps`` is a list of functions, a
    :class:`Pipeline` or several, or a dictionary of lists by name; ``name`` is
    for a list of functions, and is that of the program unless it is said. What
    cannot work is refused with a :class:`berth.Problem` that names every reason.
    With ``probe=False`` nobody asks whether ``python`` can import the libraries
    and whether they see the GPUs: for a plan on a machine without them.

    Under ``berth plan --run`` the plan is there already: steps of the pipeline
    that was started are held against it, and nothing is planned anew."""
    already = given()
    default = already.pipeline if already else _script() or "pipeline"
    pipelines = _pipelines(steps, name or default, gpu)
    functions = {p.name: {n: step.function for n, step in p.named().items()} for p in pipelines}
    shapes = {p.name: p.shape() for p in pipelines}
    client = client or Client()
    if already and already.has(list(shapes)):
        for pipeline, shape in shapes.items():
            already.check(pipeline, shape)
        return Plan(already.document, functions, client, already)
    return Plan(client.call("POST", "/api/plans", _request(pipelines, python or sys.executable, probe)), functions, client)


def _request(pipelines: List[Pipeline], python: str, probe: bool) -> Dict[str, Any]:
    libraries = {library for p in pipelines for step in p.named().values() for library in _needs(step)}
    body: Dict[str, Any] = {"pipelines": [p.document() for p in pipelines], "interpreter": python}
    if not probe:
        return body
    try:
        body["libraries"] = probe_libraries(python, libraries)
    except NoInterpreter as why:
        body["probe_error"] = str(why)  # a problem of the plan, beside whatever else is wrong
    return body


def run(steps: Pipelines, data: Any, **options: Any) -> Any:
    """Plans steps and runs them on data; see :func:`compile` and :meth:`Plan.run`."""
    return compile(steps, **options).run(data)


def _pipelines(steps: Pipelines, name: str, gpu: Union[int, str, None]) -> List[Pipeline]:
    if isinstance(steps, Pipeline):
        return [steps]
    if isinstance(steps, Mapping):
        return [Pipeline(str(key), list(value), gpu=gpu) for key, value in steps.items()]
    if callable(steps):
        raise TypeError("compile: give a list of steps, as in berth.compile([%s])" % getattr(steps, "__name__", "load"))
    items = list(steps)
    if not items:
        raise ValueError("compile: there are no steps: give functions with @berth.memory(…), in their order")
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
class Plan:
    """What will happen, before anything does. It prints as ``berth plan`` does."""

    document: Mapping[str, Any]  # as the daemon wrote it
    functions: Mapping[str, Mapping[str, Callable[..., Any]]] = dataclasses.field(repr=False)
    client: Client = dataclasses.field(repr=False)
    given: Optional[Given] = dataclasses.field(default=None, repr=False)  # by berth plan --run

    @property
    def pipelines(self) -> List[Mapping[str, Any]]:
        return list(self.document["pipelines"])

    def run(
        self,
        data: Any = None,
        *,
        pipeline: Optional[str] = None,
        timeout: float = WAIT,
        under: Optional[Lease] = None,
    ) -> Any:
        """Runs a pipeline on data and returns its result: that of the last
        step, or a dictionary if several steps end it."""
        return self.execute(data, pipeline=pipeline, timeout=timeout, under=under).value

    def execute(
        self,
        data: Any = None,
        *,
        pipeline: Optional[str] = None,
        timeout: float = WAIT,
        run: Optional[int] = None,
        under: Optional[Lease] = None,
    ) -> Run:
        """Like :meth:`run`, and says how it went. Steps run in this process,
        under the lease ``under``, or the one that this thread took, or that the
        program was started under; else under one for this run, which is given
        back whatever happens. ``timeout`` is for getting that, and ``run`` says
        for which run of a repeated pipeline. What was measured goes to the
        daemon, for the next plan of these steps."""
        planned = self._planned(pipeline)
        which = self._run(planned, run)
        with self._lease(planned, which, timeout, under) as (gpu, moved):
            result = Execution(planned, self.functions[planned["name"]], gpu, moved).go(data)
        self._report(planned, result)
        return result

    def _planned(self, name: Optional[str]) -> Mapping[str, Any]:
        here = {p["name"]: p for p in self.pipelines if p["name"] in self.functions}
        if name is None:
            started = self.given.pipeline if self.given is not None else ""
            possible = [started] if started in here else list(here)
            if len(possible) != 1:
                raise ValueError("run: say which pipeline: %s" % ", ".join(here))
            name = possible[0]
        if name not in here:
            raise ValueError("run: there is no pipeline %r: there are %s" % (name, ", ".join(here)))
        return here[name]

    def _run(self, planned: Mapping[str, Any], number: Optional[int]) -> Mapping[str, Any]:
        runs: Sequence[Mapping[str, Any]] = planned["runs"]
        if number is None:
            started = self.given.run if self.given is not None else ""
            return next((run for run in runs if run["name"] == started), runs[0])
        if not 0 <= number < len(runs):
            raise ValueError(
                "run: pipeline %s has no run %d: its %s" % (planned["name"], number, _numbered(len(runs)))
            )
        return runs[number]

    @contextlib.contextmanager
    def _lease(
        self, planned: Mapping[str, Any], run: Mapping[str, Any], timeout: float, under: Optional[Lease]
    ) -> Iterator[Tuple[str, str]]:
        """Holds a lease for a run: gives its device, and why that is not the
        one of the plan."""
        held = under or own()
        if not planned.get("memory_mb") and not planned.get("slots"):
            yield "", ""  # it needs nothing and gets nothing
        elif held is not None:
            held._come_back()
            yield under_lease(held, planned, run)
        else:
            with RunLease(planned, run, timeout, self.client) as held:
                yield held.uuid, held.reason

    def _report(self, planned: Mapping[str, Any], run: Run) -> None:
        for step, took in zip(planned["steps"], run.steps):
            if took.memory_mb is None:
                continue
            body = {**_remembered(planned, step), "memory_mb": took.memory_mb, "seconds": took.seconds}
            try:
                self.client.call("POST", "/api/measurements", body, timeout=5.0)
            except BerthError:
                return  # the work is done; what was learned from it is not worth an error

    def __str__(self) -> str:
        return str(self.document["table"]).rstrip("\n")


def _remembered(planned: Mapping[str, Any], step: Mapping[str, Any]) -> Dict[str, str]:
    """What measurements of a step are kept under: its function if it has one."""
    signature, alone = step.get("signature"), "%s/%s" % (planned["name"], step["name"])
    if not signature or signature == alone:
        return {"name": planned["name"], "step": step["name"]}
    return {"name": signature}


def _numbered(count: int) -> str:
    return "only run is 0" if count == 1 else "runs are 0 to %d" % (count - 1)
