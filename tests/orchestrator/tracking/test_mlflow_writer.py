from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from orchestrator.entities import Sweep, TrialSpec, TrialState
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.tracking.delivery import Delivery
from orchestrator.tracking.mlflow_writer import ARTIFACT_ROOT, MlflowSink
from tests.fakes import farms, mlflow_store
from tests.fakes import trials as fake

METRICS = {"tpot_s": 0.5, "ttft_s": 1.5, "energy_j_per_token": 0.8, "acceptance_length": 4.5, "bad": float("inf")}


@pytest.fixture
def client(sink: MlflowSink) -> Any:
    return mlflow_store.client(sink._uri)


def ran(*specs: TrialSpec) -> tuple[MemoryRegistry, Sweep]:
    registry = farms.farm()
    sweep = farms.submit(registry, "speedy", specs)
    for spec in specs:
        farms.finish(registry, spec, METRICS)
    return registry, sweep


def runs(client: Any, name: str = "speedy") -> dict[str, Any]:
    experiment = client.get_experiment_by_name(name)
    found = client.search_runs([experiment.experiment_id])
    by_trial = {r.data.tags.get("trial", r.data.tags["kind"]): r for r in found}
    assert len(by_trial) == len(found), "a trial has two runs"
    return by_trial


def artifact(run: Any, name: str) -> Path:
    return Path(run.info.artifact_uri.removeprefix("file://")) / name


def state(client: Any) -> dict[str, Any]:
    """All that a second logging must not change."""
    return {
        trial: (
            run.info.run_id,
            run.info.status,
            run.info.start_time,
            run.info.end_time,
            run.data.params,
            run.data.tags,
            {m: [(p.value, p.timestamp, p.step) for p in history(client, run, m)] for m in run.data.metrics},
            sorted(f.path for f in client.list_artifacts(run.info.run_id)),
        )
        for trial, run in runs(client).items()
    }


def history(client: Any, run: Any, metric: str) -> list[Any]:
    points: list[Any] = client.get_metric_history(run.info.run_id, metric)
    return points


def test_a_trial_becomes_a_flat_run_with_all_that_is_known(sink: MlflowSink, client: Any) -> None:
    registry, _ = ran(fake.spec("a", strategy="autoregressive"), fake.spec("c"))
    Delivery(sink).drain(registry)
    found = runs(client)
    run = found["c"]
    assert set(found) == {"a", "c", "sweep"}
    assert run.info.status == "FINISHED"
    assert run.data.params["engine.strategy"] == "chain"
    assert run.data.params["workload.prompts"] == '[{"id": "a"}]'
    assert run.data.metrics["energy_j_per_token"] == 0.8
    assert run.data.metrics["attempt_wall_s"] == 12.5
    assert "bad" not in run.data.metrics
    expected = {
        "sweep": "speedy",
        "trial": "c",
        "phone": "oneplus12",
        "soc": "SM8650",
        "pair": "qwen-coder",
        "strategy": "chain",
        "storage": "flash",
        "verdict": "valid",
        "simulated": "virtual-phone,battery",
        "runtime": "host-python",
        "energy_method": "model",
        "io_mode": "direct",
        "flash_cap_mb_s": "500",
        "attempt": registry.trial("c").attempt_id,
    }
    assert expected.items() <= run.data.tags.items()
    assert "mlflow.parentRunId" not in run.data.tags


def test_artifacts(sink: MlflowSink, client: Any) -> None:
    registry, _ = ran(fake.spec("c"))
    Delivery(sink).drain(registry)
    run, sweep = runs(client)["c"], runs(client)["sweep"]
    assert yaml.safe_load(artifact(run, "config.yaml").read_text()) == registry.trial("c").spec.config
    assert json.loads(artifact(run, "result.json").read_text())["metrics"]["ttft_s"] == 1.5
    rounds = pq.read_table(artifact(run, "rounds.parquet"))
    assert rounds.num_rows == 3
    assert str(rounds.schema.field("read_bytes").type) == "int64"
    assert str(rounds.schema.field("round_s").type) == "double"
    nodes = pq.read_table(artifact(run, "nodes.parquet"))
    assert nodes.column("token").to_pylist() == [5, 7, 8]
    assert nodes.column("target_top").to_pylist()[0] == [{"token": 7, "prob": 0.75}, {"token": 9, "prob": 0.125}]
    assert nodes.column("draft_prob").to_pylist() == [None, 0.5, 0.25]
    assert nodes.column("accepted").to_pylist() == [True, True, False]
    assert sweep.data.tags["trials"] == "1 done"
    assert json.loads(artifact(sweep, "sweep.json").read_text())["record"]["git_revision"] == "abc"
    assert "qwen-coder" in artifact(sweep, "table.csv").read_text()
    assert "oneplus12 (virtual)" in artifact(sweep, "table.html").read_text()


def test_twice_logged_is_once_logged(sink: MlflowSink, client: Any) -> None:
    registry, sweep = ran(fake.spec("a", strategy="autoregressive"), fake.spec("c"))
    Delivery(sink).drain(registry)
    once = state(client)
    for trial in registry.trials(sweep.sweep_id):
        sink.write_trial(registry, sweep, trial)
    sink.write_sweep(registry, sweep)
    assert state(client) == once


