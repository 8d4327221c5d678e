"""Efficiency against the calibrated model: rounds made to last what costs say, or longer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from device_agent.engine.outcome import RequestOutcome
from device_agent.engine.pipeline import CalibratedCosts, CostsOf, own_costs, pipeline_efficiency
from device_agent.pipeline_model import Stream
from device_agent.protocol import ENGINE_VERSION, CostCalibration, CostTable, RoundTrace
from tests.fakes.measured import request, round_trace

LAYERS = 4
DRAFT, DRAFT_PROJECT = CostTable(((1, 0.02), (8, 0.09))), CostTable(((1, 0.01), (8, 0.08)))
VERIFY, PROJECT = CostTable(((1, 0.1), (8, 0.4)), per_slot_s=1e-4), CostTable(((1, 0.02), (4, 0.05)))
KNOWN = CostCalibration(ENGINE_VERSION, "t", "d", 2, "flash", "direct", DRAFT, DRAFT_PROJECT, VERIFY, PROJECT, key="c")
TREE = round_trace(draft_passes=4, draft_tokens=8, draft_rows=4, nodes_verified=8, n_kv=100, rows_projected=4)
DRAFT_S = 4 * (0.03 + 0.01)  # passes over two tokens, one of them projected
COMPUTE_S = 0.4 + 8 * 100 * 1e-4
FREE = Stream((0.0,) * LAYERS, 2, prefetch=True)


def efficiency(trace: RoundTrace, costs: CostsOf, stream: Stream = FREE) -> float:
    outcome = RequestOutcome(request(0.1, 5), (trace,) * 40, 0.0, 1.0)
    found = pipeline_efficiency([outcome], stream, costs)
    assert found is not None
    return found


def test_rounds_that_last_what_was_calibrated_are_efficient() -> None:
    whole_s = DRAFT_S + COMPUTE_S + 0.05
    costs = CalibratedCosts(KNOWN, LAYERS)
    assert efficiency(replace(TREE, round_s=whole_s), costs) == pytest.approx(1.0)
    assert efficiency(replace(TREE, round_s=2 * whole_s), costs) == pytest.approx(0.5)


def test_slower_computing_is_a_loss_only_to_the_calibrated_model() -> None:
    slow = replace(TREE, draft_s=1.0, verify_compute_s=2.0, projection_s=0.5, round_s=3.5)
    assert efficiency(slow, own_costs(LAYERS)) == pytest.approx(1.0)
    assert efficiency(slow, CalibratedCosts(KNOWN, LAYERS)) == pytest.approx((DRAFT_S + COMPUTE_S + 0.05) / 3.5)


def test_reading_that_hides_the_rest_is_what_a_round_lasts() -> None:
    flash = Stream((1.0,) * LAYERS, 2, prefetch=True)
    assert efficiency(replace(TREE, round_s=4.0), CalibratedCosts(KNOWN, LAYERS), flash) == pytest.approx(1.0, abs=0.02)


def test_a_trimmed_vocabulary_costs_its_share_of_the_draft_s_projection() -> None:
    whole_s = 4 * (0.03 + 0.001) + COMPUTE_S + 0.05
    assert efficiency(replace(TREE, round_s=whole_s), CalibratedCosts(KNOWN, LAYERS, 0.1)) == pytest.approx(1.0)


def test_pruned_nodes_are_not_expected_to_be_computed() -> None:
    pruned = replace(TREE, nodes_pruned=5, verify_compute_s=0.2, round_s=DRAFT_S + 0.2 + 0.05)
    assert efficiency(pruned, CalibratedCosts(KNOWN, LAYERS)) == pytest.approx(1.0)


def test_without_rounds_there_is_none() -> None:
    outcome = RequestOutcome(request(None, 1), (), 0.0, 1.0)
    assert pipeline_efficiency([outcome], FREE, own_costs(LAYERS)) is None
