from __future__ import annotations

import numpy as np
import pytest

from device_agent.engine.costs import CostCurve, FlashLoad, RoundModel
from device_agent.engine.growth import Array
from device_agent.pipeline_model import Stream, round_seconds
from device_agent.protocol import EnergySpec

LAYERS = 28
MB = 1_000_000


def model(load: FlashLoad, mb_s: float = 500) -> RoundModel:
    verify = CostCurve({1: 0.08, 8: 0.33, 16: 0.6, 32: 1.08})
    project = CostCurve({1: 0.02, 8: 0.1})
    return RoundModel(
        CostCurve({1: 0.035}), verify, project, load, lambda: mb_s * MB, EnergySpec("model", 1.0, 2.0, 0.5), cores=2
    )


def one(value: float) -> Array:
    return np.array([value])


@pytest.mark.parametrize("size", [1.0, 8.0, 32.0])
@pytest.mark.parametrize("draft_s", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("slots", [0, 3, 8])
@pytest.mark.parametrize("mb_s", [400, 1600])
def test_a_round_lasts_as_long_as_in_the_pipeline_model(size: float, draft_s: float, slots: int, mb_s: float) -> None:
    """`slots` 0: reading stops between rounds."""
    rounds = model(FlashLoad(756 * MB, LAYERS, slots), mb_s)
    stream = Stream((27 / mb_s,) * LAYERS, slots or 3, prefetch=slots > 0)
    verify_s, project_s = rounds.verify.seconds(one(size)), rounds.project.seconds(one(4.0))
    expected = round_seconds(stream, float(verify_s[0]) / LAYERS, draft_s, float(project_s[0]))
    assert rounds.seconds(draft_s + project_s, verify_s, rounds.read_s())[0] == pytest.approx(expected, rel=0.03)


def test_resident_rounds_add_up() -> None:
    assert model(FlashLoad()).seconds(one(0.2), one(0.33), 0.0)[0] == pytest.approx(0.53)


def test_joules_count_waiting_computing_and_reading() -> None:
    joules = model(FlashLoad(1000 * MB, LAYERS)).joules(one(0.53), one(3.0))
    assert joules[0] == pytest.approx(3.0 * 1.0 + 2 * 2.0 * 0.53 + 0.5)


def test_a_curve_passes_through_what_was_measured_and_goes_on_beyond() -> None:
    curve = CostCurve({1: 1.0, 4: 2.5, 8: 8.0}, per_slot_s=0.001)
    assert curve.seconds(np.array([1.0, 4.0, 6.0, 16.0])) == pytest.approx([1.0, 2.5, 5.25, 16.0])
    assert curve.seconds(one(4.0), n_kv=100)[0] == pytest.approx(2.9)


def test_observations_win_over_the_first_measurement() -> None:
    curve = CostCurve({1: 1.0, 8: 4.0})
    for _ in range(30):
        curve.observe(8, 0, 2.0)
    assert curve.seconds(one(8.0))[0] == pytest.approx(2.0, rel=0.05)
    assert curve.seconds(one(1.0))[0] < 1.0  # the whole device got faster


def test_an_outlier_is_bounded() -> None:
    curve = CostCurve({1: 1.0})
    curve.observe(1, 0, 100.0)
    assert curve.seconds(one(1.0))[0] <= 2.0
