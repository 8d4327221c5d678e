"""The whole way: command line, controller, two virtual phones, a cable cut, results in registry and MLflow."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from device_agent.virtual.ask import ask
from orchestrator.entities import TrialState
from orchestrator.farm import virtual_phones
from tests.fakes import mlflow_store
from tests.fakes.live_farm import STREAMED, SWEEP, LiveFarm, decoding, output, until

PHONES = ("oneplus12", "pixel8")


@pytest.fixture(scope="module")
def farm() -> Iterator[LiveFarm]:
    with tempfile.TemporaryDirectory(prefix="lever-e2e-") as home:
        farm = LiveFarm(Path(home))
        farm.prepare(*PHONES)
        yield farm
        for phone in PHONES:
            virtual_phones.stop(farm.settings, phone)


@pytest.fixture(scope="module")
def said(farm: LiveFarm) -> str:
    """What the sweep printed; every connection of the phone at work was cut in the middle of its first attempt."""
    sweep = farm.start(*SWEEP, *STREAMED, "sweep=e2e", "runtime=inline")
    with farm.registry() as registry:
        event = until(lambda: decoding(registry), "an attempt that decodes")
        assert event.device
        assert ask(farm.settings.phones / event.device, "cut") == (0, "")
    return output(sweep)


def test_registry_has_every_trial_done_in_one_attempt(farm: LiveFarm, said: str) -> None:
    with farm.registry() as registry:
        trials = registry.trials(registry.sweep("e2e").sweep_id)
        assert [t.state for t in trials] == [TrialState.DONE] * 4, said
        assert {(t.device, t.spec.labels["strategy"]) for t in trials} == {
            (phone, strategy) for phone in PHONES for strategy in ("autoregressive", "chain")
        }
        assert [t.attempts for t in trials] == [1, 1, 1, 1]  # re-attached, never rerun
        kinds = [e.data.get("kind") for e in registry.events(limit=100_000) if e.kind == "progress"]
        assert kinds.count("connection_lost") == 1
        assert kinds.count("reattached") == 1
        assert registry.running() == []
        assert registry.outbox(10) == []


def test_results_are_whole_and_exact(farm: LiveFarm, said: str) -> None:
    found = {(t["phone"].split()[0], t["strategy"]): t for t in results(farm)}
    for (phone, strategy), trial in found.items():
        assert trial["exactness"].startswith(("exact", "tie")), trial
        assert trial["output_tokens"] > 0
        assert trial["ttft_s"] > 0
        assert trial["energy_j_per_token"] > 0
        assert trial["acceptance_length"] >= 1
        if strategy == "chain":
            plain = found[phone, "autoregressive"]
            assert trial["speedup_over_autoregressive"] == pytest.approx(plain["tpot_s"] / trial["tpot_s"], rel=1e-6)
            assert trial["block_efficiency"] > 1


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")  # MLflow uses what SQLAlchemy is about to drop
def test_mlflow_has_one_run_each_and_one_for_the_sweep(farm: LiveFarm, said: str) -> None:
    client = mlflow_store.client(farm.settings.tracking_uri)
    experiment = client.get_experiment_by_name("e2e")
    runs = client.search_runs([experiment.experiment_id])
    trials = {run.data.tags["trial"]: run for run in runs if run.data.tags["kind"] == "trial"}
    assert len(trials) == 4
    assert [run.data.tags["kind"] for run in runs].count("sweep") == 1
    for shown in results(farm):
        run = trials[shown["trial"]]
        assert run.info.status == "FINISHED"
        for key in ("tpot_s", "acceptance_length", "energy_j_per_token"):
            assert run.data.metrics[key] == pytest.approx(shown[key]), key
            assert len(client.get_metric_history(run.info.run_id, key)) == 1
        files = [artifact.path for artifact in client.list_artifacts(run.info.run_id)]
        assert any(path.endswith(".parquet") for path in files), files


def test_the_same_sweep_again_runs_nothing(farm: LiveFarm, said: str) -> None:
    again = farm.lever(*SWEEP, *STREAMED, "sweep=e2e", "runtime=inline")
    assert "nothing to run" in again
    with farm.registry() as registry:
        assert [t.attempts for t in registry.trials(registry.sweep("e2e").sweep_id)] == [1, 1, 1, 1]


def results(farm: LiveFarm) -> list[dict[str, Any]]:
    trials: list[dict[str, Any]] = json.loads(farm.lever("results", "e2e", "--json"))["trials"]
    return trials
