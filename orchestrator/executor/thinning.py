"""Progress comes twice a second from every phone; few of it is worth a message between hosts, or a row."""

from __future__ import annotations

import time
from collections.abc import Callable

from orchestrator.entities import Progress

EVERY_S = 0.5
MANY = 10  # attempts, from which on each tells less


class Thinning:
    """Steps pass; of the agent's own `progress` one each `every_s`, and more seldom when there are many attempts: what
    they cost together stays the same."""

    def __init__(self, every_s: float = EVERY_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s, self._clock = every_s, clock
        self._told_at: dict[str, float] = {}

    def passes(self, progress: Progress) -> bool:
        if progress.kind != "agent_event" or progress.data.get("kind") != "progress":
            return True
        every_s = self._every_s * max(1.0, len(self._told_at) / MANY)
        if self._clock() - self._told_at.get(progress.attempt_id, float("-inf")) < every_s:
            return False
        self._told_at[progress.attempt_id] = self._clock()
        return True

    def forget(self, attempt_id: str) -> None:
        self._told_at.pop(attempt_id, None)
