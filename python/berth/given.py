"""The plan that this program was started under by ``berth plan --run``."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

Shape = Dict[str, Tuple[str, str, Tuple[str, ...]]]  # of steps by name: what each takes, gives and comes after


@dataclasses.dataclass(frozen=True)
class Given:
    """A plan that somebody else made, and which of its runs this program is."""

    document: Mapping[str, Any]
    pipeline: str
    run: str

    def has(self, names: Sequence[str]) -> bool:
        return {p["name"] for p in self.document["pipelines"]}.issuperset(names)

    def check(self, pipeline: str, steps: Shape) -> None:
        """Refuses steps that are not those that were planned."""
        (planned,) = [p for p in self.document["pipelines"] if p["name"] == pipeline]
        wanted: Shape = {s["name"]: (s["input"], s["output"], tuple(s.get("after") or ())) for s in planned["steps"]}
        wrong = _differences(wanted, steps)
        if wrong:
            raise ValueError(
                "compile: pipeline %s is not the one of %s, which berth plan --run started this program for: %s; "
                "make them the same, or give this one another name"
                % (pipeline, self.document.get("file") or "the plan", "; ".join(wrong))
            )


def given() -> Optional[Given]:
    """The plan in the environment, if there is one."""
    path, pipeline = os.environ.get("BERTH_PLAN"), os.environ.get("BERTH_PIPELINE")
    if not path or not pipeline:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        found = Given(document, pipeline, os.environ.get("BERTH_RUN") or pipeline)
        found.has([])  # it looks like a plan
    except (OSError, ValueError, LookupError, TypeError) as why:
        raise ValueError("compile: the plan in BERTH_PLAN cannot be read: %s; unset it to plan anew" % why) from why
    return found


def _differences(wanted: Shape, steps: Shape) -> List[str]:
    found = ["the plan has no step %s" % name for name in steps if name not in wanted]
    found += ["the program has no step %s" % name for name in wanted if name not in steps]
    for name, (takes, gives, after) in wanted.items():
        here = steps.get(name, (takes, gives, after))
        if here[:2] != (takes, gives):
            found.append("step %s is planned as %s→%s, and is %s→%s" % ((name, takes, gives) + here[:2]))
        if sorted(here[2]) != sorted(after):
            planned, real = ", ".join(after) or "nothing", ", ".join(here[2]) or "nothing"
            found.append("step %s is planned to come after %s, and comes after %s" % (name, planned, real))
    return found
