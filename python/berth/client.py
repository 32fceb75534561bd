"""Talks to a berth daemon: over its Unix socket on the same machine, or over HTTP.

Every call opens a connection of its own. That costs microseconds on a socket,
and it makes a client safe to share between threads and across a fork:
the daemon reads from each connection which process is calling.
"""

from __future__ import annotations

import dataclasses
import errno
import http.client
import json
import os
import random
import socket
import struct
import threading
import urllib.parse
from typing import TYPE_CHECKING, Any, Dict, Generator, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from .mistakes import in_words

if TYPE_CHECKING:
    import ssl

CALL_TIMEOUT = 30.0  # seconds for a call that does not wait for anything
SILENCE = 45.0  # seconds; the daemon says something on an event stream every 15
QUESTIONS = ". Questions are written in PromQL, such as max(gpu_temperature_celsius); berth help past shows more"
TCP_HINT = "check the address, or start a daemon there: berth serve"
# What reading an answer raises that breaks off, or that no daemon sends: lengths
# beyond all memory, JSON that is nested without end.
GARBLED = (OSError, http.client.HTTPException, ValueError, OverflowError, RecursionError, MemoryError)


class BerthError(Exception):
    """The base of the errors that berth raises."""


class Problem(BerthError):
    """The daemon refused a request. ``code`` is for programs and never changes,
    ``detail`` says what is wrong and what to do, ``fields`` names the fields that
    are wrong, ``extra`` has the numbers."""

    def __init__(self, document: Mapping[str, Any], status: int = 0):
        self.status: int = status or int(document.get("status") or 0)
        self.code: str = str(document.get("code") or "")
        self.detail: str = str(document.get("detail") or "")
        self.fields: List[Tuple[str, str]] = [
            (str(f.get("field", "")), in_words(str(f.get("detail", "")))) for f in document.get("fields") or []
        ]
        self.extra: Dict[str, Any] = dict(document.get("extra") or {})
        lines = [self.detail] + ["  %s: %s" % f for f in self.fields]
        super().__init__("\n".join(lines))

    @property
    def passes(self) -> bool:
        """Whether the daemon may answer otherwise later: it stops, its disk fails, or it
        has too many requests."""
        return self.status >= 500 or self.status == 429


class NoDaemon(BerthError, ConnectionError):
    """No daemon listens at any place where this client looks for one."""

    def __init__(self, attempts: List[Tuple[str, OSError]], hint: str):
        self.attempts = attempts
        tried = "; ".join("%s: %s" % (where, why.strerror or why) for where, why in attempts)
        super().__init__("no daemon answers (%s); %s" % (tried, hint))


class Broken(BerthError, ConnectionError):
    """The connection broke before the whole answer came. The daemon may have
    done what it was asked, or not."""

    def __init__(self, what: str, why: Exception):
        super().__init__("%s: the connection to the daemon broke: %s" % (what, why or type(why).__name__))


