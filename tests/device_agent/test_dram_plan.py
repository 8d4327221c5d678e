from dataclasses import replace

import pytest

from device_agent.dram_plan import KV_STEP, MAX_ROWS, MB, plan_dram
from device_agent.failure import AgentFailure
from device_agent.kernels import base
from device_agent.protocol import EngineSpec, PackManifest, StorageSpec
from tests.fakes.models import FakeModels

MANIFEST: PackManifest = FakeModels().manifest("any")  # four layers of 10 MB


def flash(budget: float | None = None, slots: int = 3) -> EngineSpec:
    return EngineSpec(storage=StorageSpec("flash", ring_slots=slots), dram_budget_mb=budget)


def test_its_constants_are_the_kernels() -> None:
    assert (MAX_ROWS, KV_STEP) == (base.MAX_ROWS, base.KV_STEP)


def test_without_a_budget_the_ring_gets_what_it_asks_for() -> None:
    plan = plan_dram(MANIFEST, None, flash(slots=5))
    assert plan.ring_slots == 5
    assert plan.parts["target_ring"] == 50 * MB
    assert plan.total == sum(plan.parts.values())
    assert plan.summary()["total_mb"] == round(plan.total / MB, 1)


def test_a_tight_budget_shortens_the_ring_but_not_below_two_slots() -> None:
    whole = plan_dram(MANIFEST, None, flash()).total / MB
    assert plan_dram(MANIFEST, None, flash(whole)).ring_slots == 3
    assert plan_dram(MANIFEST, None, flash(whole - 1)).ring_slots == 2
    with pytest.raises(AgentFailure) as caught:
        plan_dram(MANIFEST, None, flash(whole - 11))
    assert caught.value.kind == "budget_too_small"


def test_the_number_that_would_do_does() -> None:
    with pytest.raises(AgentFailure, match=r"dram_budget_mb=10 is too small: (\d+) MB would do") as caught:
        plan_dram(MANIFEST, MANIFEST, flash(10))
    enough = int(caught.value.message.split(": ")[1].split()[0])
    assert plan_dram(MANIFEST, MANIFEST, flash(enough)).total <= enough * MB
    with pytest.raises(AgentFailure):
        plan_dram(MANIFEST, MANIFEST, flash(enough - 1))


def test_resident_layers_and_a_draft_cost_their_bytes() -> None:
    streamed = plan_dram(MANIFEST, None, flash())
    resident = plan_dram(MANIFEST, None, replace(flash(), storage=StorageSpec("resident")))
    assert resident.parts["target_layers"] == 40 * MB
    assert (resident.ring_slots, resident.pinned_layers) == (0, 4)
    drafted = plan_dram(MANIFEST, MANIFEST, flash())
    assert drafted.parts["draft_weights"] + drafted.parts["draft_output"] == 41 * MB
    assert drafted.total > streamed.total + 41 * MB


def test_longer_contexts_cost_more() -> None:
    short, long = (plan_dram(MANIFEST, None, replace(flash(), n_ctx=n)) for n in (128, 4096))
    assert long.parts["target_kv"] == 32 * short.parts["target_kv"]


def test_what_an_accelerator_computes_with_lies_in_memory_twice() -> None:
    engine = replace(flash(), placement="npu")
    plan, on_cpu = plan_dram(MANIFEST, MANIFEST, engine), plan_dram(MANIFEST, MANIFEST, flash())
    assert plan.parts["device_layers"] == 30 * MB
    output = sum(plan.parts[name] for name in ("target_output", "draft_weights", "draft_output"))
    assert plan.parts["device_weights"] == output
    assert plan.total > on_cpu.total + output + 30 * MB
    least = plan.total / MB - 20
    assert plan_dram(MANIFEST, MANIFEST, replace(engine, dram_budget_mb=least)).ring_slots == 2
    with pytest.raises(AgentFailure, match="is too small"):
        plan_dram(MANIFEST, MANIFEST, replace(engine, dram_budget_mb=least - 1))
