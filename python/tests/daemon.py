"""A live daemon with simulated GPUs, for tests. BERTH_BIN names the binary;
without it, the one that `make build` left in bin/ is used."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

import berth

from . import PATIENCE

BINARY = pathlib.Path(os.environ.get("BERTH_BIN") or pathlib.Path(__file__).parents[2] / "bin" / "berth").absolute()


class Daemon:
    def __init__(self, devices="sim:4", configuration="", listen=""):
        self._folder = tempfile.TemporaryDirectory(prefix="berth-")
        self.socket = os.path.join(self._folder.name, "berth.sock")
        self._devices, self._listen = devices, listen
        self.guests = os.path.join(self._folder.name, "guests")  # of processes that use simulated memory
        self.configuration = os.path.join(self._folder.name, "berth.yaml")
        pathlib.Path(self.configuration).write_text(configuration)
        os.chmod(self.configuration, 0o600)  # it may hold a token
        self.log = open(os.path.join(self._folder.name, "log"), "w")
        self.client = berth.Client(socket=self.socket)
        self.start()

    def start(self):
        command = [str(BINARY), "serve", "--devices", self._devices, "--state-dir", self._folder.name]
        command += ["--socket", self.socket, "--listen", self._listen, "--config", self.configuration]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("BERTH_")}
        clean["BERTH_SIM_GUESTS"] = self.guests
        before = len(self._said())
        self._process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=clean)
        for _ in range(20 * PATIENCE):
            if self._ready() and " listen=" in self._said()[before:]:  # the socket answers before that is written
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.05)  # for the start of another process there is no signal
        raise RuntimeError("the daemon does not start:\n" + self._said())

    def _ready(self):
        try:
            return self.client.call("GET", "/readyz") is not None
        except berth.BerthError:
            return False

    def _said(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def address(self):
        """Where it listens on TCP; the log has the port."""
        return re.findall(r"listen=(\S+)", self._said())[-1]

    def kill(self):
        self._process.kill()
        self._process.wait()

    def close(self):
        self.kill()
        self.log.close()
        self._folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def leases(self):
        return self.client.call("GET", "/api/leases")


class DaemonCase(unittest.TestCase):
    """Tests that share a daemon; BERTH_SOCKET leads to it."""

    devices = "sim:4"
    configuration = ""

    @classmethod
    def setUpClass(cls):
        if not BINARY.exists():
            raise unittest.SkipTest("there is no %s: run make build, or name the binary in BERTH_BIN" % BINARY)
        cls.daemon = Daemon(cls.devices, cls.configuration)
        cls.addClassCleanup(cls.daemon.close)
        cls._before = os.environ.get("BERTH_SOCKET")
        os.environ["BERTH_SOCKET"] = cls.daemon.socket
        cls.addClassCleanup(cls._restore)

    @classmethod
    def _restore(cls):
        if cls._before is None:
            del os.environ["BERTH_SOCKET"]
        else:
            os.environ["BERTH_SOCKET"] = cls._before

    def served(self, path):
        """Skips where the daemon is of an age that does not have a path yet."""
        if path not in self.daemon.client.call("GET", "/openapi.json")["paths"]:
            self.skipTest("this daemon does not serve %s" % path)

    def wait_until(self, true, what):
        """For what happens in other processes, and ends as soon as it is so."""
        for _ in range(20 * PATIENCE):
            if true():
                return
            time.sleep(0.05)
        self.fail("never: " + what)
