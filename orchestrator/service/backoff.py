"""When to start a thing again that keeps ending: at once the first time, then ever later, until it holds."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_S, LONGEST_S = 1.0, 30.0
HOLDS_S = 60.0  # what lived that long counts as well; its next end is a first one


@dataclass
class BackOff:
    """Times are the monotonic clock's."""

    failures: int = 0  # in a row
    ready_at: float = 0.0

    def failed(self, now: float, lived_s: float = 0.0) -> None:
        self.failures = 1 if lived_s >= HOLDS_S else self.failures + 1
        self.ready_at = now + min(LONGEST_S, FIRST_S * 2 ** (self.failures - 1))

    def ready(self, now: float) -> bool:
        return now >= self.ready_at
