"""How workers find the functions of a map."""

import functools
import json
import subprocess
import sys
import tempfile
import textwrap
import types
import unittest

import berth
from berth.mapsource import source_of

from . import mapjobs

def cell(text, **names):
    """A function as a notebook has it: in a module that is no file, with its
    source in the cache of lines."""
    import linecache

    text = textwrap.dedent(text)
    name = "<cell %d>" % len(linecache.cache)
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = dict(names, __name__="__main__")
    exec(compile(text, name, "exec"), space)
    return [value for key, value in space.items() if isinstance(value, types.FunctionType) and key not in names][-1]


class Finding(unittest.TestCase):
    def test_functions_of_modules(self):
        self.assertEqual(source_of(mapjobs.double, "function"), ("tests.mapjobs", "double", ""))
        self.assertEqual(source_of(json.JSONDecoder.decode, "function")[:2], ("json.decoder", "JSONDecoder.decode"))
        self.assertEqual(source_of(len, "function")[:2], ("builtins", "len"))

    def test_functions_of_cells(self):
        module, name, text = source_of(
            cell(
                """
                from __future__ import annotations
                def work(records: Tensor, factor=2) -> List[Any]:
                    import math
                    class Box:
                        size = 1
                        twice = size + size
                    def inner(r):
                        return inner(r - 1) if r > 0 else math.sqrt(factor * r) + Box.twice
                    return [inner(r) for r in sorted(records)] if records else work(records)
                """
            ),
            "function",
        )
        self.assertEqual((module, name), ("", "work"))
        space = {}
        exec(text, space)
        self.assertEqual(space["work"]([0]), [2.0])

    def test_functions_inside_of_functions(self):
        self.assertEqual(source_of(mapjobs.plain, "function")[:2], ("", "inner"))

    def refused(self, function, *texts):
        with self.assertRaises(berth.BerthError) as raised:
            source_of(function, "function")
        for text in texts:
            self.assertIn(text, str(raised.exception))

    def test_globals_are_refused_by_name(self):
        uses = cell("def work(records): return [np.sum(r) * table[0] for r in records]", np=json, table=[1])
        self.refused(uses, "work is defined in a notebook or a script, and uses np, table, which", "init=", "into a module")
        self.refused(cell("def work(records): return missing(records)"), "uses missing,")
        self.refused(cell("def work(records):\n    global seen\n    seen = records\n    return records"), "uses seen,")
        self.refused(cell("def work(records, k=K): return records", K=1), "uses K,")
        self.refused(cell("@wrap\ndef work(records): return records", wrap=lambda f: f), "uses wrap,")
        self.refused(cell("def work(records): return sum(records)", sum=max), "uses sum,")
        self.refused(cell("def work(records): return display(records)"), "uses display,")

    def test_closures_are_refused_by_name(self):
        factor = 2

        def work(records):
            return [factor * r for r in records]

        self.refused(work, "uses factor,")

    def test_lambdas_are_refused(self):
        self.refused(lambda records: records, "is a lambda", "write def name(records)")

    def test_other_things_are_refused(self):
        self.refused(functools.partial(mapjobs.double), "must be a function")
        self.refused(json.JSONDecoder().decode, "workers cannot import")
        self.refused([].append, "must be a function")
        self.refused(5, "must be a function")
        self.refused(int, "must be a function")
        space = {"__name__": "__main__"}
        exec("def work(records): return records", space)
        self.refused(space["work"], "source of work cannot be read", "put it into a module")

    def test_a_script(self):
        """Functions of __main__ are taken by their source, although workers see
        another __main__."""
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(
                "from berth.mapsource import source_of\n"
                "def work(records): return records\n"
                "print(source_of(work, 'function').module == '')\n"
            )
            script.flush()
            done = subprocess.run([sys.executable, script.name], capture_output=True, text=True, check=False, env={"PYTHONPATH": "."})
        self.assertEqual((done.stdout, done.stderr), ("True\n", ""))
