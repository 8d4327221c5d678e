"""Progress of running attempts as registry events: few, and written together."""

from __future__ import annotations

import time
from collections.abc import Callable

from orchestrator.entities import Attempt, FarmEvent, Progress
from orchestrator.executor.thinning import Thinning

KEPT = 2000  # events, while the database does not answer


class ProgressLog:
    """Buffers; the controller's loop takes what there is with every turn."""

    def __init__(self, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._thinning = Thinning(every_s, clock)
        self._buffer: list[FarmEvent] = []

    def note(self, attempt: Attempt, progress: Progress) -> None:
        if not self._thinning.passes(progress):
            return
        self._buffer.append(
            FarmEvent(
                "progress",
                trial_id=attempt.trial_id,
                attempt_id=attempt.attempt_id,
                device=attempt.device,
                data=event_data(progress),
            )
        )

    def take(self) -> list[FarmEvent]:
        taken, self._buffer = self._buffer, []
        return taken

    def put_back(self, events: list[FarmEvent]) -> None:
        """What could not be written; the oldest go first when there are too many: it is only progress."""
        self._buffer = (events + self._buffer)[-KEPT:]

    def forget(self, attempt_id: str) -> None:
        self._thinning.forget(attempt_id)


def event_data(progress: Progress) -> dict[str, object]:
    """The step's kind and data in one dict; for a line of the agent's, `event` is the agent's own kind."""
    if progress.kind == "agent_event":
        own = {k: v for k, v in progress.data.items() if k != "kind"}
        return {**own, "kind": progress.kind, "event": progress.data.get("kind")}
    return {**progress.data, "kind": progress.kind}
