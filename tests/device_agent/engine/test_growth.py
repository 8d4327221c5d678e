from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_agent.engine.growth import Array, Candidates, Limits, Outlook, Pick, Price, next_width, pick
from tests.device_agent.engine.random_trees import CASES, Grown, HiddenTree

LIMITS = Limits(nodes=62, depth=24, expansions=64)
EDGE = st.floats(0.01, 0.99)


@st.composite
def small_trees(draw: st.DrawFn) -> Candidates:
    """Up to 9 nodes below the root, siblings summing to at most 1."""
    candidates = Candidates()
    for _ in range(draw(st.integers(1, 3))):
        parent = draw(st.sampled_from(candidates.leaves(9)))
        edges = draw(st.lists(EDGE, min_size=1, max_size=3))
        candidates.reveal(parent, [edge / max(1.0, sum(edges)) for edge in edges])
    return candidates


@st.composite
def cost_curves(draw: st.DrawFn) -> Array:
    """Seconds by tree size 1..12: rising, by steps of any height."""
    return np.cumsum(draw(st.lists(st.floats(0.0, 1.0), min_size=12, max_size=12))) + 0.1


def priced(curve: Array, rate: float) -> Price:
    return lambda draft_s, sizes, gains: rate * (draft_s + curve[sizes.astype(int) - 1])


def subtrees(candidates: Candidates) -> Iterator[tuple[int, ...]]:
    nodes = range(1, len(candidates.values))
    for size in range(len(nodes) + 1):
        for chosen in combinations(nodes, size):
            if all(candidates.parents[node] in (0, *chosen) for node in chosen):
                yield chosen


def picked(candidates: Candidates, draft_s: float, price: Price) -> Pick:
    return pick(np.array([candidates.values[node] for node in candidates.ranked()]), draft_s, price, LIMITS.nodes)


@given(small_trees(), cost_curves(), st.floats(0.1, 10), st.floats(0, 1))
def test_the_chosen_tree_is_as_good_as_exhaustive_search(
    candidates: Candidates, curve: Array, rate: float, draft_s: float
) -> None:
    price = priced(curve, rate)
    best = max(
        1 + sum(candidates.values[node] for node in chosen) - rate * (draft_s + curve[len(chosen)])
        for chosen in subtrees(candidates)
    )
    chosen = picked(candidates, draft_s, price)
    assert chosen.worth >= best - 0.02 * abs(best)
    assert chosen.worth == pytest.approx(chosen.gain - rate * (draft_s + curve[chosen.size - 1]))


@given(small_trees(), cost_curves())
def test_dinkelbach_reaches_the_best_ratio(candidates: Candidates, curve: Array) -> None:
    """λ set to the ratio of the last choice, again and again, ends at the tree of the best ratio of all."""
    best = max((1 + sum(candidates.values[n] for n in chosen)) / curve[len(chosen)] for chosen in subtrees(candidates))
    rate = 1 / curve[0]
    for _ in range(12):
        chosen = picked(candidates, 0.0, priced(curve, rate))
        rate = chosen.gain / curve[chosen.size - 1]
    assert rate == pytest.approx(best, rel=0.02)


@given(small_trees())
def test_the_most_valuable_nodes_are_a_tree(candidates: Candidates) -> None:
    ranked = candidates.ranked()
    for place, node in enumerate(ranked):
        assert candidates.parents[node] in (0, *ranked[:place])


def test_nothing_is_drafted_when_drafting_does_not_pay() -> None:
    """A draft pass costs what the target takes for a token."""
    price = priced(np.arange(1, 65).astype(np.float64), rate=1.0)
    outlook = Outlook(CASES, lambda ahead, leaves: 1.0)
    assert next_width(Candidates(), 0.0, price, outlook, LIMITS) == 0


