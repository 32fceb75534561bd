"""Jobs for programs with asyncio."""

from __future__ import annotations

from typing import Any, Optional

from .. import calls, submitting
from ..submitting import finding, of_kind, submission
from .asking import awaited
from .transport import run


class Job(submitting.Job):
    """A :class:`berth.Job` whose methods are coroutines."""

    async def refresh(self) -> "Job":  # type: ignore[override]
        return self._take(await run(calls.get_job(self.id, client=self._client)))

    async def wait(self, timeout: Optional[float] = None) -> Optional[int]:  # type: ignore[override]
        self._take(await run(self._waiting(timeout)))
        return self.exit_code

    async def log(self, *, errors: bool = False, lines: Optional[int] = None) -> str:  # type: ignore[override]
        return await run(calls.job_log(self.id, errors=errors, lines=lines, client=self._client))

    async def cancel(self) -> "Job":  # type: ignore[override]
        return self._take(await run(calls.cancel_job(self.id, client=self._client)))

    async def hold(self) -> "Job":  # type: ignore[override]
        return self._take(await run(calls.hold_job(self.id, client=self._client)))

    async def unhold(self) -> "Job":  # type: ignore[override]
        return self._take(await run(calls.unhold_job(self.id, client=self._client)))

    async def prioritize(self, priority: int) -> "Job":  # type: ignore[override]
        return self._take(await run(calls.prioritize_job(self.id, priority, client=self._client)))

    async def redo(self, failed: bool = False) -> "Job":  # type: ignore[override]
        return Job(await run(calls.redo_job(self.id, failed=failed, client=self._client)), self._client)

    def _take(self, answer: Any) -> "Job":
        self.answer = answer
        return self


submit = awaited(of_kind(submission, Job), "submit")
find_job = awaited(of_kind(finding, Job), "find_job")
