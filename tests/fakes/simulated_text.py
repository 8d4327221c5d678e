"""Decoding on a simulated clock: a text whose every token the draft foresees or not, whoever drafts, and what it takes.

Costs are made up, and so is the draft's sureness; the strategy that is run over it is the real one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from device_agent.engine.costs import CostCurve, FlashLoad, RoundModel
from device_agent.engine.strategy import Room
from device_agent.engine.tree import TokenTree
from device_agent.protocol import EnergySpec, RoundTrace
from tests.fakes.measured import round_trace

REST = (0.45, 0.2, 0.1, 0.06, 0.04)  # shares of what the best token leaves, of those after it
LEVELS = (0.985, 0.75, 0.4)  # the draft's probability of its best token, where it is sure, middling, unsure


@dataclass(frozen=True)
class Costs:
    """Seconds by tokens or rows."""

    draft: CostCurve
    verify: CostCurve
    project: CostCurve

    def model(self) -> RoundModel:
        """Resident rounds, in curves of their own: a strategy refines them."""
        draft, verify, project = (CostCurve.of(curve.calibrated()) for curve in (self.draft, self.verify, self.project))
        return RoundModel(draft, verify, project, FlashLoad(), lambda: None, EnergySpec(), cores=2)


class Text:
    """Token i stands at position i."""

    def __init__(self, shares: Sequence[tuple[float, float, float]], length: int, seed: int) -> None:
        """`shares`: of LEVELS, for parts of equal length one after another."""
        rng = np.random.default_rng(seed)
        each = -(-(length + 64) // len(shares))
        self.length = length
        self.sure = np.concatenate([np.array(LEVELS)[rng.choice(3, each, p=share)] for share in shares])
        self.ranks = [int(np.searchsorted(np.cumsum(_probs(sure)), rng.random())) for sure in self.sure]


def _probs(sure: float) -> list[float]:
    return [sure, *((1 - sure) * share for share in REST)]


@dataclass
class SimulatedDrafter:
    """What engine.drafter.Drafter is to a strategy. A pass moves the clock."""

    text: Text
    costs: Costs
    now_s: float = 0.0
    room: int = 400
    output: None = None
    model: Any = None
    _position: int = 0
    _pending: list[int] = field(default_factory=list)
    _waited: list[int] = field(default_factory=list)
    _expanded: set[int] = field(default_factory=set)
    _others: int = 0  # tokens made up so far

    @property
    def waiting(self) -> tuple[int, ...]:
        return tuple(self._pending)

    def begin(self, prompt: Sequence[int]) -> None:
        self._pending.clear()

    def leave_out(self, most: int) -> None:
        del self._pending[: max(0, len(self._pending) - most)]

    def likely(self, tree: TokenTree, nodes: Sequence[int], count: int) -> list[list[tuple[int, float]]]:
        self.now_s += seconds(self.costs.draft, len(self._pending) + len(nodes))
        self._waited = [*self._pending]
        self._pending.clear()
        self._expanded |= set(nodes)
        return [self._children(self._place(tree, node)) for node in nodes]

    def would_have(self, count: int) -> list[list[tuple[int, float]]]:
        return [self._children(token) for token in self._waited]

    def settle(self, tree: TokenTree, path: Sequence[int]) -> None:
        kept = next((n for n, node in enumerate(path) if node not in self._expanded), len(path))
        self._pending += [tree.tokens[node] for node in path[kept:]]
        self._position += len(path)
        self._expanded.clear()

    def _place(self, tree: TokenTree, node: int) -> int | None:
        """Position in the text; None off it."""
        place = self._position + tree.depths[node]
        while node >= 0:
            if tree.tokens[node] != self._position + tree.depths[node]:
                return None
            node = tree.parents[node]
        return place

    def _children(self, place: int | None) -> list[tuple[int, float]]:
        probs = _probs(0.75 if place is None else float(self.text.sure[place]))
        tokens = range(-1 - self._others, -1 - self._others - len(probs), -1)
        self._others += len(probs)
        right = None if place is None else self.text.ranks[place]
        return [(place + 1 if place is not None and rank == right else token, prob)
                for rank, (token, prob) in enumerate(zip(tokens, probs, strict=True))]  # fmt: skip


def seconds(curve: CostCurve, tokens: float) -> float:
    return float(curve.seconds(np.array([tokens]))[0])


def decoded_s(strategy: Any, drafter: SimulatedDrafter) -> float:
    """Seconds until the whole text is emitted in the strategy's rounds."""
    strategy.begin(range(10))
    position = 0
    while position < drafter.text.length:
        position += _round(strategy, drafter, position)
    return drafter.now_s


def _round(strategy: Any, drafter: SimulatedDrafter, position: int) -> int:
    """Tokens emitted."""
    started_s, spare = drafter.now_s, 64
    proposal = strategy.propose(position, Room(spare, spare))
    draft_s, path = drafter.now_s - started_s, [0]
    while (child := proposal.tree.child(path[-1], position + len(path))) is not None:
        path.append(child)
    verify_s = seconds(drafter.costs.verify, len(proposal.tree))
    projection_s = seconds(drafter.costs.project, len(path))
    drafter.now_s += verify_s + projection_s
    strategy.settle(proposal.tree, path)
    strategy.observe(_trace(proposal, path, draft_s, verify_s, projection_s, position))
    return len(path)


def _trace(
    proposal: Any, path: Sequence[int], draft_s: float, verify_s: float, projection_s: float, n_kv: int
) -> RoundTrace:
    return replace(
        round_trace(n_kv=n_kv, rows_projected=len(path), draft_passes=proposal.draft_passes),
        nodes_verified=len(proposal.tree),
        accepted_tokens=len(path) - 1,
        acceptance_length=len(path),
        draft_s=draft_s,
        verify_compute_s=verify_s,
        projection_s=projection_s,
        round_s=draft_s + verify_s + projection_s,
    )


def plain_s(text: Text, costs: Costs) -> float:
    return text.length * (seconds(costs.verify, 1) + seconds(costs.project, 1))


def chain_s(text: Text, costs: Costs, k: int) -> float:
    """Of conventional speculation with `k` draft tokens a round."""
    total_s, position, waiting = 0.0, 0, 0
    while position < text.length:
        right = next((n for n in range(k) if text.ranks[position + n] != 0), k)
        total_s += seconds(costs.draft, 1 + waiting) + (k - 1) * seconds(costs.draft, 1)
        total_s += seconds(costs.verify, k + 1) + seconds(costs.project, right + 1)
        position, waiting = position + right + 1, int(right == k)
    return total_s
