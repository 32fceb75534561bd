"""Talks to a berth daemon: over its Unix socket on the same machine, or over HTTP.

Every call opens a connection of its own. That costs microseconds on a socket,
and it makes a client safe to share between threads and across a fork:
the daemon reads from each connection which process is calling.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import threading
import urllib.parse
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

CALL_TIMEOUT = 30.0  # seconds for a call that does not wait for anything
SILENCE = 45.0  # seconds; the daemon says something on an event stream every 15


class BerthError(Exception):
    """Everything that berth raises on its own account."""


class Problem(BerthError):
    """The daemon answered, and refused. ``code`` is stable and for programs,
    ``detail`` says what to do about it, ``fields`` names what is wrong."""

    def __init__(self, document: Mapping[str, Any], status: int = 0):
        self.status: int = status or int(document.get("status") or 0)
        self.code: str = str(document.get("code") or "")
        self.detail: str = str(document.get("detail") or "")
        self.fields: List[Tuple[str, str]] = [
            (str(f.get("field", "")), str(f.get("detail", ""))) for f in document.get("fields") or []
        ]
        self.extra: Dict[str, Any] = dict(document.get("extra") or {})
        lines = [self.detail] + ["  %s: %s" % f for f in self.fields]
        super().__init__("\n".join(lines))


class NoDaemon(BerthError, ConnectionError):
    """Nobody listens where a daemon was looked for."""

    def __init__(self, attempts: List[Tuple[str, OSError]], hint: str):
        self.attempts = attempts
        tried = "; ".join("%s: %s" % (where, why.strerror or why) for where, why in attempts)
        super().__init__("no daemon answers (%s); %s" % (tried, hint))


class Broken(BerthError, ConnectionError):
    """The connection or the answer broke on the way: whether the daemon did
    what it was asked is not known."""

    def __init__(self, what: str, why: Exception):
        super().__init__("%s: the connection to the daemon broke: %s" % (what, why or type(why).__name__))


class Client:
    """A way to a daemon. It is found like the command line finds it:
    ``BERTH_SOCKET``, else ``BERTH_URL`` with ``BERTH_TOKEN``, else the socket
    of the user's own daemon, else the machine's."""

    def __init__(self, socket: Optional[str] = None, url: Optional[str] = None, token: Optional[str] = None):
        if socket and url:
            raise ValueError("give a socket or a url, not both")
        if not socket and not url:
            socket = os.environ.get("BERTH_SOCKET")
            url = None if socket else os.environ.get("BERTH_URL")
        self.sockets: List[str] = [] if url else [socket] if socket else default_sockets()
        self.token = token or os.environ.get("BERTH_TOKEN", "")
        self._url = _parse(url) if url else None

    @property
    def local(self) -> bool:
        """Whether the daemon can see which process is calling."""
        return self._url is None

    def call(
        self,
        method: str,
        path: str,
        body: Optional[Mapping[str, Any]] = None,
        query: Optional[Mapping[str, Any]] = None,
        timeout: Optional[float] = CALL_TIMEOUT,
    ) -> Any:
        """Sends a request and returns the JSON of the answer, None if it has
        none. ``timeout`` limits the silence; None waits as long as it takes."""
        connection = self._connect(timeout)
        try:
            text = self._send(connection, method, path, body, query, {}).read()
            return json.loads(text) if text else None
        except (OSError, http.client.HTTPException, ValueError) as why:
            raise Broken("%s %s" % (method, path), why) from why
        finally:
            connection.close()

    def events(
        self,
        after: int = 0,
        follow: bool = True,
        stop: Optional["Stop"] = None,
        *,
        code: Sequence[str] = (),
        gpu: Union[int, Sequence[Union[int, str]]] = (),
        lease: Sequence[str] = (),
        severity: str = "",
    ) -> Iterator[Dict[str, Any]]:
        """Gives the events after an id, oldest first. With ``follow`` it goes on
        until ``stop`` is set: a connection that breaks is made again and goes on
        after the last event seen.

        ``code``, ``gpu`` (indexes or UUIDs) and ``lease`` choose events: each is
        one value or a list of them. ``severity`` is the least that an event must
        have. The daemon filters the events; one with the code ``gap`` always
        comes through."""
        stop = stop or Stop()
        chosen: Dict[str, List[str]] = {"code": _several(code), "gpu": _several(gpu), "lease": _several(lease)}
        if severity:
            chosen["severity"] = [severity]
        connected, wait = False, 0.1
        while not stop.is_set():
            try:
                for event in self._stream(after, follow, stop, chosen):
                    connected, wait = True, 0.1
                    if isinstance(event, int):
                        after = event
                        continue
                    # After a gap ids may begin again lower, so a gap is never old.
                    if event.get("id", 0) > after or event.get("code") == "gap":
                        after = event.get("id", 0)
                        yield event
            except (OSError, http.client.HTTPException) as broken:
                if stop.is_set():
                    return
                if isinstance(broken, NoDaemon) and not connected:
                    raise
                if not follow or not connected:
                    raise Broken("GET /api/events", broken) from broken
            if not follow:
                return
            # Many readers of a daemon that restarts come back one by one.
            stop.wait(wait + random.random() * wait / 2)
            wait = min(2 * wait, 5.0)

    def _stream(
        self, after: int, follow: bool, stop: "Stop", chosen: Mapping[str, Any]
    ) -> Iterator[Union[int, Dict[str, Any]]]:
        """Gives the events of one connection, and an id where the daemon says
        only how far the stream has come: first the one it goes on from."""
        connection = self._connect(SILENCE)
        try:
            if not stop.watch(connection.sock):
                return
            headers = {"Accept": "text/event-stream"}
            if after:
                headers["Last-Event-ID"] = str(after)
            query = {"follow": "true" if follow else "false", **chosen}
            response = self._send(connection, "GET", "/api/events", None, query, headers)
            yield after
            data: List[str] = []
            last = ""
            for raw in response:
                line = raw.decode("utf-8").rstrip("\r\n")
                if line.startswith("data:"):
                    data.append(line[5:].lstrip(" "))
                elif line.startswith("id:"):
                    last = line[3:].strip()
                elif not line:
                    if data:
                        yield json.loads("\n".join(data))
                    elif last.isdigit():
                        yield int(last)
                    data, last = [], ""
        finally:
            stop.watch(None)
            connection.close()

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Optional[Mapping[str, Any]],
        query: Optional[Mapping[str, Any]],
        headers: Dict[str, str],
    ) -> http.client.HTTPResponse:
        if query:
            path += "?" + urllib.parse.urlencode(query, doseq=True)
        if self._url:
            path = self._url.path.rstrip("/") + path
            if self.token:
                headers["Authorization"] = "Bearer " + self.token
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        if response.status >= 300:
            raise _refusal(response)
        return response

    def _connect(self, timeout: Optional[float]) -> http.client.HTTPConnection:
        if self._url:
            return self._connect_tcp(timeout)
        attempts: List[Tuple[str, OSError]] = []
        for path in self.sockets:
            connection = _UnixConnection(path, timeout)
            try:
                connection.connect()
                return connection
            except OSError as why:
                connection.close()
                attempts.append((path, why))
        raise NoDaemon(attempts, _hint(attempts))

    def _connect_tcp(self, timeout: Optional[float]) -> http.client.HTTPConnection:
        assert self._url is not None
        secure = self._url.scheme == "https"
        make = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        host = self._url.hostname or ""
        connection = make(host, self._url.port, timeout=CALL_TIMEOUT)
        try:
            connection.connect()
        except OSError as why:
            connection.close()
            hint = "check the address, or start a daemon there: berth serve"
            raise NoDaemon([(self._url.netloc, why)], hint) from why
        connection.sock.settimeout(timeout)
        return connection


class Stop:
    """Ends a loop over events from another thread, even while it waits."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()  # guards _socket
        self._socket: Optional[socket.socket] = None

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        return self._event.wait(seconds)

    def set(self) -> None:
        self._event.set()
        with self._lock:
            if self._socket is not None:
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it is gone already

    def watch(self, connection: Optional[socket.socket]) -> bool:
        """Names the connection that set has to break; False if it was set."""
        with self._lock:
            self._socket = connection
            return not self._event.is_set()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: Optional[float]):
        super().__init__("localhost")
        self._path, self._silence = path, timeout

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(CALL_TIMEOUT)
        self.sock.connect(self._path)
        self.sock.settimeout(self._silence)


