"""Which keys make another trial: decided for every key of the schema, so that a new key has to be thought about."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from orchestrator.entities import Device, TrialSpec
from orchestrator.schema import schema_keys
from orchestrator.sweeps import identity
from orchestrator.sweeps.expand import Expander
from tests.fakes.farm import phone
from tests.fakes.jobs import job
from tests.fakes.models import FakeModels

MODELS = FakeModels(small=("t1", "d1"), same=("t1", "d1"), other=("t2", "d2"))

AUTOREGRESSIVE: dict[str, Any] = {"engine.strategy": "autoregressive"}

# Another valid value for every key, and whether it makes another trial.
CHANGES: dict[str, tuple[Any, bool]] = {
    "pair.name": ("other", True),
    "engine.strategy": ("autoregressive", True),
    "engine.drafting.model": (False, True),
    "engine.drafting.k": (7, True),
    "engine.drafting.widths": ([2, 1], False),  # the base is a chain
    "engine.drafting.ngram": (2, False),
    "engine.drafting.enabled": (False, False),
    "engine.drafting.objective": ("edp", False),
    "engine.drafting.trim_vocabulary": (512, True),
    "engine.drafting.requantize": ("Q4_0", True),
    "engine.drafting.max_nodes": (8, False),
    "engine.drafting.max_depth": (4, False),
    "engine.pruning.enabled": ("off", False),  # for lever, where it pays
    "engine.pruning.target_recall": (0.98, False),
    "engine.pruning.layers": ([14], False),
    "engine.storage.mode": ("resident", True),
    "engine.storage.flash_bandwidth_mb_s": (500.0, True),
    "engine.storage.chunk_kib": (1024, True),
    "engine.storage.ring_slots": (5, True),
    "engine.storage.prefetch": (True, True),
    "engine.storage.pinning": (True, False),  # the base has no budget
    "engine.memory.dram_budget_mb": (900.0, True),
    "engine.placement": ("auto", True),
    "engine.threads": (1, True),
    "engine.cores": ("0-1", True),
    "engine.reader_cores": ("0", True),
    "engine.n_ctx": (1024, True),
    "engine.repack": (False, True),
    "engine.trace_nodes": (False, True),
    "workload.name": ("renamed", False),
    "workload.prompts": ([{"id": "a", "text": "three"}], True),
    "workload.file": ("…", True),  # replaced in the test
    "workload.source": ("humaneval", True),
    "workload.limit": (1, True),
    "workload.max_new_tokens": (8, True),
    "workload.chat": (False, True),
    "workload.sampling.temperature": (0.7, True),
    "workload.sampling.top_k": (40, False),  # the base is greedy
    "workload.sampling.top_p": (0.9, False),
    "workload.sampling.min_p": (0.1, False),
    "workload.sampling.seed": (1, False),
    "schedule.repeats": (2, False),
    "schedule.order": ("random", False),
    "schedule.seed": (1, False),
    "schedule.priority": (3, False),
    "schedule.exclusive_host": (False, True),
    "schedule.max_attempts": (1, False),
    "schedule.deadline_s": (60.0, False),
    "schedule.fail_fast": (True, False),
    "schedule.max_failures": (3, False),
    "phones": ("oneplus12", False),
    "sweep": ("named", False),
    "runtime": ("inline", False),
    "on_existing": ("rerun", False),
    "detach": (True, False),
}


def first_trial(changes: Mapping[str, Any] | None = None, device: Device | None = None) -> TrialSpec:
    return Expander(MODELS, [device or phone()]).expand(job(changes))[0]


def test_every_key_of_the_schema_is_decided() -> None:
    assert set(CHANGES) == {key for key, is_value in schema_keys() if is_value}


@pytest.mark.parametrize("key", CHANGES)
def test_a_key_makes_another_trial_exactly_when_it_can_change_the_result(key: str, tmp_path: Any) -> None:
    value, matters = CHANGES[key]
    if key == "workload.file":
        value = str(tmp_path / "prompts.jsonl")
        (tmp_path / "prompts.jsonl").write_text('{"id": "a", "text": "from a file"}\n')
    changes = {key: value}
    if key in ("workload.file", "workload.source"):
        changes["workload.prompts"] = []
    base, changed = first_trial(), first_trial(changes)
    assert (base.trial_id != changed.trial_id) is matters
    assert (base.labels["config_key"] != changed.labels["config_key"]) is matters


def test_names_do_not_matter_where_the_content_is_the_same(tmp_path: Any) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}\n')
    by_file = {"workload.prompts": [], "workload.file": str(file), "workload.name": "file"}
    assert first_trial(by_file).trial_id == first_trial().trial_id
    assert first_trial({"pair.name": "same"}).trial_id == first_trial().trial_id
    file.write_text('{"id": "a", "text": "one!"}\n{"id": "b", "text": "two"}\n')
    assert first_trial(by_file).trial_id != first_trial().trial_id


@pytest.mark.parametrize(
    ("setting", "unused"),
    [
        ({"engine.strategy": "autoregressive"}, {"engine.drafting.k": 9}),
        ({"engine.storage.mode": "resident"}, {"engine.storage.ring_slots": 9}),
        ({"engine.storage.mode": "resident"}, {"engine.storage.flash_bandwidth_mb_s": 500.0}),
        ({"engine.storage.mode": "mmap"}, {"engine.storage.prefetch": True}),
        ({"engine.storage.mode": "resident"}, {"engine.reader_cores": "1"}),
        ({"engine.cores": "auto"}, {"engine.threads": 7}),
        ({"engine.cores": "0-2"}, {"engine.cores": "2+0-1"}),
        ({"engine.storage.pinning": True, "engine.memory.dram_budget_mb": 900.0}, {"engine.storage.ring_slots": 9}),
    ],
)
def test_settings_that_a_strategy_or_storage_does_not_use_make_no_other_trial(
    setting: dict[str, Any], unused: dict[str, Any]
) -> None:
    assert first_trial(setting).trial_id == first_trial(setting | unused).trial_id


@pytest.mark.parametrize(
    ("strategy", "used"), [("static_tree", "engine.drafting.widths"), ("prompt_lookup", "engine.drafting.ngram")]
)
def test_a_strategy_is_told_from_itself_by_the_settings_that_it_uses(strategy: str, used: str) -> None:
    base: dict[str, Any] = {"engine.strategy": strategy, "engine.drafting.widths": [2, 2]}
    assert first_trial(base).trial_id != first_trial(base | {used: CHANGES[used][0]}).trial_id


@pytest.mark.parametrize("name", ["top_k", "top_p", "min_p", "seed"])
def test_sampling_makes_other_trials_and_other_references(name: str) -> None:
    key, sampled = f"workload.sampling.{name}", {"workload.sampling.temperature": 0.7}
    one, other = first_trial(sampled), first_trial(sampled | {key: CHANGES[key][0]})
    assert one.trial_id != other.trial_id
    assert len({t.labels["reference_key"] for t in (first_trial(), one, other)}) == 3


def test_phones_and_repeats_are_other_trials_of_one_configuration() -> None:
    phones = [phone("a"), phone("b")]
    trials = Expander(MODELS, phones).expand(job({"schedule.repeats": 2}))
    assert [(t.device, t.repeat) for t in trials] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert len({t.trial_id for t in trials}) == 4
    assert len({t.labels["config_key"] for t in trials}) == 1
    assert len({t.labels["reference_key"] for t in trials}) == 2
    assert len({t.labels["baseline_key"] for t in trials}) == 4


def test_another_phone_under_the_same_name_is_another_trial() -> None:
    replaced = dataclasses.replace(phone(), serial="another")
    stated = phone(facts={"power_model": {"idle_w": 1.0, "cpu_w_per_core": 2.0, "flash_j_per_gb": 0.5}})
    assert len({first_trial(device=d).trial_id for d in (phone(), replaced, stated)}) == 3


def test_a_baseline_is_the_same_but_for_strategy_and_drafting() -> None:
    chain, deeper, plain = first_trial(), first_trial({"engine.drafting.k": 9}), first_trial(AUTOREGRESSIVE)
    slower = first_trial(AUTOREGRESSIVE | {"engine.storage.flash_bandwidth_mb_s": 100.0})
    assert chain.labels["baseline_key"] == deeper.labels["baseline_key"] == plain.labels["baseline_key"]
    assert slower.labels["baseline_key"] != plain.labels["baseline_key"]
    ahead = first_trial(AUTOREGRESSIVE | {"engine.storage.prefetch": True})
    assert ahead.labels["baseline_key"] == plain.labels["baseline_key"]
    assert ahead.trial_id != plain.trial_id
    assert len({t.labels["reference_key"] for t in (chain, deeper, plain, slower)}) == 1


def test_a_sweep_is_its_trials_or_its_name() -> None:
    assert identity.sweep_id(["a", "b"], None) == identity.sweep_id(["b", "a", "a"], None)
    assert identity.sweep_id(["a"], None) != identity.sweep_id(["b"], None)
    assert identity.sweep_id(["a"], "mine") == identity.sweep_id(["b"], "mine")
    assert len(identity.sweep_id(["a"], None)) == 12


def test_pinning_makes_another_trial_where_there_is_a_budget() -> None:
    budget: dict[str, Any] = {"engine.memory.dram_budget_mb": 900.0}
    assert first_trial(budget).trial_id != first_trial(budget | {"engine.storage.pinning": True}).trial_id
