"""One deadline for all waits of an operation together."""

from __future__ import annotations

import time

from orchestrator.farm.adb.faults import DeadlinePassed


class Deadline:
    def __init__(self) -> None:
        self._end = 0.0

    def allow(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until then, more than none. Raises DeadlinePassed."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise DeadlinePassed
        return seconds
