"""What an interpreter can import, found out in child processes: to import a
library only to look at it would cost seconds, memory and, with jax, 71 threads."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
from typing import Any, Dict, Iterable, Tuple

from .client import BerthError

LIMIT = 60.0  # seconds for one library; a cold network drive takes its time
_LANES = 4  # children at the same time; each can take a gigabyte

# What changes which library is found, or which GPUs it sees.
_VARIABLES = (
    "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD",
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "JAX_PLATFORMS",
    "ZE_AFFINITY_MASK", "ZE_ENABLE_PCI_ID_DEVICE_ORDER", "ZE_FLAT_DEVICE_HIERARCHY", "ONEAPI_DEVICE_SELECTOR",
)  # fmt: skip

# Answers of this process, by interpreter, library and environment.
_KNOWN: Dict[Tuple[str, ...], Dict[str, Any]] = {}
_LOCK = threading.Lock()  # guards _KNOWN


class NoInterpreter(BerthError):
    """What was given as the interpreter cannot be asked for anything."""


def probe(python: str, libraries: Iterable[str], limit: float = LIMIT) -> Dict[str, Dict[str, Any]]:
    """What each library is to an interpreter: ``status`` is ok, missing or
    broken; then ``version``, ``reason`` and the GPUs it sees as ``devices``."""
    import concurrent.futures  # slow to import, and rarely needed

    if not hasattr(os, "waitid"):
        raise NoInterpreter("this system cannot try libraries: give probe=False, or plan where the program runs")
    path = _found(python)
    identity = _identified(path)
    names = sorted(set(libraries))
    with concurrent.futures.ThreadPoolExecutor(_LANES) as lanes:
        return dict(zip(names, lanes.map(lambda name: _remembered(path, identity, name, limit), names)))


def _found(python: str) -> str:
    """The path of an interpreter. Children run in a folder of their own."""
    path = os.path.abspath(python) if os.sep in python else shutil.which(python)
    if path is None:
        raise NoInterpreter("%s is in no folder of PATH: give the path of a Python 3" % python)
    return path


def _identified(python: str) -> str:
    """What the answers of an interpreter depend on: its version, and when
    something was last installed. That takes milliseconds to ask."""
    answer, fate = _ask(python, "", LIMIT)
    if not isinstance(answer, dict) or not str(answer.get("version")).startswith("3."):
        raise NoInterpreter("%s gave no answer: %s; name a Python 3 interpreter" % (python, fate))
    return json.dumps(answer)


def _remembered(python: str, identity: str, library: str, limit: float) -> Dict[str, Any]:
    key = (python, identity, library) + tuple(os.environ.get(name, "") for name in _VARIABLES)
    with _LOCK:
        if key in _KNOWN:
            return _KNOWN[key]
    answer = _judged(*_ask(python, library, limit))
    if answer["status"] == "ok":  # what fails may be mended meanwhile
        with _LOCK:
            _KNOWN[key] = answer
    return answer


def _ask(python: str, library: str, limit: float) -> Tuple[Any, str]:
    """What a child answers, None if that is no JSON; and how it ended."""
    source = pathlib.Path(__file__).with_name("probe_child.py").read_text()
    with tempfile.TemporaryDirectory(prefix="berth-probe-") as folder:
        said = pathlib.Path(folder, "answer.json")
        command = [python, "-c", source, str(said), str(int(limit) + 5), library]
        try:
            child = subprocess.Popen(
                command, cwd=folder, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError as why:
            raise NoInterpreter("%s cannot be started: %s" % (python, why.strerror or why)) from why
        fate = _ended(child, limit)
        try:
            return json.loads(said.read_text()), fate
        except (OSError, ValueError):
            return None, fate


def _ended(child: "subprocess.Popen[bytes]", limit: float) -> str:
    """Waits for a child, kills whatever is left of its group, and says how it
    ended. The child is not reaped before that, so that nobody else can have its
    number."""
    end = threading.Thread(target=os.waitid, args=(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT), daemon=True)
    end.start()
    try:
        end.join(limit)
        late = end.is_alive()
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        end.join()
        code = child.wait()
    if late:
        return "it did not answer within %g seconds" % limit
    return "it ended with status %d" % code if code >= 0 else "it was killed by signal %d" % -code


def _judged(answer: Any, fate: str) -> Dict[str, Any]:
    if answer is None:
        return {"status": "broken", "reason": "import: " + fate}
    if not isinstance(answer, dict) or answer.get("status") not in ("ok", "missing", "broken"):
        return {"status": "broken", "reason": "import: what it answered is rubbish"}
    if answer.get("devices_unknown") == "it never answered":
        answer["devices_unknown"] = "asked for its GPUs, " + fate
    return answer