def default_sockets() -> List[str]:
    """Where daemons listen that were not told otherwise: the user's own, then
    the machine's."""
    machine = "/run/berth/berth.sock"
    if os.geteuid() == 0:
        return [machine]
    home, own = os.environ.get("HOME", ""), ""
    state = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):
        own = os.path.join(state, "berth", "berth.sock")
    elif os.path.isabs(home):
        own = os.path.join(home, ".local/state/berth/berth.sock")
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime):
        own = os.path.join(runtime, "berth", "berth.sock")
    return [own, machine] if own else [machine]


def _several(values: Union[int, Sequence[Union[int, str]]]) -> List[str]:
    """Gives the values of a parameter that may be given several times."""
    if isinstance(values, (str, int)):
        values = [values]
    return [str(value) for value in values]


def _parse(url: str) -> urllib.parse.ParseResult:
    parsed = urllib.parse.urlparse(url if "://" in url else "http://" + url)
    if parsed.scheme not in ("http", "https") or not parsed.hostname:
        raise ValueError("%r is not the address of a daemon: write it like http://127.0.0.1:8000" % url)
    return parsed


def _hint(attempts: List[Tuple[str, OSError]]) -> str:
    for path, why in attempts:
        if isinstance(why, PermissionError):
            return "your user may not open %s: join the group that owns it, or use sudo" % path
    return "start one: berth serve"


def _refusal(response: http.client.HTTPResponse) -> BerthError:
    if response.headers.get_content_type() == "application/problem+json":
        return Problem(json.loads(response.read()), response.status)
    return BerthError(
        "the answer %d %s is not from a berth daemon: check which program listens there"
        % (response.status, response.reason)
    )
