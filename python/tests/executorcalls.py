"""Functions for the tests of executors: workers import them from here."""

import os
import signal
import threading

BASE = 0


class Odd(Exception):
    """An exception that can be pickled, and not be read again."""

    def __init__(self, number, text):
        super().__init__("%s: %d" % (text, number))


class Made:
    """What can be referred to weakly."""

    def __init__(self, number):
        self.number = number


def where(_=None):
    return os.getpid(), os.environ["BERTH_LEASE"], os.environ["CUDA_VISIBLE_DEVICES"]


def add(a, b=0):
    return a + b


def set_base(base):
    global BASE
    BASE = base
    note("loaded", os.getpid())


def plus_base(number):
    return BASE + number


def refuse(*_):
    raise RuntimeError("no model here")


def fail(number):
    raise ValueError("unlucky %d" % number)


def fail_oddly(number):
    raise Odd(number, "odd")


def leave():
    raise SystemExit(3)


def lose_device():
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


def lock():
    return threading.Lock()


def note(name, text):
    with open(os.path.join(os.environ["MAP_FOLDER"], name), "a") as file:
        file.write("%s\n" % text)


def die(number):
    note("calls", number)
    os.kill(os.getpid(), signal.SIGKILL)


def gated(number):
    """Notes the call, and waits until somebody opens the gate, a pipe with a name."""
    folder = os.environ["MAP_FOLDER"]
    note("calls", number)
    note("arrived", os.getpid())
    if not os.path.exists(os.path.join(folder, "open")):
        with open(os.path.join(folder, "gate")):
            pass
    return number