class Client:
    """Client sends requests to one daemon. Without arguments it looks for the
    daemon where the command line does: at ``BERTH_SOCKET``, else at ``BERTH_URL``
    with ``BERTH_TOKEN``, else at the socket of the user's own daemon, else at
    the machine's.

    ``token`` replaces the identity that the daemon would know the caller by.
    Without it, ``BERTH_TOKEN_FILE`` names a file with one, which is read again for
    every request; ``BERTH_TOKEN`` is for a URL only. For an https URL, ``ca`` (``BERTH_CA``) is a file with certificates to
    trust beside those of the system, and ``cert`` and ``key`` (``BERTH_CERT``,
    ``BERTH_KEY``) are files with the certificate to show."""

    def __init__(
        self,
        socket: Optional[str] = None,
        url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        ca: Optional[str] = None,
        cert: Optional[str] = None,
        key: Optional[str] = None,
    ):
        if socket and url:
            raise ValueError("give a socket or a url, not both")
        if not socket and not url:
            socket = os.environ.get("BERTH_SOCKET")
            url = None if socket else os.environ.get("BERTH_URL")
        self.sockets: List[str] = [] if url else [socket] if socket else default_sockets()
        self._url = _parse(url) if url else None
        self._token_file = None if token else os.environ.get("BERTH_TOKEN_FILE")
        self.token = token or _environment_token(self._url is not None)
        self._ca = ca or os.environ.get("BERTH_CA")
        if not cert and not key:
            cert, key = os.environ.get("BERTH_CERT"), os.environ.get("BERTH_KEY")
        if bool(cert) != bool(key):
            raise ValueError("a client certificate needs its key: give both cert and key, or set BERTH_CERT and BERTH_KEY")
        self._pair = (cert, key)
        self._secure: Optional["ssl.SSLContext"] = None

    @property
    def local(self) -> bool:
        """Whether the daemon can see which process calls."""
        return self._url is None

    def call(
        self,
        method: str,
        path: str,
        body: Optional[Mapping[str, Any]] = None,
        query: Optional[Mapping[str, Any]] = None,
        timeout: Optional[float] = CALL_TIMEOUT,
        *,
        plain: bool = False,
    ) -> Any:
        """Sends a request and returns the JSON of the answer, or None if the
        answer is empty. ``timeout`` is how many seconds the daemon may be silent;
        None is without end. With ``plain``, it returns the text of the answer."""
        connection = self._connect(timeout)
        try:
            text = self._send(connection, method, path, body, query, {}).read()
            return read_answer(text, plain)
        except GARBLED as why:
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
        """Yields the events after an id, oldest first. With ``follow`` it goes on
        until ``stop`` is set: it makes a broken connection again, and goes on after
        the last event. :func:`berth.events` yields them as :class:`Event`.

        ``code``, ``gpu`` (indexes or UUIDs) and ``lease`` choose events: each is
        one value or a list of them. ``severity`` is the least that an event must
        have. The daemon filters the events, and always sends those with the code
        ``gap``."""
        chosen = choice(code, gpu, lease, severity)
        for item in self._follow(Place(after), follow, stop or Stop(), chosen):
            if not isinstance(item, int):
                yield item

    def _follow(
        self, place: "Place", follow: bool, stop: "Stop", chosen: Mapping[str, Any]
    ) -> Iterator[Union[int, Dict[str, Any]]]:
        """Yields the chosen events after a place, and an id where the daemon says
        only how far the stream has come. It moves the place along."""
        while not stop.is_set():
            try:
                for item in self._stream(place.after, follow, stop, chosen):
                    if place.reach(item):
                        yield item
            except GARBLED as broken:
                if stop.is_set():
                    return
                place.lose(broken, follow)
            if not follow:
                return
            stop.wait(place.pause())

    def _stream(
        self, after: int, follow: bool, stop: "Stop", chosen: Mapping[str, Any]
    ) -> Iterator[Union[int, Dict[str, Any]]]:
        """Yields what comes over one connection: first the id that it goes on
        from, to say that it stands."""
        connection = self._connect(SILENCE)
        try:
            if not stop.watch(connection.sock):
                return
            query, headers = stream_request(after, follow, chosen)
            response = self._send(connection, "GET", "/api/events", None, query, headers)
            yield after
            frames = Frames()
            for raw in response:
                item = frames.line(raw)
                if item is not None:
                    yield item
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
        path, content = self._prepare(path, body, query, headers)
        try:
            connection.request(method, path, content, headers)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the daemon has turned the caller away without reading: its answer says why
        response = connection.getresponse()
        if response.status >= 300:
            kind = response.headers.get_content_type()
            raise refusal(response.status, response.reason, kind, response.read())
        return response

    def _prepare(
        self, path: str, body: Optional[Mapping[str, Any]], query: Optional[Mapping[str, Any]], headers: Dict[str, str]
    ) -> Tuple[str, Optional[bytes]]:
        """Returns the path and the content of a request, and adds its headers."""
        if query:
            path += "?" + urllib.parse.urlencode(query, doseq=True)
        if self._url:
            path = self._url.path.rstrip("/") + path
        if self._token_file:  # clusters replace tokens every hour
            try:
                self.token = _token_in(self._token_file)
            except (OSError, ValueError):
                pass  # the last one stays
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        if body is None:
            return path, None
        headers["Content-Type"] = "application/json"
        return path, json.dumps(body).encode()

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
        raise NoDaemon(attempts, hint(attempts))

    def _connect_tcp(self, timeout: Optional[float]) -> http.client.HTTPConnection:
        assert self._url is not None
        host, port = self._url.hostname or "", self._url.port
        connection: http.client.HTTPConnection
        limit = CALL_TIMEOUT if timeout is None else min(timeout, CALL_TIMEOUT)
        if self._url.scheme == "https":
            connection = http.client.HTTPSConnection(host, port, timeout=limit, context=self._context())
        else:
            connection = http.client.HTTPConnection(host, port, timeout=limit)
        try:
            connection.connect()
        except OSError as why:
            connection.close()
            raise NoDaemon([(self._url.netloc, why)], tcp_hint(why)) from why
        connection.sock.settimeout(timeout)
        return connection


    def _context(self) -> "ssl.SSLContext":
        """Returns whom to trust over https, and which certificate to show."""
        if self._secure is None:
            import ssl  # takes time, and few need it

            secure = ssl.create_default_context()
            secure.minimum_version = ssl.TLSVersion.TLSv1_2
            if self._ca:
                secure.load_verify_locations(self._ca)
            if self._pair[0]:
                secure.load_cert_chain(self._pair[0], self._pair[1])
            self._secure = secure
        return self._secure


