from dataclasses import replace

import pytest

from benchmarks.cell import job, job_key
from benchmarks.prompts import PromptSet
from device_agent.protocol import EngineSpec, JobSpec, PromptSpec, StorageSpec
from orchestrator.models.store import Pair
from tests.fakes.measured import measured, request

PAIR = Pair("p", "target", "draft", "t", "d", (0,))
SPEC = job(PAIR, EngineSpec(), True, PromptSet("set", (PromptSpec("a", (1, 2)),)), 8)


@pytest.mark.parametrize(
    "other",
    [
        replace(SPEC, target_pack="another"),
        replace(SPEC, draft_pack=None),
        replace(SPEC, max_new_tokens=9),
        replace(SPEC, prompts=(PromptSpec("a", (1, 3)),)),
        replace(SPEC, engine=EngineSpec(storage=StorageSpec(prefetch=True))),
    ],
)
def test_whatever_may_change_a_measurement_changes_its_key(other: JobSpec) -> None:
    assert job_key(other) != job_key(SPEC)


def test_where_and_under_what_name_it_runs_does_not() -> None:
    assert job_key(replace(SPEC, attempt_id="x", trial_id="y", packs_dir="/elsewhere")) == job_key(SPEC)


def test_another_engine_measures_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = job_key(SPEC)
    monkeypatch.setattr("benchmarks.cell.ENGINE_VERSION", "99")
    assert job_key(SPEC) != before


def test_seconds_a_token_weigh_prompts_by_their_tokens() -> None:
    cell = measured()
    requests = (request(1.0, 11), request(4.0, 2), request(None, 1))
    assert replace(cell, result=replace(cell.result, requests=requests)).tpot_s == pytest.approx(14 / 11)
