"""Records of acceptance in the model store: found for what they were learnt from, and for nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from device_agent.protocol import EdgeCalibration, PromptSpec, SamplingSpec
from orchestrator.errors import ModelError
from orchestrator.models import acceptance
from orchestrator.models.store import ModelStore, Pair
from tests.orchestrator.models.test_edge_fit import alike, drawn

PAIR = Pair("p", "t" * 64, "d" * 64, "target", "draft", ())
PROMPTS = tuple(PromptSpec(str(i), (1, 2, i)) for i in range(3))
GREEDY, WARM = SamplingSpec(), SamplingSpec(0.8, top_p=0.9)


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path)


def saved(store: ModelStore, sampling: SamplingSpec = GREEDY, places: int = 60) -> acceptance.Acceptance:
    found = acceptance.learnt(PAIR, sampling, PROMPTS, alike(0, places))
    acceptance.save(store, found)
    return found


def test_what_is_saved_is_found(store: ModelStore) -> None:
    found = saved(store)
    assert acceptance.load(store, PAIR, GREEDY) == found
    assert found.edges.weights != EdgeCalibration.weights
    assert found.prompts == tuple(sorted(map(acceptance.prompt_hash, PROMPTS)))
    assert found.fit.places == 60


@pytest.mark.parametrize("pair", [replace(PAIR, target_pack="x" * 64), replace(PAIR, draft_pack="x" * 64)])
def test_another_pair_has_none(store: ModelStore, pair: Pair) -> None:
    saved(store)
    assert acceptance.load(store, pair, GREEDY) is None


def test_another_engine_has_none(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(store)
    monkeypatch.setattr(acceptance, "ENGINE_VERSION", "9.9")
    assert acceptance.load(store, PAIR, GREEDY) is None


def test_sampling_counts_and_its_seed_does_not(store: ModelStore) -> None:
    found = saved(store, WARM)
    assert acceptance.load(store, PAIR, replace(WARM, seed=5)) == found
    assert acceptance.load(store, PAIR, GREEDY) is None


def test_learning_again_replaces_and_says_so_in_the_key(store: ModelStore) -> None:
    first, second = saved(store), saved(store, places=90)
    assert acceptance.load(store, PAIR, GREEDY) == second
    assert first.edges.key != second.edges.key


def test_where_the_fit_is_no_better_the_prior_stays() -> None:
    one_prompt = acceptance.learnt(PAIR, GREEDY, PROMPTS, drawn([-2, 0.4, 0, 0, 0], 50, requests=1))
    assert one_prompt.edges.weights == EdgeCalibration.weights
    assert not one_prompt.fit.better
    assert one_prompt.prompts == (acceptance.prompt_hash(PROMPTS[0]),)


def test_a_broken_record_is_named(store: ModelStore) -> None:
    saved(store)
    (file,) = (store.root / "calibrations").iterdir()
    file.write_text("{")
    with pytest.raises(ModelError, match=file.name) as error:
        acceptance.load(store, PAIR, GREEDY)
    assert "lever calibrate p" in error.value.remedy


def test_a_record_of_another_pair_under_this_one_s_name_is_refused(store: ModelStore) -> None:
    saved(store)
    (file,) = (store.root / "calibrations").iterdir()
    record = json.loads(file.read_text())
    record["edges"]["draft_pack"] = "e" * 64
    file.write_text(json.dumps(record))
    with pytest.raises(ModelError, match="eeee"):
        acceptance.load(store, PAIR, GREEDY)
