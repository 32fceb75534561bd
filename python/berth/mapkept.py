"""The outcomes of a map with a name, on disk until the map is finished: if the
program dies, the same call goes on.

The file has one line for the function, and one for each outcome: the number of
the record, what its text was, and the outcome. A record that has another text
now, or that failed, is done again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any, BinaryIO, Dict, Optional, Tuple

from . import maparrays
from .client import BerthError
from .forks import disown_in_children

VERSION = 1
LINE = re.compile(rb'\[(\d+),"([0-9a-f]{16})",')


def kept_file(name: str) -> str:
    """Returns where the outcomes of a map with this name are."""
    if not re.fullmatch(r"[\w][\w .,+=@-]{0,127}", name):
        raise ValueError("map: a name has at most 128 letters, digits and .,+=@-_ and begins with a letter, not %r" % name)
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "berth", "map", name + ".jsonl")


class Kept:
    """Outcomes of earlier calls, and those of this one as they come."""

    def __init__(self, name: str, function: str):
        self.path = kept_file(name)
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        self._places: Dict[int, Tuple[bytes, int, int]] = {}  # digest, offset and length, by number
        self._waiting: Dict[int, bytes] = {}  # digests of records without an outcome
        self._file = _locked(self.path, name)
        disown_in_children(self)
        try:
            self._begin(name, function)
        except BaseException:
            self._file.close()
            raise

    def _begin(self, name: str, function: str) -> None:
        head = self._file.readline()
        if not head.endswith(b"\n"):
            self._file.seek(0)
            self._file.truncate()
            self._file.write(_json({"berth_map": VERSION, "function": function}) + b"\n")
            return
        begun = _read(head)
        if not isinstance(begun, dict) or begun.get("berth_map") != VERSION:
            raise BerthError("map: %s is not a file of this version of berth: give another name, or remove it" % self.path)
        if begun.get("function") != function:
            raise BerthError(
                "map: %s was begun with the function %s, and not with %s: give another name, or remove %s"
                % (name, begun.get("function"), function, self.path)
            )
        self._load(len(head))

    def _load(self, offset: int) -> None:
        for line in self._file:
            if not line.endswith(b"]\n"):
                break  # the program died while it wrote this line
            head = LINE.match(line)
            if head is not None:
                self._places[int(head[1])] = (head[2], offset, len(line))
            offset += len(line)
        self._file.seek(offset)
        self._file.truncate()

    def find(self, number: int, record: str) -> Optional[Tuple[Any]]:
        """Returns the outcome of a record in a tuple, or None if there is none.
        The outcome of such a record has to be added later."""
        digest = hashlib.blake2b(record.encode(), digest_size=8).hexdigest().encode()
        there, offset, length = self._places.get(number, (b"", 0, 0))
        if there == digest:
            line = _read_arrays(os.pread(self._file.fileno(), length, offset))
            if isinstance(line, list) and len(line) == 3:
                return (line[2],)
        self._waiting[number] = digest
        return None

    def add(self, number: int, answer: bytes) -> None:
        """Keeps an outcome. ``answer`` is the line with its number before it."""
        _, _, outcome = answer.partition(b",")
        self._file.write(b'[%d,"%s",%s\n' % (number, self._waiting.pop(number), outcome))

    def failed(self, number: int) -> None:
        """Forgets a record, so that the next call does it again."""
        self._waiting.pop(number, None)

    def flush(self) -> None:
        self._file.flush()

    def finish(self) -> None:
        """Removes the file: the caller has every outcome."""
        os.unlink(self.path)

    def close(self) -> None:
        if not self._file.closed:
            import fcntl  # which Windows lacks

            self._file.flush()
            fcntl.flock(self._file, fcntl.LOCK_UN)  # a process that is being forked may have the file for a moment
        self._file.close()

    def disown(self) -> None:
        """Closes the file in a child of a fork: the lock, and what is not written yet, are
        its parent's."""
        self._file.raw.close()


def _locked(path: str, name: str) -> BinaryIO:
    """Opens and locks the file of a map. If another process finishes the map in
    between, it removes the file, and a new one is made."""
    import fcntl

    while True:
        file: BinaryIO = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise BerthError("map: another process works on the map %s: wait for it, or give another name" % name) from None
        if os.fstat(file.fileno()).st_nlink > 0:
            return file
        file.close()


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _read_arrays(line: bytes) -> Any:
    try:
        return maparrays.loads(line)
    except (ValueError, RecursionError):
        return None


def _read(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