def test_a_run_is_found_again_when_the_registry_forgot_its_id(
    sink: MlflowSink, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, sweep = ran(fake.spec("c"))
    monkeypatch.setattr(registry, "tracking_run_id", lambda *_: None)  # a crash before it was stored
    sink.write_trial(registry, sweep, registry.trial("c"))
    sink.write_sweep(registry, sweep)
    once = state(client)
    sink.write_trial(registry, sweep, registry.trial("c"))
    sink.write_sweep(registry, sweep)
    assert state(client) == once


def test_a_store_that_was_thrown_away_is_filled_anew(sink: MlflowSink, client: Any) -> None:
    registry, sweep = ran(fake.spec("c"))
    registry.set_tracking_run_id(sweep.sweep_id, "c", "0" * 32)
    Delivery(sink).drain(registry)
    assert registry.tracking_run_id(sweep.sweep_id, "c") == runs(client)["c"].info.run_id


def test_figures_known_only_later_join_the_same_run(sink: MlflowSink, client: Any) -> None:
    registry, _ = ran(fake.spec("c"))
    delivery = Delivery(sink)
    delivery.drain(registry)
    for speedup in (3.0, 2.0):  # a better reference may lower it: the last word counts, not the largest
        registry.set_derived("c", {"speedup_over_autoregressive": speedup}, {"exactness": "DIVERGED@2"})
        delivery.drain(registry)
    run = runs(client)["c"]
    assert run.data.metrics["speedup_over_autoregressive"] == 2.0
    assert [p.value for p in history(client, run, "tpot_s")] == [0.5]
    assert run.data.tags["verdict"] == "void:diverged"


def test_a_failed_trial_is_a_failed_run_until_it_succeeds(sink: MlflowSink, client: Any) -> None:
    registry, spec = farms.farm(), fake.spec("c")
    farms.submit(registry, "speedy", [spec])
    farms.fail(registry, spec)
    delivery = Delivery(sink)
    delivery.drain(registry)
    run = runs(client)["c"]
    assert (run.info.status, run.data.tags["failure_kind"]) == ("FAILED", "disk_full")
    assert artifact(run, "log_tail.txt").read_text() == "last words"
    assert runs(client)["sweep"].info.status == "FAILED"
    farms.submit(registry, "speedy", [spec])
    farms.finish(registry, spec, METRICS)
    delivery.drain(registry)
    again = runs(client)["c"]
    assert (again.info.run_id, again.info.status) == (run.info.run_id, "FINISHED")
    assert "failure_kind" not in again.data.tags
    assert history(client, again, "tpot_s")[0].step == 2
    assert runs(client)["sweep"].info.status == "FINISHED"


def test_a_changed_configuration_never_raises(sink: MlflowSink, client: Any) -> None:
    spec = fake.spec("c")
    registry, sweep = ran(spec)
    sink.write_trial(registry, sweep, registry.trial("c"))
    spec.config["engine"]["threads"] = 4
    spec.config["new"] = "x" * 10_000
    sink.write_trial(registry, sweep, registry.trial("c"))
    params = runs(client)["c"].data.params
    assert params["engine.threads"] == "2"
    assert len(params["new"]) == 500


def test_many_params_and_odd_names_fit_mlflow(sink: MlflowSink, client: Any) -> None:
    spec = fake.spec("c")
    spec.config["many"] = {f"key {i} é/../{i}": i for i in range(250)}
    registry = farms.farm()
    sweep = farms.submit(registry, "speedy", [spec])
    tags = {"void.energy/<b>": "n" * 9000, "mlflow.runName": "spoofed", "..": "x"}
    farms.finish(registry, spec, {"odd name: ü%": 1.0}, tags=tags)
    sink.write_trial(registry, sweep, registry.trial("c"))
    run = runs(client)["c"]
    assert len(run.data.params) > 250
    assert run.info.run_name == "oneplus12 chain k=5"
    assert run.data.metrics["odd_name____"] == 1.0


def test_a_sweep_deleted_in_the_ui_comes_back_when_its_trials_are_logged(sink: MlflowSink, client: Any) -> None:
    registry, sweep = ran(fake.spec("c"))
    sink.write_trial(registry, sweep, registry.trial("c"))
    run = runs(client)["c"]
    client.delete_run(run.info.run_id)
    client.delete_experiment(run.info.experiment_id)
    sink.write_trial(registry, sweep, registry.trial("c"))
    assert runs(client)["c"].info.run_id == run.info.run_id


def test_a_sweep_named_as_mlflows_own_experiment_keeps_its_artifacts_at_home(
    sink: MlflowSink, client: Any, tmp_path: Path
) -> None:
    registry = farms.farm()
    sweep = farms.submit(registry, "Default", [])
    sink.write_sweep(registry, sweep)
    assert artifact(runs(client, "Default (sweep)")["sweep"], "sweep.json").is_relative_to(tmp_path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # MLflow's own, of making a store
def test_a_new_store_keeps_mlflows_own_experiment_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    new = MlflowSink(f"sqlite:///{tmp_path / 'new.db'}", tmp_path / "artifacts")
    assert new.reachable()
    location = new._open().get_experiment_by_name("Default").artifact_location
    new.close()
    assert location == f"{(tmp_path / 'artifacts').as_uri()}/0"
    assert ARTIFACT_ROOT not in os.environ


def test_a_dead_server_is_an_outage_and_loses_nothing(tmp_path: Path) -> None:
    registry, _ = ran(fake.spec("c"))
    sink = MlflowSink("http://127.0.0.1:9", tmp_path)  # the discard port: nothing answers
    owed = registry.outbox(100)
    assert Delivery(sink).drain(registry) == 0
    assert registry.outbox(100) == owed
    assert [e.kind for e in registry.events()][-1] == "tracking_unreachable"
    assert registry.trial("c").state is TrialState.DONE
