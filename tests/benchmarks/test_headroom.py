from __future__ import annotations

from typing import Any

import pytest

from benchmarks.headroom import headroom
from tests.fakes.measured import CURVE, round_trace

FAST, SLOW = 1e6, 1e-2  # MB/s


def plan(mb_s: float) -> dict[str, Any]:
    """Four layers of 50 kB through a ring of two."""
    curves = {f"{name}_s_by_tokens": CURVE for name in ("draft", "verify", "project")}
    stream = {"layer_bytes": [50_000] * 4, "mb_s": mb_s, "prefetch": True}
    return curves | {"ring_slots": 2, "pinned": [], "stream": stream}


def test_where_reading_is_free_what_is_saved_is_gained() -> None:
    found = headroom((round_trace(),) * 4, plan(FAST))
    assert found["free_drafting"] == pytest.approx(1.0 / 0.5, rel=1e-3)
    assert found["perfect_pruning"] == pytest.approx(1.0 / (1 - 0.4 * (1 - 0.25 / 0.4)), rel=1e-3)
    assert found["perfect_tree"] == pytest.approx(1.0 / (0.1 + 0.25 + 3 * 0.1), rel=1e-3)


def test_where_reading_is_everything_nothing_is_gained() -> None:
    found = headroom((round_trace(),) * 4, plan(SLOW))
    assert all(value == pytest.approx(1.0, abs=0.05) for value in found.values())


def test_rounds_that_draft_nothing_have_nothing_to_gain() -> None:
    plain = round_trace(draft_s=0.0, nodes_verified=1, accepted_tokens=0, acceptance_length=1)
    found = headroom((plain,) * 4, plan(FAST))
    assert all(value == pytest.approx(1.0) for value in found.values())


def test_resident_rounds_have_headroom_too() -> None:
    found = headroom((round_trace(),) * 4, {name: value for name, value in plan(FAST).items() if name != "stream"})
    assert found["free_drafting"] == pytest.approx(1.0 / 0.5)
