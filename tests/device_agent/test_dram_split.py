"""What a budget leaves for the layers, and who gets it."""

from dataclasses import replace

import pytest

from device_agent.dram_plan import MB, DramPlan, plan_dram
from device_agent.failure import AgentFailure
from device_agent.protocol import EngineSpec, PackManifest, StorageSpec, StreamCosts
from tests.fakes.models import FakeModels

MANIFEST: PackManifest = FakeModels().manifest("any")  # four layers of 10 MB
LONG_DRAFTING = StreamCosts(bandwidth_mb_s=1000, draft_s=0.03)  # as long as three reads


def least() -> float:
    return plan_dram(MANIFEST, None, EngineSpec(storage=StorageSpec(ring_slots=2))).total / MB


def planned(spare_mb: float | None, **storage: object) -> DramPlan:
    """`spare_mb`: beyond what two ring slots need."""
    budget = None if spare_mb is None else least() + spare_mb
    return plan_dram(MANIFEST, None, EngineSpec(storage=StorageSpec(**storage), dram_budget_mb=budget))  # type: ignore[arg-type]


def test_pinning_takes_what_the_ring_does_not_need() -> None:
    plan = planned(10, pinning=True)
    assert (plan.ring_slots, plan.pinned_layers) == (2, 1)
    assert plan.parts["target_ring"] == 20 * MB
    assert plan.parts["target_pinned"] == 10 * MB
    assert plan.budget is not None
    assert plan.total <= plan.budget
    assert plan.summary()["pinned"] == list(plan.layers.pinned)


def test_everything_is_pinned_where_everything_fits() -> None:
    plan = planned(20, pinning=True)
    assert (plan.ring_slots, plan.pinned_layers) == (0, 4)
    assert plan.parts["target_ring"] == 0


def test_reading_across_rounds_alone_deepens_the_ring_as_far_as_drafting_is_long() -> None:
    assert planned(15, prefetch=True).ring_slots == 2  # nothing is known of drafting
    plan = planned(15, prefetch=True, costs=LONG_DRAFTING)
    assert (plan.ring_slots, plan.pinned_layers) == (3, 0)


def test_a_cap_below_the_calibrated_speed_counts() -> None:
    """At 100 MB/s a read takes 0.1 s: two slots outlast the drafting."""
    deep = planned(20, prefetch=True, costs=LONG_DRAFTING)
    capped = planned(20, prefetch=True, costs=LONG_DRAFTING, flash_bandwidth_mb_s=100)
    assert capped.ring_slots < deep.ring_slots


@pytest.mark.parametrize("pinning", [False, True])
def test_without_a_budget_nothing_is_spare(pinning: bool) -> None:
    plan = planned(None, pinning=pinning, prefetch=True, ring_slots=4)
    assert (plan.ring_slots, plan.pinned_layers) == (4, 0)


def test_mapped_layers_are_as_many_as_fit() -> None:
    assert planned(None, mode="mmap").mapped == 4
    tight = planned(15, mode="mmap")
    assert (tight.mapped, tight.ring_slots) == (3, 0)
    assert tight.parts["target_mapped"] == 30 * MB
    assert tight.summary()["mapped_layers"] == 3


@pytest.mark.parametrize("storage", [StorageSpec(pinning=True), StorageSpec("mmap"), StorageSpec(prefetch=True)])
def test_two_layers_must_fit_whatever_the_mode(storage: StorageSpec) -> None:
    engine = EngineSpec(storage=storage, dram_budget_mb=least() - 1)
    with pytest.raises(AgentFailure, match=r"too small: \d+ MB would do"):
        plan_dram(MANIFEST, None, engine)
    assert plan_dram(MANIFEST, None, replace(engine, dram_budget_mb=least())).total <= least() * MB
