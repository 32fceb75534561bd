"""Makes a request that waits again when the daemon goes away."""

from __future__ import annotations

import dataclasses
import logging
import time
from typing import Any

from .client import BerthError, Broken, Call, NoDaemon, Problem, Request
from .enduring import FIRST, LONGEST, enduring, turned_away

AWAY = 60.0  # seconds for which the daemon may be away

LOG = logging.getLogger("berth")


def persisting(request: Request) -> Call[Any]:
    """Makes a request that may wait. If the daemon is stopped, killed or replaced
    meanwhile, makes it again under the same id until it is answered, or the daemon has
    been away for a minute. The daemon keeps its place in the queue. One that is being
    replaced already is waited for, and one that has too many connections open is asked
    again until the time of the request is over."""
    begun = time.monotonic()
    try:
        return (yield from enduring(request))
    except BerthError as why:
        if not went_away(why) and not turned_away(why):
            raise
        lost = why
    seen = told = False
    since, pause = time.monotonic(), FIRST
    while time.monotonic() - since < AWAY:
        seen = seen or went_away(lost)
        if went_away(lost) and not told:
            LOG.warning("the daemon went away while a request waited; asking again for %d s", AWAY)
            told = True
        yield pause
        pause = min(2 * pause, LONGEST)
        asked = time.monotonic()
        again = _rest(request, asked - begun, seen)
        try:
            answer = yield again
            if told:
                LOG.warning("the daemon is back, and has answered")
            return answer
        except BerthError as why:
            lost = why
            if turned_away(why):
                if (again.body or {}).get("timeout_seconds") != 0:
                    since = time.monotonic()  # it is there
                elif seen:  # it may have been granted
                    break
                else:
                    raise
            elif went_away(why):
                if time.monotonic() - asked > LONGEST:  # it was back, and the request waited
                    since = time.monotonic()
            elif not isinstance(why, NoDaemon):
                raise
    raise Broken("%s %s" % (request.method, request.path), lost) from lost


def went_away(why: BerthError) -> bool:
    """Reports whether the daemon went before it answered a request that it may have
    seen."""
    return isinstance(why, Broken) or isinstance(why, Problem) and why.code in ("stopping", "no_turn")  # what older daemons say when they stop


def _rest(request: Request, waited: float, seen: bool) -> Request:
    """Returns the request with the rest of its time. If the daemon may have seen it, it is
    one that was made before: one that was never read could get what another one was granted."""
    body = dict(request.body or {})
    if body.get("timeout_seconds") is not None:
        body["timeout_seconds"] = max(body["timeout_seconds"] - waited, 0.0)
    query = {**(request.query or {}), "repeated": "true"} if seen else request.query
    return dataclasses.replace(request, body=body, query=query)
