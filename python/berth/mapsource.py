"""How workers find the functions of a map or an executor: by module and name, or by source.

A function of a module is imported by its name. One of a notebook cell or a
script has no module that a worker could import, so its source travels; that
works only for a function that uses nothing but its arguments and built-ins.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import sys
import textwrap
import types
from typing import Any, Callable, List, NamedTuple, Set

from .client import BerthError

HEAD = "from __future__ import annotations\n\n"  # annotations may name what workers do not have

INTERACTIVE = {"display", "get_ipython"}  # what IPython puts among the built-ins


class Source(NamedTuple):
    """Where a worker finds a function: its module, or its source if ``module``
    is empty."""

    module: str
    name: str
    text: str = ""


def source_of(function: Callable[..., Any], what: str, who: str = "map") -> Source:
    """Returns where a worker finds a function. ``what`` is the argument of the
    caller that it came in, and ``who`` the function that was called."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not callable(function) or isinstance(function, type) or not module or not name:
        raise BerthError(
            "%s: %s must be a function, and %r is none: write def name(records): … and give name" % (who, what, function)
        )
    if _importable(function, module, name):
        return Source(module, name)
    if not isinstance(function, types.FunctionType):
        raise BerthError(
            "%s: workers cannot import %r (%s): write def name(records): … in a module, and make what it needs in init="
            % (who, function, what)
        )
    if function.__name__ == "<lambda>":
        raise BerthError(
            "%s: %s is a lambda, which has no name that workers could find it by: "
            "write def name(%s): return … and give name" % (who, what, "records" if who == "map" else "…")
        )
    return Source("", function.__name__, _text(function, who))


def _importable(function: Any, module: str, name: str) -> bool:
    found: Any = sys.modules.get(module)
    if module == "__main__" or getattr(found, "__spec__", None) is None:
        return False
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is function


def _text(function: types.FunctionType, who: str) -> str:
    """Returns the source of a function that needs nothing around it."""
    try:
        text = HEAD + textwrap.dedent(inspect.getsource(function))
        code = compile(text, "<%s>" % function.__name__, "exec", dont_inherit=True)
    except (OSError, TypeError, SyntaxError) as why:
        raise BerthError(
            "%s: the source of %s cannot be read (%s): put it into a module and import it" % (who, function.__name__, why)
        ) from None
    names = _outside(code, function)
    if names:
        raise BerthError(
            "%s: %s is defined in a notebook or a script, and uses %s, which workers do not have: import modules inside "
            "of it, make models in %s=, or put it into a module and import it"
            % (who, function.__name__, ", ".join(names), "init" if who == "map" else "initializer")
        )
    return text


def _outside(code: types.CodeType, function: types.FunctionType) -> List[str]:
    """Returns the names that the source of a function takes from around it,
    those of its decorators and defaults included."""
    names: Set[str] = set()
    _collect(code, names)
    return sorted(name for name in names if name != function.__name__ and not _built_in(name, function))


def _collect(code: types.CodeType, names: Set[str]) -> None:
    own: Set[str] = set()  # of the module, or of the body of a class
    for step in dis.get_instructions(code):
        if step.opname == "STORE_NAME":
            own.add(step.argval)
        elif step.opname == "LOAD_NAME" and step.argval not in own:
            names.add(step.argval)
        elif step.opname.endswith("_GLOBAL") or step.opname == "LOAD_FROM_DICT_OR_GLOBALS":
            names.add(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _collect(constant, names)


def _built_in(name: str, function: types.FunctionType) -> bool:
    if name == "__name__":
        return True
    if name in INTERACTIVE or not hasattr(builtins, name):
        return False
    meant = getattr(builtins, name)
    return function.__globals__.get(name, meant) is meant  # a notebook may have a name of its own for another thing
