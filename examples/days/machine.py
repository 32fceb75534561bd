"""A machine with simulated GPUs, on which the days in this folder are played.

A Machine starts a daemon of its own and ends it. After a day that failed, its folder is
kept, with the state and the logs of the daemons in it. A process that calls `use` has
simulated memory, as a program has that loads a model. `see` ends the day if a
sentence is not true. BERTH_BIN names the program; without it, the one that
`make build` left in bin/ is used.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref

ROOT = pathlib.Path(__file__).resolve().parents[2]
BERTH = os.environ.get("BERTH_BIN") or str(ROOT / "bin" / "berth")
sys.path.insert(0, str(ROOT / "python"))


class Machine:
    """Machine runs a daemon for as long as its `with` block lasts."""

    def __init__(self, devices, configuration="", scenario="", shared=False):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="berth-day-"))
        self._remove = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._logs = []  # of the daemons, the newest last
        if shared:  # other users of the machine come here, too
            self.folder.chmod(0o755)
        self.configuration = self.folder / "berth.yaml"
        self.configuration.touch(0o600)  # the commands of hooks are not for others
        self.configuration.write_text(configuration)
        if scenario:
            (self.folder / "scenario.yaml").write_text(scenario)
            devices = "sim:%s" % (self.folder / "scenario.yaml")
        self._command = [BERTH, "serve", "--devices", devices, "--config", str(self.configuration)]
        self._command += ["--state-dir", str(self.folder / "state"), "--listen", "127.0.0.1:0"]
        self.guests = self.folder / "guests"
        self.guests.mkdir()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
        path = os.pathsep.join([str(pathlib.Path(BERTH).parent), clean.get("PATH", "")])
        self.environ = dict(clean, BERTH_SIM_GUESTS=str(self.guests), BERTH_BIN=BERTH, PATH=path)
        self.socket = str(self.folder / "berth.sock")
        self.environ.update(BERTH_SOCKET=self.socket, PYTHONPATH=str(ROOT / "python"))

    def __enter__(self):
        for name in [name for name in os.environ if name.startswith("BERTH_")]:
            del os.environ[name]
        os.environ.update(self.environ)
        self.start_daemon()
        return self

    def start_daemon(self):
        """Starts the daemon, and waits until it answers."""
        self._logs.append(self.folder / ("log-%d" % len(self._logs)))
        with open(self._logs[-1], "wb") as log:
            self._daemon = subprocess.Popen(self._command, stdout=log, stderr=log, env=self.environ, cwd=self.folder)
        until(lambda: self._daemon.poll() is not None or self.ready(), "the daemon starts")
        if self._daemon.poll() is not None:
            fail("the daemon has ended:\n" + self.log())
        self.url = "http://" + re.findall(r"listen=(\S+)", self.log())[-1]

    def kill(self):
        """Kills the daemon, as kill -9 does."""
        self._daemon.kill()
        self._daemon.wait()

    def stop(self):
        """Ends the daemon, as systemctl stop does."""
        self._daemon.terminate()
        self._daemon.wait()

    def serve_from(self, folder):
        """Lets the next daemon be the program in a folder."""
        self._command[0] = str(folder / "berth")

    def keep(self):
        """Leaves the folder to somebody who wants to look at it."""
        if self._remove.detach():
            say("to look at it: the folder %s is kept" % self.folder)

    def __exit__(self, failure, *_):
        self.stop()
        if failure:
            self.keep()
        self._remove()

    def ready(self):
        import berth

        try:
            return berth.ready() is not None and "listen=" in self.log()
        except berth.BerthError:
            return False

    def log(self):
        """Returns what the newest daemon has logged."""
        return self._logs[-1].read_text(errors="replace")

    def over_tcp(self):
        """Lets this process and its children find the daemon at its TCP address."""
        for environ in (os.environ, self.environ):
            environ.pop("BERTH_SOCKET", None)
            environ["BERTH_URL"] = self.url

    def berth(self, *arguments, **more):
        """Runs the command berth, and returns what it prints."""
        return self.run(BERTH, *arguments, **more)

    def run(self, *command, code=0, cwd=None, uid=None, gid=None):
        """Runs a program, as another user if there is a uid, and returns what it prints."""

        def become():
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)

        words = [str(word) for word in command]
        done = subprocess.run(words, env=self.environ, capture_output=True, text=True, cwd=cwd,
                              preexec_fn=become if uid is not None else None)
        said = done.stdout + done.stderr
        if done.returncode != code:
            fail("%s exits with %d, and not %d:\n%s" % (" ".join([os.path.basename(words[0]), *words[1:]]), done.returncode, code, said))
        return said

    def start(self, *command, **more):
        """Starts a program, as a user of the machine does."""
        return subprocess.Popen([str(word) for word in command], env=dict(self.environ, **more), text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def use(uuid, memory_mb, load=0):
    """Lets this process have simulated memory on a GPU and work there."""
    folder = pathlib.Path(os.environ["BERTH_SIM_GUESTS"])
    (folder / uuid).mkdir(exist_ok=True)
    written = folder / ("%d.new" % os.getpid())
    written.write_text(json.dumps({"memory_mb": memory_mb, "load": load}))
    written.replace(folder / uuid / str(os.getpid()))


def until(true, what):
    """Waits for something that happens in other processes, at most five minutes."""
    for _ in range(12000):
        if true():
            return
        threading.Event().wait(0.025)
    fail("this never comes true: " + what)


def see(true, sentence):
    """Ends the program unless the sentence is true."""
    if not true:
        fail("this is not true: " + sentence)


def fail(sentence):
    sys.exit(os.path.basename(sys.argv[0]) + ": " + sentence)


def say(sentence):
    print(sentence, flush=True)
