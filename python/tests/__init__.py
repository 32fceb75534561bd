"""Importing the tests bounds how long they may run, and lets the programs that they
start have their signals."""

import faulthandler
import signal
import threading

LIMIT = 30 * 60  # seconds for all tests together; two minutes are usual
PATIENCE = 300  # seconds for what comes at once, however busy the machine is


class Late(BaseException):
    """Late ends a test that still runs when LIMIT is over."""


def late(*_):
    faulthandler.dump_traceback()
    raise Late("the tests have run for %d s; this one does not end" % LIMIT)


if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, LIMIT, 60)  # a minute for each that follows

    # A program started by nohup, or in the background of a script, ignores these, and so
    # do its children. What is handled here is at its default there.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
