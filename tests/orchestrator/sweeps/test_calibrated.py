"""What was learnt of a pair's acceptance reaches lever's trials by itself, is part of them, and bars its prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from device_agent.protocol import (
    EdgeCalibration,
    JobSpec,
    LayerPredictor,
    PredictorCalibration,
    PromptSpec,
    PruningSpec,
    SamplingSpec,
    from_json,
)
from orchestrator.entities import TrialSpec
from orchestrator.errors import ConfigError
from orchestrator.models.acceptance import Acceptance, prompt_hash
from orchestrator.models.edge_fit import EdgeFit, Score
from orchestrator.models.predictor import PruningReport
from orchestrator.sweeps.expand import Expander
from orchestrator.sweeps.workload import encode_prompts, read_prompts
from tests.fakes.farm import phone
from tests.fakes.jobs import job
from tests.fakes.models import FakeModels, LetterTokenizer

LEVER = {"engine.strategy": "lever"}
FIT = EdgeFit((1.0,) * 5, 100, 0.8, None, Score(0.1, 0.9))


NOTHING = PruningReport(False, "nothing to be gained")
PREDICTOR = PredictorCalibration("p1", (LayerPredictor(14, 16, "", (1.0,) * 6, ()),), "target-hash", "draft-hash")


def learnt(
    key: str = "k1",
    weight: float = 1.0,
    prompts: tuple[PromptSpec, ...] = (),
    predictor: PredictorCalibration | None = None,
) -> Acceptance:
    edges = EdgeCalibration(key, (weight,) * 5, "target-hash", "draft-hash", "0.2.0")
    hashes = tuple(map(prompt_hash, prompts))
    return Acceptance(edges, SamplingSpec(), hashes, FIT, predictor or PredictorCalibration(), NOTHING)


def trial(acceptance: Acceptance | None, changes: Mapping[str, Any] = LEVER) -> TrialSpec:
    models = FakeModels()
    models.learnt = acceptance
    (found,) = Expander(models, [phone()]).expand(job(changes, "job #2"))
    return found


def prompts_of(changes: Mapping[str, Any]) -> tuple[PromptSpec, ...]:
    workload = job(changes).conf.workload
    return encode_prompts(read_prompts(workload), LetterTokenizer(), workload.chat)


def test_lever_gets_what_was_learnt_and_says_so() -> None:
    found = trial(learnt())
    assert from_json(JobSpec, found.job).engine.drafting.edges == learnt().edges
    assert found.labels["calibration"] == "k1"


def test_where_pruning_pays_lever_gets_the_predictor() -> None:
    changes = {**LEVER, "engine.pruning.target_recall": 0.995, "engine.pruning.layers": [14]}
    engine = from_json(JobSpec, trial(learnt(predictor=PREDICTOR), changes).job).engine
    assert engine.pruning == PruningSpec(True, 0.995, (14,), PREDICTOR)
    off = from_json(JobSpec, trial(learnt(predictor=PREDICTOR), {**LEVER, "engine.pruning.enabled": "off"}).job).engine
    assert off.pruning == PruningSpec()
    one, other = trial(learnt(predictor=PREDICTOR), LEVER), trial(learnt(), LEVER)
    assert one.trial_id != other.trial_id
    assert one.labels["baseline_key"] == other.labels["baseline_key"]


@pytest.mark.parametrize("acceptance", [None, learnt()], ids=["nothing learnt", "pruning does not pay"])
def test_where_it_does_not_pay_its_settings_make_no_other_trial(acceptance: Acceptance | None) -> None:
    changed = {**LEVER, "engine.pruning.target_recall": 0.98, "engine.pruning.layers": [3]}
    assert trial(acceptance, changed).trial_id == trial(acceptance, {**LEVER, "engine.pruning.enabled": "off"}).trial_id
    assert from_json(JobSpec, trial(acceptance, changed).job).engine.pruning == PruningSpec()


def test_without_any_it_gets_the_prior_and_says_so() -> None:
    found = trial(None)
    assert from_json(JobSpec, found.job).engine.drafting.edges == EdgeCalibration()
    assert found.labels["calibration"] == "none"


@pytest.mark.parametrize(
    "changes", [{}, {"engine.strategy": "autoregressive"}, {**LEVER, "engine.drafting.enabled": False}]
)
def test_who_does_not_use_it_does_not_depend_on_it(changes: Mapping[str, Any]) -> None:
    assert trial(learnt(), changes) == trial(None, changes)
    assert "calibration" not in trial(learnt(), changes).labels


def test_another_calibration_is_another_trial_against_the_same_baseline() -> None:
    """It decides which trees are drafted: a result under one says nothing of another."""
    one, same, other = (trial(learnt(*args)) for args in (("k1", 1.0), ("k1", 1.0), ("k2", 2.0)))
    assert one.trial_id == same.trial_id != other.trial_id
    assert one.labels["config_key"] != other.labels["config_key"]
    assert one.labels["baseline_key"] == other.labels["baseline_key"] == trial(None).labels["baseline_key"]


def test_prompts_that_it_was_learnt_from_are_refused_whatever_they_are_called() -> None:
    renamed = {**LEVER, "workload.prompts": [{"id": "new", "text": "fresh"}, {"id": "other name", "text": "two"}]}
    known = learnt(prompts=prompts_of({})[1:])
    with pytest.raises(ConfigError, match="job #2: prompt 'other name' is one that calibration k1 of pair 'small'"):
        trial(known, renamed)
    trial(known, {**renamed, "engine.strategy": "chain"})  # nothing learnt is used there


def test_the_bundled_prompts_are_in_no_other_bundled_workload() -> None:
    def texts(name: str) -> set[str | None]:
        from importlib.resources import files

        import yaml

        from orchestrator.schema import WorkloadConf

        conf = yaml.safe_load((files("orchestrator.conf") / f"workload/{name}.yaml").read_text()) | {"limit": None}
        return {prompt.text for prompt in read_prompts(WorkloadConf(**conf))}

    bundled = texts("calibration")
    assert len(bundled) == 24
    assert not bundled & (texts("demo") | texts("humaneval"))
