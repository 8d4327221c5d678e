"""Growing a draft tree by gain and cost, best first and in batches: arithmetic over the candidates revealed so far.

A round that verifies tree T emits `G(T) = 1 + Σ a(v)` tokens, a(v) being the probability that node v is accepted. It
is worth `G − price`, the price being λ times its cost (Dinkelbach 1967: with λ the best ratio that can be had in the
long run, the rounds that maximise `G − λ·C` are those that maximise ΣG ÷ ΣC). A child's a is at most its parent's, so
the n nodes of largest a are a tree, and no tree of n nodes gains more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Price = Callable[[float, Array, Array], Array]
"""(draft seconds, sizes (k,) root included, tokens expected (k,)) → what such rounds cost, in tokens (k,)."""

SIZES: Array = np.array(
    [*range(1, 17), 18, 20, 22, 24, 28, 32, 40, 48, 56, 63], np.float64
)  # of verified trees: few graphs serve all
WIDTHS = (1, 2, 4, 8)  # leaves expanded in one draft pass
LEAVES = 32  # that looking ahead keeps in mind
AHEAD = 6  # draft passes that the stop rule looks ahead


@dataclass(frozen=True)
class Limits:
    """Safety caps, and what the round has room for."""

    nodes: int  # draft tokens verified
    depth: int  # draft tokens on a branch
    expansions: int  # nodes that can be expanded, the root included


@dataclass(frozen=True)
class Pick:
    """The best round over given candidates: it verifies the root and the `size − 1` most valuable ones."""

    size: int
    gain: float  # tokens expected
    worth: float  # gain less price


class Candidates:
    """Nodes revealed so far; node 0 is the root. Parents precede children."""

    def __init__(self) -> None:
        self.parents, self.depths, self.values = [-1], [0], [1.0]
        self.expanded = [False]

    def reveal(self, parent: int, edges: Sequence[float]) -> range:
        """Add children of `parent`, now expanded, with acceptance probabilities `edges` given that it is accepted."""
        first = len(self.values)
        self.values += [self.values[parent] * edge for edge in edges]
        self.parents += [parent] * len(edges)
        self.depths += [self.depths[parent] + 1] * len(edges)
        self.expanded += [False] * len(edges)
        self.expanded[parent] = True
        return range(first, first + len(edges))

    def ranked(self) -> list[int]:
        """All nodes but the root, most valuable first; parents precede children."""
        return sorted(range(1, len(self.values)), key=self.values.__getitem__, reverse=True)

    def leaves(self, depth: int) -> list[int]:
        """Nodes above `depth` that can be expanded, most valuable first."""
        found = [node for node, done in enumerate(self.expanded) if not done and self.depths[node] < depth]
        return sorted(found, key=self.values.__getitem__, reverse=True)


def pick(values: Array, draft_s: float, price: Price, nodes: int) -> Pick:
    """The best round over candidates of `values` (n,), most valuable first; the root alone is always one."""
    sizes, gains, worths = _rounds(values, draft_s, price, nodes)
    best = int(worths.argmax())
    return Pick(int(sizes[best]), float(gains[best]), float(worths[best]))


def _rounds(values: Array, draft_s: float, price: Price, nodes: int) -> tuple[Array, Array, Array]:
    """Sizes (k,) of trees over the best candidates, their gains (…, k) and worths (…, k)."""
    sizes = SIZES[: int(SIZES.searchsorted(min(values.shape[-1], nodes) + 1, "right"))]
    gains = np.ones((*values.shape[:-1], len(sizes)))
    gains[..., 1:] += values.cumsum(axis=-1)[..., (sizes[1:] - 2).astype(int)]
    return sizes, gains, gains - price(draft_s, sizes, gains)


@dataclass(frozen=True)
class Outlook:
    """What further draft passes may bring, and what they take."""

    children: Array  # (cases, w): edge probabilities of a node's children by rank, in equally likely cases
    pass_s: Callable[[int, int], float]  # (pass from now on, leaves) → seconds


def next_width(candidates: Candidates, draft_s: float, price: Price, outlook: Outlook, limits: Limits) -> int:
    """How many leaves the next draft pass should expand; 0: stop drafting.

    Plays each width forward for some passes, in each case of how sure the draft may turn out to be. Another pass is
    drafted only while the best rounds that it leads to are worth more, on average over the cases, than the best one
    that needs no further pass: to look is worth something where one may then go on or stop.
    """
    values = np.sort(np.array(candidates.values[1:]))[::-1][: limits.nodes]
    leaves = np.array([candidates.values[leaf] for leaf in candidates.leaves(limits.depth)])
    room = limits.expansions - sum(candidates.expanded)
    widths = [width for width in WIDTHS if width <= room and width < 2 * len(leaves)]
    worths = [_played(values, leaves[:LEAVES], width, draft_s, price, outlook, limits.nodes) for width in widths]
    if not worths or max(worths) <= pick(values, draft_s, price, limits.nodes).worth:
        return 0
    return min(widths[worths.index(max(worths))], len(leaves))


def _played(
    values: Array, leaves: Array, width: int, draft_s: float, price: Price, outlook: Outlook, nodes: int
) -> float:
    """The mean over the cases of the best round's worth within AHEAD passes of `width` leaves each."""
    cases = len(outlook.children)
    values, leaves = np.stack([values] * cases), np.stack([leaves] * cases)
    best: Array = np.full(cases, -np.inf)
    for ahead in range(AHEAD):
        taken = leaves[:, :width]
        draft_s += outlook.pass_s(ahead, taken.shape[1])
        children = (taken[:, :, None] * outlook.children[:, None, :]).reshape(cases, -1)
        values = _merged(values, children, nodes)
        leaves = _merged(leaves[:, width:], children, LEAVES)
        worths = _rounds(values, draft_s, price, nodes)[2].max(axis=1)
        if (worths <= best).all():
            break
        best = np.maximum(best, worths)
    return float(best.mean())


def _merged(some: Array, others: Array, count: int) -> Array:
    """The `count` largest of both in each row, largest first."""
    found: Array = -np.sort(-np.concatenate((some, others), axis=1), axis=1)[:, :count]
    return found
