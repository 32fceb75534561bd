"""What an interpreter can import, found out in child processes: to import a
library only to look at it would cost seconds, memory and, with jax, 71 threads."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
from typing import Any, Dict, Iterable, Tuple

LIMIT = 60.0  # seconds for one library; a cold network drive takes its time
_LANES = 4  # children at the same time; each can take a gigabyte

# Answers of this process, by interpreter, library and what decides about GPUs.
_KNOWN: Dict[Tuple[str, ...], Dict[str, Any]] = {}
_LOCK = threading.Lock()  # guards _KNOWN


def probe(python: str, libraries: Iterable[str], limit: float = LIMIT) -> Dict[str, Dict[str, Any]]:
    """What each library is to an interpreter: ``status`` is ok, missing or
    broken; then ``version``, ``reason`` and the GPUs it sees as ``devices``."""
    import concurrent.futures  # slow to import, and rarely needed

    names = sorted(set(libraries))
    with concurrent.futures.ThreadPoolExecutor(_LANES) as lanes:
        return dict(zip(names, lanes.map(lambda name: _remembered(python, name, limit), names)))


def _remembered(python: str, library: str, limit: float) -> Dict[str, Any]:
    key = (python, library) + tuple(
        os.environ.get(name, "") for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "PYTHONPATH")
    )
    with _LOCK:
        if key in _KNOWN:
            return _KNOWN[key]
    answer = _ask(python, library, limit)
    if answer["status"] == "ok":  # what fails may be mended meanwhile
        with _LOCK:
            _KNOWN[key] = answer
    return answer


def _ask(python: str, library: str, limit: float) -> Dict[str, Any]:
    source = pathlib.Path(__file__).with_name("probe_child.py").read_text()
    with tempfile.TemporaryDirectory(prefix="berth-probe-") as folder:
        said = os.path.join(folder, "answer.json")
        command = [python, "-c", source, said, str(int(limit) + 5), library]
        try:
            child = subprocess.Popen(
                command, cwd=folder, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError as why:
            raise OSError("compile: %s cannot be started: %s" % (python, why.strerror or why)) from why
        try:
            code = child.wait(limit)
            fate = "it ended with status %d" % code if code >= 0 else "it was killed by signal %d" % -code
        except subprocess.TimeoutExpired:
            fate = "it did not answer within %g seconds" % limit
        finally:
            _kill_group(child)
        return _read(said, fate)


def _kill_group(child: "subprocess.Popen[bytes]") -> None:
    """Ends the child and whatever it started. Its group is named after it, and
    it is not reaped before."""
    if child.returncode is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()


def _read(path: str, fate: str) -> Dict[str, Any]:
    try:
        answer = json.loads(pathlib.Path(path).read_text())
    except (OSError, ValueError):
        return {"status": "broken", "reason": "import: " + fate}
    if not isinstance(answer, dict) or answer.get("status") not in ("ok", "missing", "broken"):
        return {"status": "broken", "reason": "import: what it answered is rubbish"}
    if answer.get("devices_unknown") == "it never answered":
        answer["devices_unknown"] = "asked for its GPUs, " + fate
    return answer
