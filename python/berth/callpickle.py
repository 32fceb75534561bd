"""How the calls of an executor, and what comes of them, travel between processes.

They are pickled: functions and classes by their names. What a script defines is
found by importing the script, as the processes of :mod:`multiprocessing` do. A
function of a script or a notebook that uses nothing around it travels by its source,
as those of a map do.
"""

from __future__ import annotations

import base64
import io
import itertools
import os
import pickle
import runpy
import sys
import types
from typing import Any, Callable, Dict, Optional, Tuple

from . import mapworker
from .client import BerthError
from .maprun import write
from .mapsource import source_of

INLINE = 256 << 10  # bytes; what is longer goes through a file

Dumps = Callable[[Any], bytes]
Main = Dict[str, str]  # how a worker imports the program: by "module" or by "path"

_MAIN = ("__main__", "__mp_main__")  # what the program is called here, and in workers


def main_program() -> Optional[Main]:
    """Returns how workers can import this program; None for a notebook or a prompt."""
    main = sys.modules["__main__"]
    spec, path = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return {"module": spec.name}
    return {"path": os.path.abspath(path)} if path and os.path.isfile(path) else None


class Writer:
    """Pickles calls. The sources of functions are kept in ``folder``."""

    def __init__(self, folder: str, main: Optional[Main]):
        self._folder, self._main = folder, main
        self._known: Dict[types.FunctionType, Any] = {}  # how each function of the program travels
        self._numbers = itertools.count()  # of files: calls may be pickled in several threads at once

    def dumps(self, value: Any) -> bytes:
        file = io.BytesIO()
        _Pickler(file, self).dump(value)
        return file.getvalue()

    def of_program(self, thing: Any) -> Any:
        """Returns how a function or a class of this program is pickled."""
        if isinstance(thing, types.FunctionType):
            if thing not in self._known:
                self._known.setdefault(thing, self._by_source(thing))
            return self._known[thing]
        if self._main is None:
            raise BerthError(
                "executor: %s is defined in a notebook, and workers do not have it: put it into a module and import it"
                % thing.__qualname__
            )
        return NotImplemented  # by its name

    def _by_source(self, function: types.FunctionType) -> Any:
        try:
            source = source_of(function, function.__name__, "executor")
        except BerthError:
            if self._main is None or "<" in function.__qualname__:
                raise  # the program cannot be imported, or does not have it by a name
            return NotImplemented
        path = write(self._folder, "function-%d.py" % next(self._numbers), source.text)
        return function_of, (path, source.name)


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, writer: Writer):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._writer = writer

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, (types.FunctionType, type)) and thing.__module__ == "__main__":
            return self._writer.of_program(thing)
        return NotImplemented


_FUNCTIONS: Dict[Tuple[str, str], Any] = {}


def function_of(path: str, name: str) -> Any:
    """Returns a function by its source, the same one each time."""
    found = _FUNCTIONS.get((path, name))
    if found is None:
        found = _FUNCTIONS[path, name] = mapworker._load(os.path.basename(path)[:-3], "", name, path)
    return found


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, program: Callable[[], Any]):
        super().__init__(file)
        self._program = program

    def find_class(self, module: str, name: str) -> Any:
        if module not in _MAIN:
            return super().find_class(module, name)
        found = self._program()
        for part in name.split("."):
            if not hasattr(found, part):
                raise BerthError(
                    "executor: workers import the script, and find no %s in it: define it at the top of the script, "
                    'not under if __name__ == "__main__": or at a prompt' % name
                )
            found = getattr(found, part)
        return found


def loads(data: bytes, program: Callable[[], Any] = lambda: sys.modules["__main__"]) -> Any:
    """Reads what was pickled here or in another process. ``program`` returns the
    module of the program."""
    return _Unpickler(io.BytesIO(data), program).load()


class Program:
    """The program of the executor, in a worker: it is imported when something of it
    is needed."""

    def __init__(self, main: Optional[Main]):
        self._main = main

    def __call__(self) -> Any:
        if sys.modules["__main__"].__name__ != "__mp_main__" and self._main is not None:
            self._import(self._main)
        return sys.modules["__main__"]

    def _import(self, main: Main) -> None:
        module = types.ModuleType("__mp_main__")
        if "module" in main:
            found = runpy.run_module(main["module"], run_name="__mp_main__", alter_sys=True)
        else:
            found = runpy.run_path(main["path"], run_name="__mp_main__")
        module.__dict__.update(found)
        sys.modules["__main__"] = sys.modules["__mp_main__"] = module


def pack(data: bytes, path: str) -> str:
    """Returns bytes as a text that fits into a record: themselves, or the file that
    has them."""
    if len(data) <= INLINE:
        return "=" + base64.b64encode(data).decode()
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        try:
            file.write(data)
            file.flush()
        except OSError:
            os.unlink(path)  # the disk may be full
            raise
    return path


def unpack(text: str) -> bytes:
    """Returns what was packed, and removes its file."""
    if text.startswith("="):
        return base64.b64decode(text[1:])
    with open(text, "rb") as file:
        data = file.read()
    os.unlink(text)
    return data
