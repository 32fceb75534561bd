"""The package on systems that are no Linux, where it has a daemon at a URL."""

import os
import subprocess
import sys
import textwrap
import unittest

from . import PATIENCE
from .daemon import BINARY, Daemon
from .test_package import ROOT

# Takes from an interpreter on Linux what Python lacks elsewhere. The standard library
# comes first: its modules look for these where they run.
WITHOUT = """
import asyncio, concurrent.futures, email.message, http.client, json, logging, os, random, signal, socket, subprocess, sys, tempfile, threading

for name in MODULES:
    sys.modules[name] = None
for module, names in NAMES.items():
    for name in names:
        if hasattr(sys.modules[module], name):
            delattr(sys.modules[module], name)
sys.platform = PLATFORM
"""
MACOS = {"os": ["pidfd_open", "sched_getaffinity", "waitid"], "socket": ["SO_PEERCRED"]}
WINDOWS = {
    "os": MACOS["os"] + ["register_at_fork", "fork", "forkpty", "geteuid", "getuid", "getgid", "killpg", "pread", "set_blocking", "O_NOFOLLOW"],
    "socket": MACOS["socket"] + ["AF_UNIX"],
    "signal": ["SIGKILL", "SIGHUP", "alarm", "setitimer"],
    "asyncio": ["open_unix_connection"],
}
SYSTEMS = {
    "win32": (["fcntl", "resource", "termios", "pwd", "grp"], WINDOWS),
    "darwin": ([], MACOS),
}


def on(system, program, **environment):
    """Returns what a program prints there."""
    modules, names = SYSTEMS[system]
    head = "MODULES, NAMES, PLATFORM = %r, %r, %r\n" % (modules, names, system)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("BERTH_")}
    done = subprocess.run(
        [sys.executable, "-c", head + WITHOUT + textwrap.dedent(program)], cwd=ROOT, env={**clean, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=PATIENCE,
    )  # fmt: skip
    return done.stdout


class Systems(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not BINARY.exists():
            raise unittest.SkipTest("there is no %s: run make build, or name the binary in BERTH_BIN" % BINARY)
        cls.daemon = Daemon("sim:2", "daemon: {token: something-long-and-random-enough}", listen="127.0.0.1:0")
        cls.addClassCleanup(cls.daemon.close)
        cls.environment = {
            "BERTH_URL": "http://" + cls.daemon.address(), "BERTH_TOKEN": "something-long-and-random-enough",
        }  # fmt: skip

    def test_a_daemon_at_a_url(self):
        program = """
            import berth

            print(berth.status(0).state, len(berth.devices()), berth.is_available())
            came = threading.Event()
            berth.on("lease_granted", lambda event: came.set())
            print(berth.allocate("far", "4GiB", ttl=60).memory_mb)
            print(came.wait(%d))
            with berth.lease(memory="1GiB") as gpu:
                print(gpu.memory_mb, gpu.held)
            berth.deallocate("far")
            print(berth.leases().leases)
            print(asyncio.run(berth.aio.is_available()))
            """
        for system in ("darwin", "win32"):
            if system == "win32":  # asyncio of Linux does not run without Unix sockets
                program = program.replace("asyncio.run(berth.aio.is_available())", "callable(berth.aio.status)")
            with self.subTest(system):
                said = on(system, program % PATIENCE, **self.environment)
                self.assertEqual(said.splitlines(), ["OPTIMAL 2 True", "4096", "True", "1024 True", "[]", "True"])

    def test_without_a_url(self):
        said = on("win32", "import berth\ntry: berth.status()\nexcept berth.NoDaemon as why: print(why)\n")
        self.assertIn("BERTH_URL=http://", said)
        self.assertNotIn("Traceback", said)

    def test_workers_are_for_linux(self):
        program = """
            import berth

            for call in (lambda: berth.map(len, [1]), lambda: list(berth.imap(len, [1])), lambda: berth.Executor()):
                try:
                    call()
                except berth.BerthError as why:
                    print(why)
            """
        for system in SYSTEMS:
            with self.subTest(system):
                said = on(system, program, **self.environment).splitlines()
                self.assertEqual([line.split(": ")[1] for line in said], ["berth starts workers on Linux only"] * 3, said)
