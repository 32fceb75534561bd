"""Functions for the tests of maps: workers import them from here."""

import os
import threading


def double(numbers):
    return [2 * n for n in numbers]


def batches(numbers):
    """Says with each outcome how many records came with it, and who did it."""
    return [[n, len(numbers), os.getpid()] for n in numbers]


def environment(name):
    return os.environ.get(name)


def load():
    with open(os.environ["MAP_LOADED"], "a") as file:
        file.write("%d\n" % os.getpid())
    return 1000


def plus(numbers, base):
    return [n + base for n in numbers]


def picky(number):
    if number == 13:
        raise ValueError("unlucky")
    if number == 17:
        return {"_error": "too large"}
    return number


def deadly(numbers):
    if 7 in numbers:
        os._exit(9)
    return numbers


def few(numbers):
    return numbers[1:]


def counted(numbers):
    """Fails for 5 as long as the folder has no file "mended", and notes what it
    was called for."""
    folder = os.environ["MAP_FOLDER"]
    with open(os.path.join(folder, "calls"), "a") as file:
        file.write("".join("%d\n" % n for n in numbers))
    if 5 in numbers and not os.path.exists(os.path.join(folder, "mended")):
        raise ValueError("not yet")
    return double(numbers)


def gated(number):
    """Waits at 3 until somebody opens the gate, a pipe with a name."""
    folder = os.environ["MAP_FOLDER"]
    if number == 3 and not os.path.exists(os.path.join(folder, "open")):
        with open(os.path.join(folder, "arriving"), "w") as file:
            file.write(str(os.getpid()))
        os.rename(file.name, os.path.join(folder, "arrived"))  # with its text
        with open(os.path.join(folder, "gate")):
            pass
    with open(os.path.join(folder, "calls"), "a") as file:
        file.write("%d\n" % number)
    return 2 * number


def read(path):
    with open(path) as file:
        return int(file.read())


def write(outcome):
    if outcome == 6:
        raise OSError("no room")
    return {"written": outcome}


def kinds(values):
    return [type(value).__name__ for value in values]


def threads(records):
    return [threading.active_count() for _ in records]


def same(record):
    return record


def keys(records):
    return [sorted(record) for record in records]


def decorated():
    def inner(numbers):
        return numbers

    return inner


plain = decorated()


def twice(x):
    """Meant for one record."""
    return x * 2


def power(x):
    """Meant for one record."""
    return x**2


def length(x):
    """Meant for one record."""
    return len(x)


def upper(x):
    """Meant for one record."""
    return x.upper()


def array_twice(x):
    """Says what came, and gives an array back."""
    return {"kind": type(x).__name__, "twice": x * 2}


def no_model():
    import there_is_no_such_module  # noqa: F401


def with_model(records, model):
    return records


def _once():
    """Whether this is the first time that anybody asks."""
    try:
        os.close(os.open(os.path.join(os.environ["MAP_FOLDER"], "met"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


_LOST = []  # not empty: this process has lost its GPU


def lost_once(value):
    if _LOST or _once():
        _LOST.append(value)
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    return value


def hungry_once(value):
    if _once():
        raise MemoryError
    return value


def huge(numbers):
    return [10**5000 if n == 2 else n for n in numbers]
