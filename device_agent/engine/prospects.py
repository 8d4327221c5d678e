"""What a draft pass may reveal, going by what recent ones did."""

from __future__ import annotations

from collections import deque

import numpy as np

from device_agent.engine.growth import Array

WINDOW = 48  # expanded nodes remembered
RANKS = 3  # children of each
PRIOR = ((0.97, 0.02, 0.005), (0.7, 0.12, 0.05), (0.4, 0.2, 0.1))  # sure, middling, unsure nodes


class Prospects:
    def __init__(self) -> None:
        self._seen: deque[Array] = deque((np.array(case) for case in PRIOR * 2), WINDOW)

    def note(self, edges: Array) -> None:
        """A node's children turned out to have these acceptance probabilities, most likely first."""
        self._seen.append(np.pad(edges[:RANKS], (0, max(0, RANKS - len(edges)))))

    def forget(self) -> None:
        """The text has moved on since: only the last few still count."""
        while len(self._seen) > len(PRIOR * 2):
            self._seen.popleft()

    def cases(self) -> Array:
        """(cases, RANKS): equally likely cases, from unsure nodes to sure ones."""
        seen = np.array(self._seen)
        thirds = np.array_split(seen[seen[:, 0].argsort()], len(PRIOR))
        return np.array([third.mean(axis=0) for third in thirds])
