"""Waiting trials that may run in the same places: by rank, and by length for the end of a sweep."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from orchestrator.scheduling.waiting import Waiting

UNKNOWN_S = 60.0  # stands in for a duration that nothing is known of


@dataclass(frozen=True)
class LaneKey:
    """All that decides whether a trial may start on a phone, so that one answer holds for the whole lane."""

    device: str | None
    phones: str
    pair: str
    alone: bool
    avoid: frozenset[str]

    @classmethod
    def of(cls, trial: Waiting) -> LaneKey:
        return cls(trial.device, trial.phones, trial.pair, trial.alone, trial.avoid)


class Lane:
    """Two heaps over the same trials; one taken from either is skipped in the other."""

    def __init__(self) -> None:
        self._by_rank: list[tuple[tuple[int, int, int], str]] = []
        self._by_length: list[tuple[float, str]] = []
        self._kept: dict[str, tuple[Waiting, float]] = {}
        self.work_s = 0.0  # estimated seconds of all that is kept

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, trial: Waiting, estimate_s: float | None) -> float:
        """Returns the seconds that it counts with."""
        length = UNKNOWN_S if estimate_s is None else estimate_s
        self._kept[trial.trial_id] = trial, length
        heapq.heappush(self._by_rank, (trial.rank, trial.trial_id))
        heapq.heappush(self._by_length, (-length, trial.trial_id))
        self.work_s += length
        return length

    def remove(self, trial_id: str) -> float:
        """Returns the seconds that it counted with."""
        _, length = self._kept.pop(trial_id)
        self.work_s = self.work_s - length if self._kept else 0.0
        return length

    def first(self) -> Waiting:
        """The lane must not be empty."""
        while self._by_rank[0][1] not in self._kept:
            heapq.heappop(self._by_rank)
        return self._kept[self._by_rank[0][1]][0]

    def longest(self) -> tuple[Waiting, float]:
        """(trial, its estimated seconds); the lane must not be empty."""
        while self._by_length[0][1] not in self._kept:
            heapq.heappop(self._by_length)
        return self._kept[self._by_length[0][1]]