def test_drafting_is_free_while_the_flash_reads() -> None:
    """A round lasts as long as its read: passes are drafted until they no longer hide, and then no more."""
    outlook = Outlook(CASES, lambda ahead, leaves: 0.1)
    grown, draft_s = Grown(HiddenTree(1)), 0.0
    while width := next_width(grown.candidates, draft_s, hidden(2.0), outlook, LIMITS):
        grown.expand(width)
        draft_s += 0.1
    assert 1.0 <= draft_s <= 2.6


def hidden(read_s: float) -> Price:
    """Plain decoding, at `read_s` a token, is what λ comes from; tree and drafting hide up to `read_s`."""
    return lambda draft_s, sizes, gains: 3 / read_s * np.maximum(read_s, draft_s + 0.002 * sizes)


def test_the_caps_hold() -> None:
    free: Price = lambda draft_s, sizes, gains: 0.0 * sizes  # noqa: E731  # a function with a type
    outlook = Outlook(CASES, lambda ahead, leaves: 0.0)
    limits, grown = Limits(nodes=10, depth=3, expansions=12), Grown(HiddenTree(2))
    while width := next_width(grown.candidates, 0.0, free, outlook, limits):
        grown.expand(width, limits.depth)
        assert sum(grown.candidates.expanded) <= 12
    assert max(grown.candidates.depths) <= 3
    assert picked(grown.candidates, 0.0, free).size <= 63
    assert pick(np.ones(40), 0.0, free, limits.nodes).size <= 11


@dataclass(frozen=True)
class Regime:
    """Seconds of reading a round, of a draft pass of one leaf and of verifying one token; tokens per second."""

    read_s: float
    pass_s: float
    token_s: float
    rate: float
    score: float  # share of an oracle's gain that the stop rule must get

    @property
    def price(self) -> Price:
        return lambda draft_s, sizes, gains: self.rate * np.maximum(self.read_s, draft_s + self.token_s * (1 + sizes))

    @property
    def outlook(self) -> Outlook:
        return Outlook(CASES, lambda ahead, leaves: self.pass_s * (0.7 + 0.3 * leaves))


REGIMES = {
    "slow flash": Regime(1.5, 0.04, 0.03, 4.5, 0.97),
    "fast flash": Regime(0.5, 0.04, 0.03, 6.0, 0.97),
    "bound by drafting": Regime(0.2, 0.1, 0.005, 6.0, 0.93),
    "bound by verifying": Regime(0.0, 0.005, 0.04, 16.0, 0.75),
}


@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES)
def test_the_stop_rule_against_an_oracle_that_sees_the_tree_before_it_stops(regime: Regime) -> None:
    """What the rule gains over plain decoding, as a share of the oracle's gain; rules that do not look get less."""
    rows = np.array([worths(HiddenTree(seed), regime) for seed in range(25)])
    rule, one_pass, no_stop = rows[:, :3].sum(axis=0) / rows[:, 3].sum()
    print(f"rule {rule:.3f}, after one pass {one_pass:.3f}, never {no_stop:.3f}")
    assert rule >= regime.score
    assert max(one_pass, no_stop) < regime.score


def worths(tree: HiddenTree, regime: Regime) -> tuple[float, float, float, float]:
    """Above plain decoding: where the rule stops, after one pass, after 24, and at the best moment in hindsight."""
    grown, draft_s, stopped = Grown(tree), 0.0, None
    plain = picked(grown.candidates, 0.0, regime.price).worth
    found = [0.0]
    for _ in range(24):
        width = next_width(grown.candidates, draft_s, regime.price, regime.outlook, LIMITS)
        if width == 0 and stopped is None:
            stopped = found[-1]
        taken = min(width or 1, len(grown.candidates.leaves(LIMITS.depth)))
        grown.expand(taken)
        draft_s += regime.outlook.pass_s(0, taken)
        found.append(picked(grown.candidates, draft_s, regime.price).worth - plain)
    return found[-1] if stopped is None else stopped, found[1], found[-1], max(found)
