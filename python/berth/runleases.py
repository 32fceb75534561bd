"""The lease of a run: one that is held already, or one on the device of the
plan, or on another that will do if the world has changed."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

from .asking import run
from .client import Client, Problem, Request
from .leasing import Lease, take
from .persisting import persisting


def under_lease(held: Lease, planned: Mapping[str, Any], run: Mapping[str, Any]) -> Tuple[str, str]:
    """The device for a run under a lease that is held, and why it is not the one
    of the plan. A lease of slots alone promises no memory, and is not held
    against any."""
    if 0 < held.memory_mb < planned["memory_mb"]:
        raise ValueError(
            "run: %s needs %d MiB, and lease %s, which it would run under, has %d: lease as much, "
            "or run it outside of that lease" % (run["name"], planned["memory_mb"], held.id, held.memory_mb)
        )
    possible = [uuid for uuid in held.uuids if _possible(uuid, planned)]
    if not possible:
        raise ValueError(
            "run: %s cannot run on %s, which lease %s is for: the plan has %s for it"
            % (run["name"], ", ".join(held.uuids) or "no GPU", held.id, ", ".join(planned["candidates"]))
        )
    wanted = run.get("gpu")
    if wanted in possible:
        return str(wanted), ""
    return possible[0], "lease %s, which it runs under, is for %s" % (held.id, ", ".join(held.uuids))


def _possible(uuid: str, planned: Mapping[str, Any]) -> bool:
    return uuid in (planned.get("candidates") or [uuid])


class RunLease(Lease):
    """A lease for one run. Only the thread that runs it has it: others have
    leases of their own."""

    def __init__(self, planned: Mapping[str, Any], run: Mapping[str, Any], timeout: float, client: Client):
        super().__init__({"name": run["name"]}, timeout, None, False, False, client)
        self._planned, self._run = planned, run
        self.reason = ""  # why it is on another device; empty if it is not

    def __enter__(self) -> "RunLease":
        self.acquire()
        return self

    def _enlist(self) -> None:
        take(self)

    def _post(self, client: Client, body: Dict[str, Any], limit: Optional[float]) -> Dict[str, Any]:
        if not client.local:
            return self._post_from_afar(client, body, limit)
        plan = {"pipelines": [dict(self._planned, steps=[], runs=[self._run])]}
        asked = {"plan": plan, "id": body["id"], "timeout_seconds": body["timeout_seconds"]}
        request = Request("POST", "/api/plans/run", asked, timeout=limit, client=client)
        (started,) = run(persisting(request))["runs"]
        self.reason = started.get("reason") or ""
        granted: Dict[str, Any] = started["lease"]
        return granted

    def _post_from_afar(self, client: Client, body: Dict[str, Any], limit: Optional[float]) -> Dict[str, Any]:
        """A daemon that cannot see this process starts no runs, but leases: the
        device of the plan if it has room at once, else whatever will do."""
        planned, wanted = self._planned, self._run.get("gpu")
        body = dict(body, memory_mb=planned["memory_mb"], slots=planned["slots"], gpus=1)
        body.update((k, planned[k]) for k in ("policy", "service", "priority") if planned.get(k) is not None)
        why = "the plan names no device"
        if wanted:
            try:
                return super()._post(client, dict(body, gpu=wanted, timeout_seconds=0), limit)
            except Problem as refused:
                why = refused.detail
        granted = super()._post(client, dict(body, **_wish(planned)), limit)
        got = granted["parts"][0]["gpu"]
        if not _possible(got, planned):
            raise ValueError("run: %s cannot run on %s, and there is room nowhere else: %s" % (body["name"], got, why))
        self.reason = "" if got == wanted else why
        return granted


def _wish(planned: Mapping[str, Any]) -> Dict[str, str]:
    wish = str(planned.get("gpu") or "")
    if not wish:
        return {}
    return {"where" if any(c in wish for c in "=~<>,") else "gpu": wish}
