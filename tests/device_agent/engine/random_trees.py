"""Random draft trees that hide what is not revealed yet, for tests of the growth."""

from __future__ import annotations

import numpy as np

from device_agent.engine.growth import Array, Candidates

WIDTH = 4


class HiddenTree:
    """Children are drawn when a node is expanded, the same ones whoever asks: confident nodes tend to stay so."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def edges(self, path: tuple[int, ...]) -> list[float]:
        """Acceptance probabilities of the children of the node reached by the ranks in `path`."""
        rng = np.random.default_rng([self._seed, *path])
        sure = rng.beta(2.0, 0.7)
        rest = (1 - sure) * rng.beta(2, 2)
        return [sure, *(rest * share for share in (0.6, 0.3, 0.1))]


class Grown:
    """Candidates of a hidden tree, and the rank path of each."""

    def __init__(self, tree: HiddenTree) -> None:
        self.candidates = Candidates()
        self._tree = tree
        self._paths: list[tuple[int, ...]] = [()]

    def expand(self, width: int, depth: int = 24) -> None:
        for leaf in self.candidates.leaves(depth)[:width]:
            edges = self._tree.edges(self._paths[leaf])
            self.candidates.reveal(leaf, edges)
            self._paths += [(*self._paths[leaf], rank) for rank in range(len(edges))]


def cases(samples: int = 300, count: int = 3) -> Array:
    """(count, WIDTH): children of unsure, middling and sure nodes."""
    found = np.array([HiddenTree(seed).edges(()) for seed in range(10_000, 10_000 + samples)])
    thirds = np.array_split(found[found[:, 0].argsort()], count)
    return np.array([third.mean(axis=0) for third in thirds])


CASES = cases()
