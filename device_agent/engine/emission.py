"""The text of one request as it grows, and when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from device_agent.engine.sampling import Choice


@dataclass
class Emission:
    """Ends with the first stop token, which it keeps, or after `limit` tokens."""

    limit: int
    stop_token_ids: frozenset[int]
    choices: list[Choice] = field(default_factory=list)
    stop_reason: str | None = None  # stop_token | max_new_tokens | kv_full

    @property
    def remaining(self) -> int:
        return self.limit - len(self.choices)

    @property
    def last(self) -> int:
        return self.choices[-1].token

    def add(self, choices: Sequence[Choice]) -> int:
        """Emit `choices` up to the end of the text; returns how many were."""
        before = len(self.choices)
        for choice in choices:
            if self.stop_reason is None:
                self.choices.append(choice)
                self.stop_reason = self._reason()
        return len(self.choices) - before

    def _reason(self) -> str | None:
        if self.last in self.stop_token_ids:
            return "stop_token"
        return "max_new_tokens" if self.remaining == 0 else None
