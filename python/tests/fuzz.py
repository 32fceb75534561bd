"""Hands damaged answers and event streams to the package, made from good ones::

    python3 -m tests.fuzz 100000        # inputs
    python3 -m tests.fuzz 30s           # as many as there are time for
    python3 -m tests.fuzz 100000 7      # the same ones again: 7 is the seed

Whatever a daemon sends, a caller gets an answer or a ``BerthError``, in time.
"""

from __future__ import annotations

import asyncio
import faulthandler
import functools
import http.client
import random
import socket
import sys
import time

from berth import answers
from berth.aio import transport
from berth.client import BerthError, Client, Frames, Place, Stop

EVENTS = (
    b": still here\n\n"
    b'id: 7\nevent: critical\ndata: {"id":7,"time":"2026-01-02T03:04:05.123456789Z","code":"critical","severity":"critical",'
    b'"gpu":"GPU-a","lease":"a","by":{"user":"u","uid":1},"text":"hot","data":{"celsius":91.5}}\n\n'
    b"id: 9\n\n"
    b'data: {"id":3,\ndata: "code":"gap"}\n\n'
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
STATUS = (
    b'{"device":{"uuid":"GPU-a","index":0,"memory_total_mb":80,"links":[{"to":"GPU-b","lanes":2}]},"state":"OPTIMAL",'
    b'"sample":{"time":"2026-01-02T03:04:05Z","power_watts":7,"processes":[{"pid":3}]}}'
)
PROBLEM = b'{"status":409,"code":"no_fit","detail":"No.","fields":[{"field":"a","detail":"b"}],"extra":{"free_mb":3}}'
SEEDS = (
    HEAD + EVENTS,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(EVENTS), EVENTS),
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(STATUS), STATUS),
    b"HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n%s" % (len(PROBLEM), PROBLEM),
)
PIECES = (
    b"\n", b"\n\n", b"\r\n", b"\x00", b"\xff", b"data:", b"id:", b"null", b"[" * 5000, b"{}", b"-1", b"9" * 5000, b"1e999", b'"', b"\\ud800",
    "\u00b2".encode(), b"true", b"HTTP/1.1 ", b"0-0-0T0:0:0Z", b"Content-Length: -5\r\n", b"Transfer-Encoding: chunked\r\n", b"-2\r\n",
)  # fmt: skip


def mutate(text: bytes, random: random.Random) -> bytes:
    """Returns a text with some damage."""
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, len(text))
        to = min(len(text), at + random.choice((0, 1, 1, 4, 40)))
        kind = random.randint(0, 4)
        if kind == 0:
            text = text[:at]
        elif kind == 1:
            text = text[:at] + random.choice(PIECES) + text[to:]
        elif kind == 2:
            text = text[:at] + bytes([random.randrange(256)]) + text[at + 1 :]
        elif kind == 3:
            text = text[:at] + text[to:]
        else:
            text = text[:to] + text[at:]
    return text


class Canned(Client):
    """A client whose daemon answers a request with these bytes, and then is gone."""

    def __init__(self, text: bytes):
        super().__init__(socket="/nowhere")
        self._text = text

    def _connect(self, timeout):
        return _CannedConnection(self._text)


class _CannedConnection(http.client.HTTPConnection):
    def __init__(self, text: bytes):
        super().__init__("localhost")
        self.sock, self._daemon = socket.socketpair()
        self._daemon.setblocking(False)
        self._daemon.send(text[:100_000])
        self._daemon.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        super().close()
        self._daemon.close()


def read_events(text: bytes) -> None:
    """Reads a stream without a connection."""
    frames, place = Frames(), Place(0)
    for line in text.split(b"\n"):
        item = frames.line(line)
        if item is not None and place.reach(item) and not isinstance(item, int):
            repr(answers.Event.read(item))


def read_stream(text: bytes) -> None:
    """Reads a stream over a connection that ends."""
    for item in Canned(text).events(follow=False, stop=Stop()):
        repr(answers.Event.read(item))


def read_answer(text: bytes) -> None:
    """Reads the answer of a call."""
    answer = Canned(text).call("GET", "/api/gpu/status")
    if answer is not None:
        repr(answers.Status.read(answer))


class _Nowhere:
    """A writer that forgets."""

    def write(self, data: bytes) -> None:
        pass

    async def drain(self) -> None:
        pass

    def close(self) -> None:
        pass


def read_async(text: bytes, loop: asyncio.AbstractEventLoop) -> None:
    """Reads a stream and an answer as berth.aio does."""

    async def open(client, silence):
        reader = asyncio.StreamReader()
        reader.feed_data(text)
        reader.feed_eof()
        return transport._Connection((reader, _Nowhere()), client, silence)

    async def run() -> None:
        try:
            async for item in transport.follow(Client(socket="/nowhere"), Place(0), False, {}):
                if not isinstance(item, int):
                    repr(answers.Event.read(item))
        except BerthError:
            pass
        await transport.send(transport.Request("GET", "/api/gpu/status", client=Client(socket="/nowhere")))

    kept, transport._Connection.open = transport._Connection.open, open
    try:
        loop.run_until_complete(run())
    finally:
        transport._Connection.open = kept



def run(count: int, seed: int) -> int:
    """Tries that many inputs, and returns how many ended with an answer. The input
    that a reader cannot take is part of the error."""
    answered, made, loop = 0, random.Random(seed), asyncio.new_event_loop()
    readers = (read_events, read_stream, read_answer, functools.partial(read_async, loop=loop))
    for _ in range(count):
        reader = made.choice(readers)
        text = mutate(EVENTS if reader is read_events else made.choice(SEEDS), made)
        try:
            reader(text)
            answered += 1
        except BerthError:
            pass
        except BaseException as why:
            raise AssertionError("%r in %s of %.4000r" % (why, reader, text)) from why
    loop.close()
    return answered


def main() -> None:
    limit = sys.argv[1] if len(sys.argv) > 1 else "10000"
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    print("seed %d" % seed, flush=True)
    if limit.endswith("s"):
        seconds, step = float(limit[:-1]), 1000
    else:
        seconds, step = 0.0, int(limit)
    count, answered, end = 0, 0, time.monotonic() + seconds
    while count == 0 or time.monotonic() < end:
        faulthandler.dump_traceback_later(60 + step / 50, exit=True)  # something hangs
        answered += run(step, seed + count)
        count += step
    print("%d inputs: %d were answers, %d were refused with a reason" % (count, answered, count - answered))


if __name__ == "__main__":
    main()