@dataclasses.dataclass(frozen=True)
class Request:
    """One request to the daemon."""

    method: str
    path: str
    body: Optional[Mapping[str, Any]] = None
    query: Optional[Mapping[str, Any]] = None
    timeout: Optional[float] = CALL_TIMEOUT  # how long the daemon may be silent
    client: Optional[Client] = None  # None: the daemon that the environment names
    plain: bool = False  # the answer is a text, and not JSON


Result = TypeVar("Result")
Call = Generator[Union[Request, float], Any, Result]  # of the API, see calls.py


def read_answer(text: bytes, plain: bool) -> Any:
    """Returns an answer: JSON, None if it is empty, or a text."""
    if plain:
        return text.decode("utf-8", "replace")
    return json.loads(text) if text else None


def _environment_token(remote: bool) -> str:
    path = os.environ.get("BERTH_TOKEN_FILE")
    if not path:
        return os.environ.get("BERTH_TOKEN", "") if remote else ""
    return _token_in(path)


def _token_in(path: str) -> str:
    with open(path, encoding="ascii") as file:
        token = file.read().strip()
    if not token or not all("!" <= letter <= "~" for letter in token):
        raise ValueError("BERTH_TOKEN_FILE: %s must hold one line of printable ASCII without spaces" % path)
    return token


def tcp_hint(why: OSError) -> str:
    """Returns the next step after a connection over TCP failed."""
    reason = str(getattr(why, "reason", ""))
    text = str(getattr(why, "verify_message", "")).lower()
    if "expired" in text:
        return "the certificate of the daemon has ended, or the clock of this machine is wrong: ask its administrator for a new one"
    if "mismatch" in text or "not valid for" in text:
        return "use the name that the certificate is for"
    if text:
        return "name the certificate that signed the daemon's with BERTH_CA=FILE"
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "the daemon does not speak TLS there: use http:// in the address, if its administrator meant that"
    if "ALERT" in reason:
        return "check the client certificate: BERTH_CERT and BERTH_KEY"
    return TCP_HINT


class Place:
    """How far a reader of events has come, and how long it waits before it
    connects again."""

    def __init__(self, after: int) -> None:
        self.after = after  # the id of the last event
        self._connected = False
        self._wait = 0.1  # seconds

    def reach(self, item: Union[int, Mapping[str, Any]]) -> bool:
        """Goes on to an id or an event; False if the reader has been there."""
        self._connected, self._wait = True, 0.1
        if isinstance(item, int):
            self.after = item
            return True
        # After a gap ids may begin again lower, so a gap is never old.
        if item.get("id", 0) <= self.after and item.get("code") != "gap":
            return False
        self.after = item.get("id", 0)
        return True

    def lose(self, broken: Exception, follow: bool) -> None:
        """Raises the error of a connection that failed, unless there was one
        before: then the daemon restarts, and comes back."""
        if isinstance(broken, NoDaemon) and not self._connected:
            raise broken
        if not follow or not self._connected:
            raise Broken("GET /api/events", broken) from broken

    def pause(self) -> float:
        """Returns the seconds to wait, longer each time. Many readers of a daemon
        that restarts come back one by one."""
        wait, self._wait = self._wait, min(2 * self._wait, 5.0)
        return wait + random.random() * wait / 2


class Frames:
    """Reads server-sent events, line by line."""

    def __init__(self) -> None:
        self._data: List[str] = []
        self._id = ""

    def line(self, raw: bytes) -> Union[None, int, Dict[str, Any]]:
        """Returns the event that a line completes, or an id without an event."""
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        if text.startswith("data:"):
            self._data.append(text[5:].lstrip(" "))
        elif text.startswith("id:"):
            self._id = text[3:].strip()
        elif not text:
            data, last = self._data, self._id
            self._data, self._id = [], ""
            if data:
                return _event("\n".join(data))
            if last.isdecimal() and len(last) < 20:
                return int(last)
        return None


