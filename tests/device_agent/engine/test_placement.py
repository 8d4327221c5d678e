"""Placing roles by cost, on synthetic cost tables: never dearer than what trying everything finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_agent.engine.costs import CostCurve
from device_agent.engine.placement import DRAFT, DRAFT_PROJECT, PROJECT, VERIFY, Offer, Usual, place
from device_agent.failure import AgentFailure
from device_agent.protocol import CostTable

ROLES = (DRAFT, DRAFT_PROJECT, VERIFY, PROJECT)
ROUND = {DRAFT: Usual(4, 3), DRAFT_PROJECT: Usual(4, 2), VERIFY: Usual(1, 11), PROJECT: Usual(1.5, 4)}

seconds = st.floats(1e-4, 2.0)
static = st.builds(lambda s: CostTable(((1, s[0]), (4, s[1]), (16, s[2])), static=True), st.tuples(*[seconds] * 3))
flexible = st.builds(lambda s: CostTable(((1, s[0]), (8, s[0] + s[1]))), st.tuples(seconds, seconds))
sizes = st.dictionaries(st.sampled_from(ROLES), st.integers(0, 100))


def offer(name: str, costs: st.SearchStrategy[CostTable], least: int) -> st.SearchStrategy[Offer]:
    tables = st.dictionaries(st.sampled_from(ROLES), costs, min_size=least)
    return st.builds(Offer, st.just(name), tables, sizes, st.none() | st.integers(0, 200))


cpu = st.builds(lambda o: replace(o, free_bytes=None), offer("CPU", flexible, len(ROLES)))
backends = st.tuples(cpu, offer("npu", static, 0), offer("gpu", flexible, 0)).map(list)


def dearness(offers: list[Offer], backends: Mapping[str, str]) -> float:
    """Seconds of a round, worked out from the tables; infinite for what cannot be."""
    total, used = 0.0, dict.fromkeys((o.backend for o in offers), 0)
    for role, usual in ROUND.items():
        chosen = next(o for o in offers if o.backend == backends[role])
        if role not in chosen.costs:
            return float("inf")
        table, used[chosen.backend] = chosen.costs[role], used[chosen.backend] + chosen.nbytes.get(role, 0)
        known = dict(table.seconds)
        rising = {size: max(s for other, s in known.items() if other <= size) for size in known}
        if table.static:
            total += usual.calls * rising[min(size for size in rising if size >= usual.size)]
        else:
            at = np.interp(min(usual.size, 8), [1, 8], [rising[1], rising[8]]) + max(0, usual.size - 8) * rising[8] / 8
            total += usual.calls * float(at)
    fits = all(o.free_bytes is None or used[o.backend] <= o.free_bytes for o in offers)
    return total if fits else float("inf")


@given(backends)
def test_no_placement_is_cheaper_than_the_chosen_one(offers: list[Offer]) -> None:
    found = place(offers, ROUND)
    names = [o.backend for o in offers]
    cheapest = min(
        dearness(offers, {DRAFT: a, DRAFT_PROJECT: b, VERIFY: c, PROJECT: d})
        for a in names
        for b in names
        for c in names
        for d in names
    )
    assert found.seconds == pytest.approx(cheapest)
    assert dearness(offers, found.backends) == pytest.approx(cheapest)


def table(per_call: float, per_token: float) -> CostTable:
    return CostTable(tuple((n, per_call + n * per_token) for n in (1, 2, 4, 8, 16, 32)))


FAST_IN_BULK = dict.fromkeys(ROLES, replace(table(0.05, 0.001), static=True))
CPU = Offer("CPU", dict.fromkeys(ROLES, table(0.0, 0.01)))


def test_a_device_that_is_slow_to_reach_gets_the_large_batches() -> None:
    """Some 50 ms to start: too dear for a few nodes at a time, cheap for a whole tree."""
    found = place([CPU, Offer("npu", FAST_IN_BULK)], ROUND | {VERIFY: Usual(1, 20)})
    assert found.backends == {DRAFT: "CPU", DRAFT_PROJECT: "CPU", VERIFY: "npu", PROJECT: "CPU"}


def test_a_static_device_is_charged_for_its_padding() -> None:
    curve = CostCurve.of(FAST_IN_BULK[VERIFY])
    np.testing.assert_allclose(curve.seconds(np.array([1.0, 5.0, 8.0, 9.0])), [0.051, 0.058, 0.058, 0.066])


def test_what_does_not_fit_together_goes_where_it_is_missed_least() -> None:
    cheap = dict.fromkeys(ROLES, table(0.0, 0.001))
    whole = Offer("npu", cheap, dict.fromkeys(ROLES, 10), free_bytes=10)
    assert place([CPU, whole], ROUND).backends[DRAFT] == "npu", "drafting gains most: 12 tokens a round"
    assert [*place([CPU, whole], ROUND).backends.values()].count("npu") == 1


def test_equals_stay_on_the_cpu() -> None:
    assert set(place([CPU, replace(CPU, backend="npu")], ROUND).backends.values()) == {"CPU"}


def test_a_role_that_nobody_plays_is_refused() -> None:
    with pytest.raises(AgentFailure, match=r"no placement of draft, .* on CPU, npu is possible"):
        place([Offer("CPU", {DRAFT: table(0, 1)}), Offer("npu", FAST_IN_BULK, {VERIFY: 9}, free_bytes=8)], ROUND)
