"""Writes docs/reference/python-reference.md from the package: ``make docs`` runs it, and a
test compares. Signatures and texts come from the code, so the page cannot say
what the code does not."""

import dataclasses
import inspect
import pathlib
import re
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parent
PAGE = ROOT.parent / "docs" / "reference" / "python-reference.md"

HEAD = """# Python reference

<!-- written by make docs from the package: change the texts there -->

Every name of the package `berth`, with what it takes and returns. [The Python package](../guide/python.md) shows how they are used together.

Functions that talk to the daemon take `client=`, a [Client](#client); without it they find the daemon by themselves. They raise
[Problem](#problem) when the daemon refuses, [NoDaemon](#nodaemon) when there is none, and [Broken](#broken) when a connection breaks.
`GPU` is an index or a UUID, `Amount` a text such as `"4GiB"`, or a number of MiB from 64 on.
"""

# Which names belong together, in the order of the page. Names that are not here
# come last, under "More".
SECTIONS = {
    "Devices": "is_available devices status status_all metrics history trend throttle ready",
    "Memory": "available allocate deallocate",
    "Leases": "lease Lease current leases past_leases find_lease renew resize park resume wake hold_to release bind adopt admit explain explain_waiting orphans",
    "Jobs": "submit Job jobs find_job",
    "Events": "on off events Event Subscription",
    "Speed": "speed pace Pace",
    "Work": "operation Operation",
    "Getting memory back": "optimize library_memory report_libraries trim trim_on_request ask_to_trim cap install_caps",
    "Pipelines": "MEMORY_TYPES memory Declaration compile run Pipeline Step Plan Run StepRun",
    "Conversions": "convert conversion Conversion memory_type pointer",
    "Executors": "Executor BrokenWorker",
    "Batches": "map imap Failure MapError worker progress batches measure measurements",
    "The daemon": "Client Stop BerthError Problem NoDaemon Broken",
}


def page(berth):
    """Returns the text of the page."""
    modules = [name for name in berth.__all__ if isinstance(getattr(berth, name), types.ModuleType)]
    named = " ".join(SECTIONS.values()).split() + modules
    sections = {title: names.split() for title, names in SECTIONS.items()}
    sections["More"] = [name for name in berth.__all__ if name not in named]
    parts = [HEAD]
    for title, names in sections.items():
        if names:
            parts.append("## %s\n" % title)
            parts += [described("berth", name, getattr(berth, name)) for name in names]
    parts += [namespace("berth." + name, getattr(berth, name)) for name in ("config", "monitoring", "services")]
    parts.append(twins(berth.aio, berth))
    parts.append(answers(berth.answers))
    return "\n".join(parts)


def namespace(name, module):
    found = [described(name, member, getattr(module, member)) for member in module.__all__]
    return "\n".join(["## %s\n" % name, prose(module.__doc__)] + found)


def twins(aio, berth):
    """Returns the section about berth.aio: the names that are the same, and those
    that are not."""
    same = [n for n in aio.__all__ if inspect.iscoroutinefunction(getattr(aio, n)) and n != "on"]
    spaces = [n for n in aio.__all__ if isinstance(getattr(aio, n), types.ModuleType)]
    parts = ["## berth.aio\n", prose(aio.__doc__)]
    parts.append("With `await`, as above: %s.\n" % ", ".join("`%s`" % n for n in same))
    parts.append("Likewise the functions of %s.\n" % ", ".join("`berth.aio.%s`" % n for n in spaces))
    parts += [described("berth.aio", n, getattr(aio, n)) for n in aio.__all__ if n not in same + spaces]
    return "\n".join(parts)


def answers(module):
    parts = ["## berth.answers\n", prose(module.__doc__)]
    for name, kind in vars(module).items():
        if inspect.isclass(kind) and dataclasses.is_dataclass(kind) and name != "Event":
            parts.append("### %s\n\n%s" % (name, fields(kind)))
    return "\n".join(parts)


def described(where, name, thing):
    title = "### %s\n" % (name if where == "berth" else "%s.%s" % (where, name))
    if inspect.isclass(thing):
        return "\n".join([title, class_of(where, name, thing)])
    if callable(thing):
        return "\n".join([title, code(where, name, thing), prose(thing.__doc__)])
    return "\n".join([title, "`%r`\n" % (thing,)])


def class_of(where, name, kind):
    if dataclasses.is_dataclass(kind):
        return fields(kind)
    parts = []
    if name in ("Client", "Executor"):  # the others are made by functions
        parts.append(code(where, name, kind.__init__))
    parts.append(prose(kind.__doc__))
    rows = ["| %s | %s |" % row for member, value in vars(kind).items() for row in member_row(member, value)]
    if rows:
        parts.append("\n".join(["| | |", "|---|---|"] + rows) + "\n")
    return "\n".join(parts)