def _event(text: str) -> Dict[str, Any]:
    """Returns the event that a text describes."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as why:
        raise BerthError("the daemon sent an event that cannot be read: %s: %.80r" % (why, text)) from why
    if not isinstance(event, dict) or type(event.get("id", 0)) is not int:
        raise BerthError("the daemon sent %.80r where an event was expected: update the package" % (text,))
    return event


class Stop:
    """Stop ends a loop over events from another thread, even while it waits."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.RLock()  # guards _socket; a signal handler may call set
        self._socket: Optional[socket.socket] = None

    def is_set(self) -> bool:
        """Reports whether ``set`` was called."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Waits until ``set`` is called, or for so many seconds. Reports whether it was."""
        return self._event.wait(seconds)

    def set(self) -> None:
        """Ends the loop."""
        self._event.set()
        with self._lock:
            if self._socket is not None:
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it is gone already

    def watch(self, connection: Optional[socket.socket]) -> bool:
        """Names the connection that ``set`` breaks. Reports whether to go on."""
        with self._lock:
            self._socket = connection
            return not self._event.is_set()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: Optional[float]):
        super().__init__("localhost")
        self._path, self._silence = path, timeout

    def connect(self) -> None:
        self.sock = socket.socket(unix_family(), socket.SOCK_STREAM)
        self.sock.settimeout(CALL_TIMEOUT)
        self.sock.connect(self._path)
        trust(self.sock, self._path)
        self.sock.settimeout(self._silence)


def trust(connection: Any, path: str) -> None:
    """Raises an error in a program of root, unless root listens at a socket, or the user
    whose folder it is in: anybody may put a socket into a folder such as /tmp."""
    if not _is_root():
        return
    uid = _listener(connection)
    if uid not in (0, os.stat(os.path.dirname(path) or ".").st_uid):
        raise OSError("user %d listens there, whom root does not trust" % uid)


def _listener(connection: Any) -> int:
    """Returns the user who listens at the other end."""
    option: Optional[int] = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        raise OSError("this system does not say who listens there, and root trusts nobody unknown")
    uid: int = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, option, 12))[1]
    return uid


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def unix_family() -> int:
    """Returns the family of Unix sockets. Windows has none."""
    family: Optional[int] = getattr(socket, "AF_UNIX", None)
    if family is None:
        raise OSError(errno.EAFNOSUPPORT, "Python has no Unix sockets here")
    return family


def default_sockets() -> List[str]:
    """Returns where daemons listen by default: the user's own, then the machine's."""
    machine = "/run/berth/berth.sock"
    if _is_root():
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


def choice(
    code: Sequence[str], gpu: Union[int, Sequence[Union[int, str]]], lease: Sequence[str], severity: str
) -> Dict[str, List[str]]:
    """Returns the parameters that choose events."""
    chosen = {"code": _several(code), "gpu": _several(gpu), "lease": _several(lease)}
    return {**chosen, "severity": [severity]} if severity else chosen


def stream_request(after: int, follow: bool, chosen: Mapping[str, Any]) -> Tuple[Dict[str, Any], Dict[str, str]]:
    """Returns the query and the headers of a request for events."""
    headers = {"Accept": "text/event-stream"}
    if after:
        headers["Last-Event-ID"] = str(after)
    return {"follow": "true" if follow else "false", **chosen}, headers


def _several(values: Union[int, Sequence[Union[int, str]]]) -> List[str]:
    """Returns the values of a parameter that may be given several times."""
    if isinstance(values, (str, int)):
        values = [values]
    return [str(value) for value in values]


def _parse(url: str) -> urllib.parse.ParseResult:
    parsed = urllib.parse.urlparse(url if "://" in url else "http://" + url)
    if parsed.scheme not in ("http", "https") or not parsed.hostname:
        raise ValueError("%r is not the address of a daemon: write it like http://127.0.0.1:8000" % url)
    return parsed


def hint(attempts: List[Tuple[str, OSError]]) -> str:
    for path, why in attempts:
        if isinstance(why, PermissionError):
            return "your user may not open %s: join the group that owns it, or use sudo" % path
        if why.errno == errno.EAFNOSUPPORT:
            return "name a daemon on another machine: BERTH_URL=http://gpu1:8000"
    return "start one: berth serve"


def _asked_better(error: str) -> str:
    return error + QUESTIONS if "parse error" in error else error


def refusal(status: int, reason: str, kind: str, text: bytes) -> BerthError:
    """Returns the error for an answer that is a refusal."""
    if kind == "application/problem+json":
        try:
            return Problem(json.loads(text), status)
        except (ValueError, TypeError, AttributeError, RecursionError):
            pass  # it is no problem of a berth daemon
    if kind == "application/json":
        try:
            said = json.loads(text)  # in the form of Prometheus
            if said["status"] == "error":
                return Problem({"code": said.get("code") or said["errorType"], "detail": _asked_better(str(said["error"]))}, status)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            pass
    return BerthError(
        "the answer %d %s is not from a berth daemon: check which program listens there" % (status, reason)
    )
