"""Resident decoding, where drafts cost what they save or more: lever knows when to speculate and when not.

On a simulated clock: real decisions, made-up costs and texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from device_agent.engine.costs import CostCurve
from device_agent.engine.growth import next_width as really_next_width
from device_agent.engine.strategies import lever as lever_module
from device_agent.engine.strategies.lever import Lever
from device_agent.engine.strategy import Conditions
from device_agent.engine.tree import TokenTree
from device_agent.protocol import DraftingSpec
from tests.fakes.simulated_text import Costs, SimulatedDrafter, Text, chain_s, decoded_s, plain_s

DEAR_BATCHES = CostCurve({1: 0.075, 2: 0.11, 4: 0.18, 8: 0.33, 16: 0.6, 32: 1.08})
CHEAP_BATCHES = CostCurve({1: 0.07, 2: 0.075, 4: 0.085, 8: 0.1, 16: 0.14, 32: 0.22})
PROJECT = CostCurve({1: 0.008, 2: 0.012, 8: 0.03})
COSTS = {
    "drafts never pay": Costs(CostCurve({1: 0.06, 2: 0.07, 4: 0.1, 8: 0.17, 16: 0.3}), DEAR_BATCHES, PROJECT),
    "drafts pay where they are sure": Costs(
        CostCurve({1: 0.006, 2: 0.009, 4: 0.015, 8: 0.026, 16: 0.05}), DEAR_BATCHES, PROJECT
    ),
    "drafts pay": Costs(CostCurve({1: 0.028, 2: 0.03, 4: 0.034, 8: 0.042, 16: 0.06}), CHEAP_BATCHES, PROJECT),
}
GREAT, MIXED, BAD = (0.9, 0.07, 0.03), (0.5, 0.3, 0.2), (0.1, 0.2, 0.7)
TEXTS = {"great": (GREAT,), "mixed": (MIXED,), "bad": (BAD,), "brightening": (BAD, GREAT), "darkening": (GREAT, BAD)}
TOKENS = 320


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("costs", COSTS)
def test_lever_is_as_fast_as_the_better_of_plain_decoding_and_the_best_chain(
    monkeypatch: pytest.MonkeyPatch, costs: str, text: str
) -> None:
    given, written = COSTS[costs], Text(TEXTS[text], TOKENS, seed=3)
    best_s = min(plain_s(written, given), *(chain_s(written, given, k) for k in range(1, 13)))
    assert best_s / lever_s(monkeypatch, given, written) >= 0.97


def test_a_draft_that_was_given_up_is_taken_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad half must not cost the good one: half of the speed-up of a good text is there again."""
    given = COSTS["drafts pay where they are sure"]
    brightening, bad, great = (Text(shares, TOKENS, seed=3) for shares in ((BAD, GREAT), (BAD,), (GREAT,)))
    halves_s = (lever_s(monkeypatch, given, bad) + lever_s(monkeypatch, given, great)) / 2
    assert lever_s(monkeypatch, given, brightening) <= 1.1 * halves_s


def test_a_draft_that_was_given_up_is_not_weighed_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing new is known of it until the next look, and plain rounds are to cost what plain decoding costs."""
    weighed = []

    def next_width(*arguments: Any) -> int:
        weighed.append(arguments)
        return really_next_width(*arguments)

    monkeypatch.setattr(lever_module, "next_width", next_width)
    lever_s(monkeypatch, COSTS["drafts never pay"], Text((BAD,), TOKENS, seed=3))
    assert len(weighed) < TOKENS / 10


def test_where_rounds_are_long_a_disturbance_does_not_end_drafting_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draft passes took forty times as long for some seconds, as on a phone that does something else too. Rounds of
    over a second, as from flash: once their plain rate is known again, drafting pays even at the disturbed price."""

    class Disturbed(SimulatedDrafter):
        def likely(self, tree: TokenTree, nodes: Sequence[int], count: int) -> list[list[tuple[int, float]]]:
            before_s = self.now_s
            found = super().likely(tree, nodes, count)
            self.now_s += 39 * (self.now_s - before_s) if 3 < self.now_s < 10 else 0
            return found

    flat = CostCurve({1: 1.1, 8: 1.1, 32: 1.15, 64: 1.2})
    given = Costs(CostCurve({1: 0.0128, 2: 0.014, 8: 0.03, 16: 0.05}), flat, PROJECT)
    written = Text((GREAT,), 2 * TOKENS, seed=3)
    disturbed_s = lever_s(monkeypatch, given, written, Disturbed)
    assert disturbed_s < 1.25 * lever_s(monkeypatch, given, written)


def lever_s(
    monkeypatch: pytest.MonkeyPatch, costs: Costs, text: Text, kind: type[SimulatedDrafter] = SimulatedDrafter
) -> float:
    drafter = kind(text, costs)
    monkeypatch.setattr(lever_module, "measure_rounds", lambda *_: costs.model())
    monkeypatch.setattr(lever_module, "perf_counter", lambda: drafter.now_s)
    conditions = Conditions(None)  # type: ignore[arg-type]  # no target: costs are given
    return decoded_s(Lever(drafter, DraftingSpec(), conditions), drafter)  # type: ignore[arg-type]
