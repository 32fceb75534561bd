"""Memory types: the kinds of array that a step takes and gives, how a function
declares them, and how amounts of memory are written."""

from __future__ import annotations

import dataclasses
import re
import sys
import warnings
from typing import Any, Callable, Iterable, Optional, Sequence, Tuple, TypeVar, Union

# The memory types, each named after the library that makes it. numpy is in
# host memory, all others are on a GPU.
MEMORY_TYPES: Tuple[str, ...] = ("numpy", "cupy", "torch", "tensorflow", "jax", "pyclesperanto")

# Words that people use for a memory type and that are too far from its name to
# be found by their letters.
_NICKNAMES = {
    "cpu": "numpy", "host": "numpy", "np": "numpy", "ndarray": "numpy",
    "cp": "cupy", "cuda": "cupy", "gpu": "cupy",
    "pytorch": "torch", "tensor": "torch",
    "tf": "tensorflow", "keras": "tensorflow",
    "jnp": "jax", "flax": "jax",
    "cle": "pyclesperanto", "clesperanto": "pyclesperanto", "opencl": "pyclesperanto",
}  # fmt: skip

Amount = Union[int, str]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What a function says about its memory; ``function.__berth__``."""

    input: str
    output: str
    memory_mb: Optional[int] = None  # the most GPU memory while it runs; None: not known
    output_mb: Optional[int] = None  # the part that its result takes; None: not known
    libraries: Tuple[str, ...] = ()  # what it imports besides those of its types


def memory(
    input: str,
    output: Optional[str] = None,
    *,
    memory_mb: Optional[Amount] = None,
    output_mb: Optional[Amount] = None,
    libraries: Iterable[str] = (),
) -> Callable[[Function], Function]:
    """Declares the memory types of a function, and nothing else: the function
    stays as it is. Without ``output`` it gives what it takes.

        @berth.memory(input="torch", output="cupy", memory_mb="2GiB")
        def segment(image): ...
    """
    if callable(input):
        raise TypeError('memory: say what the function takes: @berth.memory(input="torch")')
    declaration = Declaration(
        input=check_type(input, "input"),
        output=check_type(output if output is not None else input, "output"),
        memory_mb=mib(memory_mb) if memory_mb is not None else None,
        output_mb=mib(output_mb) if output_mb is not None else None,
        libraries=tuple(_library(name) for name in ([libraries] if isinstance(libraries, str) else libraries)),
    )

    def declare(function: Function) -> Function:
        function.__berth__ = declaration  # type: ignore[attr-defined]
        return function

    return declare


def check_type(word: Any, what: str = "to") -> str:
    """Returns a memory type, or says which was perhaps meant."""
    if isinstance(word, str) and word in MEMORY_TYPES:
        return word
    if not isinstance(word, str):
        raise TypeError("%s: a memory type is a word such as %r, not %r" % (what, "torch", word))
    raise ValueError("%s: %r is not a memory type; %s" % (what, word, _remedy(word)))


def _remedy(word: str) -> str:
    near = _nearest(word, (*MEMORY_TYPES, *_NICKNAMES)) or ""
    meant = _NICKNAMES.get(word.lower()) or _NICKNAMES.get(near, near)
    return "did you mean %s?" % meant if meant else "there are: " + ", ".join(MEMORY_TYPES)


def _nearest(word: str, words: Sequence[str]) -> Optional[str]:
    """The word that differs in the fewest letters, if they are few enough for
    a slip of the pen."""
    best = min(words, key=lambda w: _distance(word.lower(), w))
    return best if _distance(word.lower(), best) <= max(2, len(word) // 4) else None


def _distance(a: str, b: str) -> int:
    """Letters to insert, remove or replace."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a[:64], 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(diagonal + (x != y), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def _library(name: str) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name, re.ASCII):
        raise ValueError("libraries: %r cannot be imported: write the name that comes after import" % (name,))
    return name


LEAST_BARE = 64  # MiB; a smaller amount needs a unit
_UNITS = {"": 1.0, "m": 1.0, "g": 1024.0, "t": 1024.0**2, "k": 1 / 1024.0}
_AMOUNT = re.compile(r"\s*([0-9]*\.?[0-9]+|[0-9]+\.)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)


def mib(amount: Amount) -> int:
    """Reads an amount of memory, in MiB: ``4096``, ``"4GiB"``, ``"512M"``. MB
    and MiB are the same here, as everywhere in berth."""
    found = _AMOUNT.fullmatch(amount) if isinstance(amount, str) else None
    if found:
        _warn_of_decimal(found, str(amount))
        value = float(found[1]) * _UNITS[found[2].lower()]
    elif isinstance(amount, (int, float)) and not isinstance(amount, bool):
        value = float(amount)
    else:
        raise ValueError("%r is not an amount of memory: write it like 4GiB, 512M or 2048 (MiB)" % (amount,))
    if not 0 <= value <= 2**40:
        raise ValueError("%r is not an amount of memory that any machine has: write it like 4GiB, 512M or 2048 (MiB)" % (amount,))
    if value != int(value):
        raise ValueError("%r is not a whole number of MiB: write it like 4GiB, 512M or 2048 (MiB)" % (amount,))
    return int(value)


def asked(amount: Amount) -> int:
    """Reads the amount of memory that somebody asks for, in MiB. A number without a unit
    that is so small that GiB were probably meant is refused."""
    value = mib(amount)
    if 0 < value < LEAST_BARE and not re.search("[A-Za-z]", str(amount)):
        raise ValueError('memory %s has no unit: write "%dGiB" or "%dMiB"' % (amount, value, value))
    return value


def resized(amount: Amount) -> int:
    """Reads the new size of a lease, in MiB. A number is what the lease has said of itself,
    such as ``asked_mb``, and may be small."""
    return asked(amount) if isinstance(amount, str) else mib(amount)


def _warn_of_decimal(found: "re.Match[str]", amount: str) -> None:
    """Says what an amount is taken for that means something else to some."""
    if found[2].lower() in ("g", "t") and amount.strip().lower().endswith(found[2].lower() + "b"):
        meant = "%s%siB" % (found[1], found[2].upper())
        warnings.warn("%s is taken as %s, as everywhere in berth: write %s" % (amount, meant, meant), stacklevel=_level())


def _level() -> int:
    """Returns the stacklevel, for whoever calls this, of the line outside of this package
    that led here: however deep that is, the line that somebody can change."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("berth", "contextlib"):
        level, frame = level + 1, frame.f_back
    return level
