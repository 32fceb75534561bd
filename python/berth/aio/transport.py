"""Sends requests to a daemon with asyncio. No threads: any number of tasks may
wait for answers at a time."""

from __future__ import annotations

import asyncio
import email.message
import http.client
import io
from typing import Any, AsyncIterator, Awaitable, Dict, List, Mapping, Optional, Tuple, TypeVar, Union

from ..client import (
    CALL_TIMEOUT, GARBLED, SILENCE, BerthError, Broken, Call, Client, Frames, NoDaemon, Place, Request, Result, hint,
    read_answer, refusal, stream_request, tcp_hint, trust, unix_family,
)  # fmt: skip

Got = TypeVar("Got")
Streams = Tuple[asyncio.StreamReader, asyncio.StreamWriter]
BROKEN = (*GARBLED, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError)


async def run(call: Call[Result]) -> Result:
    """Sends the requests of a call, one after the other, and returns its result."""
    answer: Any = None
    error: Optional[BerthError] = None
    try:
        while True:
            request = call.send(answer) if error is None else call.throw(error)
            answer = error = None
            try:
                answer = await send(request)
            except BerthError as why:
                error = why
    except StopIteration as done:
        result: Result = done.value
        return result
    finally:
        call.close()


async def send(request: Union[Request, float]) -> Any:
    """Sends a request and returns the JSON of the answer, None if it has none; or
    waits."""
    if not isinstance(request, Request):
        await asyncio.sleep(request)
        return None
    client = request.client or Client()
    connection = await _Connection.open(client, request.timeout)
    try:
        await connection.request(request.method, request.path, request.body, request.query, {})
        text = await connection.whole()
        return read_answer(text, request.plain)
    except BROKEN as why:
        raise Broken("%s %s" % (request.method, request.path), _plain(why)) from why
    finally:
        connection.close()


async def follow(
    client: Client, place: Place, follow: bool, chosen: Mapping[str, Any]
) -> AsyncIterator[Union[int, Dict[str, Any]]]:
    """Yields the chosen events after a place, and an id where the daemon says only
    how far the stream has come. It moves the place along."""
    while True:
        try:
            async for item in _stream(client, place.after, follow, chosen):
                if place.reach(item):
                    yield item
        except BROKEN as broken:
            place.lose(_plain(broken), follow)
        if not follow:
            return
        await asyncio.sleep(place.pause())


async def _stream(
    client: Client, after: int, follow: bool, chosen: Mapping[str, Any]
) -> AsyncIterator[Union[int, Dict[str, Any]]]:
    connection = await _Connection.open(client, SILENCE)
    try:
        query, headers = stream_request(after, follow, chosen)
        await connection.request("GET", "/api/events", None, query, headers)
        yield after
        frames, rest = Frames(), b""
        async for piece in connection.pieces():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                item = frames.line(line)
                if item is not None:
                    yield item
    finally:
        connection.close()


class _Connection:
    """One connection, for one request."""

    def __init__(self, streams: Streams, client: Client, silence: Optional[float]):
        self._reader, self._writer = streams
        self._client, self._silence = client, silence
        self._headers = email.message.Message()

    @classmethod
    async def open(cls, client: Client, silence: Optional[float]) -> "_Connection":
        url = client._url
        if url is not None:
            secure = url.scheme == "https"
            dial = asyncio.open_connection(url.hostname, url.port or (443 if secure else 80), ssl=client._context() if secure else None)
            try:
                return cls(await asyncio.wait_for(dial, CALL_TIMEOUT), client, silence)
            except (OSError, asyncio.TimeoutError) as why:
                raise NoDaemon([(url.netloc, _plain(why))], tcp_hint(_plain(why))) from why
        attempts: List[Tuple[str, OSError]] = []
        for path in client.sockets:
            try:
                unix_family()  # without one, asyncio has no such connections either
                reader, writer = await asyncio.wait_for(asyncio.open_unix_connection(path), CALL_TIMEOUT)
                try:
                    trust(writer.get_extra_info("socket"), path)
                except BaseException:
                    writer.close()
                    raise
                return cls((reader, writer), client, silence)
            except (OSError, asyncio.TimeoutError) as why:
                attempts.append((path, _plain(why)))
        raise NoDaemon(attempts, hint(attempts))

    async def request(
        self,
        method: str,
        path: str,
        body: Optional[Mapping[str, Any]],
        query: Optional[Mapping[str, Any]],
        headers: Dict[str, str],
    ) -> None:
        """Sends the request and reads the headers of the answer."""
        url = self._client._url
        headers = {"Host": url.netloc.rpartition("@")[2] if url else "localhost", "Connection": "close", **headers}
        path, content = self._client._prepare(path, body, query, headers)
        if content is not None or method != "GET":
            headers["Content-Length"] = str(len(content or b""))
        lines = ["%s %s HTTP/1.1" % (method, path)] + ["%s: %s" % pair for pair in headers.items()]
        self._writer.write("\r\n".join(lines + ["", ""]).encode("latin-1") + (content or b""))
        await self._in_time(self._writer.drain())
        head = await self._in_time(self._reader.readuntil(b"\r\n\r\n"))
        first, _, rest = head.partition(b"\r\n")
        self._headers = http.client.parse_headers(io.BytesIO(rest))
        status, reason = _status(first.decode("latin-1"))
        if status >= 300:
            raise refusal(status, reason, self._headers.get_content_type(), await self.whole())

    async def whole(self) -> bytes:
        """Returns the rest of the answer."""
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields the rest of the answer as it comes."""
        length = self._headers.get("Content-Length")
        if "chunked" in self._headers.get("Transfer-Encoding", "").lower():
            while True:
                size = int((await self._in_time(self._reader.readline())).partition(b";")[0], 16)
                piece = await self._in_time(self._reader.readexactly(size + 2))
                if size == 0:
                    return
                yield piece[:-2]
        elif length is not None:
            yield await self._in_time(self._reader.readexactly(int(length)))
        else:
            while True:
                piece = await self._in_time(self._reader.read(65536))
                if not piece:
                    return
                yield piece

    def close(self) -> None:
        self._writer.close()

    async def _in_time(self, work: Awaitable[Got]) -> Got:
        return await asyncio.wait_for(work, self._silence)


def _status(line: str) -> Tuple[int, str]:
    words = line.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdigit():
        raise http.client.BadStatusLine(line)
    return int(words[1]), words[2] if len(words) > 2 else ""


def _plain(why: Exception) -> Any:
    """Returns an error that says something: a timeout has no text of its own."""
    return why if isinstance(why, OSError) or str(why) else OSError("it took too long")