def member_row(name, value):
    """Returns the row of a member, none for what is not public or not described."""
    if name.startswith("_") or not getattr(value, "__doc__", None) and not isinstance(value, property):
        return []
    if isinstance(value, property):
        kind = value.fget.__annotations__.get("return", "")
        return [("`%s: %s`" % (name, kind), cell(value.__doc__ or ""))]
    if inspect.isfunction(value):
        return [("`%s%s`" % (name, signature(value)), cell(value.__doc__))]
    return []


def fields(kind):
    comments = field_comments(kind)
    rows = ["| `%s` | `%s` | %s |" % (f.name, f.type, cell(comments.get(f.name, ""))) for f in dataclasses.fields(kind)]
    properties = [
        "| `%s` | `%s` | %s |" % (name, value.fget.__annotations__["return"], cell(value.__doc__ or ""))
        for name, value in members(kind).items() if isinstance(value, property) and not name.startswith("_")
    ]  # fmt: skip
    table = "\n".join(["| field | type | |", "|---|---|---|"] + rows + properties) + "\n"
    return "\n".join([prose(kind.__doc__), table] + methods(kind))


def members(kind):
    """Returns what a dataclass and the classes of berth/answer.py that it extends
    define, without what all answers have."""
    bases = [base for base in reversed(kind.__mro__) if base is not object and base.__name__ != "Answer"]
    return {name: value for base in bases for name, value in vars(base).items()}


def methods(kind):
    rows = ["| %s | %s |" % row for name, value in members(kind).items() for row in member_row(name, value)]
    rows = [row for name, row in zip([r.split("`")[1] for r in rows], rows) if "(" in name]
    return ["\n".join(["| method | |", "|---|---|"] + rows) + "\n"] if rows else []


def field_comments(kind):
    """Returns what the comments behind the fields of a dataclass say."""
    source = inspect.getsource(kind)
    return dict(re.findall(r"^    (\w+): .*?  # (?!fmt|type)(.*)$", source, re.MULTILINE))


def code(where, name, function):
    asynchronous = "await " if inspect.iscoroutinefunction(function) else ""
    text = "%s%s.%s%s" % (asynchronous, where, name, signature(function))
    if len(text) > 110:
        inside, _, returns = text.partition("(")[2].rpartition(")")
        text = "%s%s.%s(\n    %s,\n)%s" % (asynchronous, where, name, ",\n    ".join(split(inside)), returns)
    return "```python\n%s\n```\n" % text


def split(inside):
    """Splits parameters at the commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in inside:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def signature(function):
    found = inspect.signature(function)
    said, starred = [], False
    for parameter in found.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            said.append("*")
        starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        said.append(one(parameter))
    returns = found.return_annotation
    arrow = "" if returns in (found.empty, "None", None) else " -> %s" % str(returns).strip("'\"")
    return "(%s)%s" % (", ".join(said), arrow)


def one(parameter):
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    if parameter.annotation is not parameter.empty:
        text += ": %s" % str(parameter.annotation).replace("'", "").replace('"', "")
    if parameter.default is not parameter.empty:
        text += (" = %r" if parameter.annotation is not parameter.empty else "=%r") % (parameter.default,)
    return text


def prose(text):
    """Turns a docstring into Markdown."""
    blocks = inspect.cleandoc(text or "").split("\n\n")
    joined = "\n\n".join(block_of(block) for block in blocks) + "\n"
    return joined.replace("\n```\n\n```python\n", "\n\n")  # a block of code with an empty line in it


def block_of(block):
    if all(line.startswith("    ") for line in block.splitlines()):
        return "```python\n%s\n```" % inspect.cleandoc("\n" + block)
    if re.match(r"\w+ {2,}\S", block):  # arguments, each with its meaning
        joined = re.sub(r"\n {2,}", " ", block)
        rows = [re.split(r" {2,}", line, maxsplit=1) for line in joined.splitlines()]
        return "\n".join("- `%s`: %s" % (row[0], words(row[-1])) for row in rows)
    return re.sub(r"::$", ":", words(block))


def cell(text):
    return words(" ".join(inspect.cleandoc(text).split())).replace("|", "\\|")


def words(text):
    text = re.sub(r":(?:func|class|meth):`([^`]+)`", r"`\1`", text)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    import berth

    PAGE.write_text(page(berth), encoding="utf-8")
