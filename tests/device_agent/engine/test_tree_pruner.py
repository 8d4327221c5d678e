"""Which nodes go between layers: against exhaustive search over all sets that are closed downwards."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_agent.engine.costs import CostCurve
from device_agent.engine.growth import Array
from device_agent.engine.shrinkage import Shrinkage
from device_agent.engine.tree_pruner import Passed, losing

CURVE = CostCurve({1: 0.1, 2: 0.14, 4: 0.2, 8: 0.38, 16: 0.7})
trees = st.lists(st.tuples(st.integers(0, 10**6), st.floats(0.01, 0.99)), min_size=1, max_size=8)


def grown(nodes: list[tuple[int, float]]) -> tuple[list[int], Array]:
    """Parents and survivals, the root first."""
    parents, survival = [-1], [1.0]
    for pick, edge in nodes:
        parents.append(pick % len(parents))
        survival.append(survival[parents[-1]] * edge)
    return parents, np.array(survival)


@settings(max_examples=60, deadline=None)
@given(trees, st.floats(0, 12), st.floats(0.05, 1.1))
def test_no_other_choice_would_be_worth_more(nodes: list[tuple[int, float]], rate: float, limit: float) -> None:
    parents, survival = grown(nodes)

    def price(tokens: Array) -> Array:
        return rate * CURVE.seconds(tokens)

    def worth(gone: set[int]) -> float:
        lost = sum(float(survival[node]) for node in gone)
        return -lost - float(price(np.array([float(len(parents) - len(gone))]))[0])

    found = set(losing(survival, limit, price))
    assert all(survival[node] < limit for node in found)
    assert all(node in found for node in range(1, len(parents)) if parents[node] in found)
    choices = [{node for node, gone in enumerate(flags, 1) if gone} for flags in product((0, 1), repeat=len(nodes))]
    allowed = [
        gone
        for gone in choices
        if all(survival[node] < limit for node in gone)
        and all(node in gone for node in range(1, len(parents)) if parents[node] in gone)
    ]
    assert worth(found) == pytest.approx(max(map(worth, allowed)), abs=1e-9)


def test_where_computing_on_is_free_nothing_goes() -> None:
    assert losing(np.array([1.0, 0.0, 1e-9]), 1.0, lambda tokens: np.zeros(len(tokens))) == []


def test_what_a_pruned_pass_took_says_what_a_whole_one_takes() -> None:
    shrinkage = Shrinkage({2: 0.5, 3: 0.25}, n_layers=4)
    passed = [Passed(2, 5), Passed(3, 3)]
    at = dict(zip((9, 5, 3), CURVE.seconds(np.array([9.0, 5.0, 3.0])).tolist(), strict=True))
    pruned_s = 0.5 * at[9] + 0.25 * at[5] + 0.25 * at[3]
    assert shrinkage.seconds(CURVE, np.array([9.0]), 0) == pytest.approx([pruned_s])
    assert shrinkage.whole_s(CURVE, pruned_s, 9, passed) == pytest.approx(at[9])
    assert shrinkage.whole_s(CURVE, at[9], 9, [Passed(2, 9), Passed(3, 9)]) == at[9]


def test_what_is_left_follows_the_rounds() -> None:
    shrinkage = Shrinkage({2: 1.0}, n_layers=4)
    for _ in range(60):
        shrinkage.observe(11, [Passed(2, 4)])
    assert shrinkage.left[2] == pytest.approx(0.3, abs=0.01)
    shrinkage.observe(1, [Passed(2, 1)])
    assert shrinkage.left[2] == pytest.approx(0.3, abs=0.01)
