"""What is said about calls that cannot be: which argument is missing or unknown, what is
probably meant, and what a value must be."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from typing import Any, Callable, Iterable, Optional, Tuple, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def meant(word: str, words: Iterable[str]) -> str:
    """Returns a question about the word that was probably meant, or nothing."""
    found = difflib.get_close_matches(str(word), list(words), 1, 0.6)
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
