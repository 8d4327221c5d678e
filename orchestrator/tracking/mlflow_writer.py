"""The one writer of MLflow runs: a flat run per trial, one for the sweep, in the experiment named as the sweep.

Every write may come twice (a crash between it and `outbox_done`): runs are found by the registry's run id or by their
tags before one is made, params are written once, a metric keeps its time and step. The package is imported on first
use, which takes seconds.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

from orchestrator import ratio_view, table, table_view
from orchestrator.entities import Sweep, Trial, TrialState
from orchestrator.errors import RegistryError, TrackingError, UnknownName
from orchestrator.ratios import ratios
from orchestrator.registry.contract import Registry
from orchestrator.settings import Settings
from orchestrator.tracking import artifacts, run_data
from orchestrator.tracking.contract import Tracker
from orchestrator.tracking.delivery import Delivery

# Defaults retry a dead server for minutes and send usage data; what the user sets wins.
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
BATCH_PARAMS, BATCH_METRICS = 100, 800  # a call takes 100 params, 100 tags, 1000 metrics, and 1000 of all
Items: TypeAlias = Sequence[Any]
STATUS = {TrialState.DONE: "FINISHED", TrialState.FAILED: "FAILED", TrialState.CANCELLED: "KILLED"}
RESERVED = "Default"  # MLflow's own experiment
ARTIFACT_ROOT = "_MLFLOW_SERVER_ARTIFACT_ROOT"


def open_tracker(settings: Settings) -> Tracker:
    """MLflow at `settings.tracking_uri`; cheap, nothing is opened yet."""
    return Delivery(MlflowSink(settings.tracking_uri, settings.home / "artifacts"))


class MlflowSink:
    """Writes to a tracking URI; `root` takes the artifacts unless a server says where they go."""

    def __init__(self, uri: str, root: Path) -> None:
        self._uri, self._root = uri, root
        self._client: Any = None

    def reachable(self) -> bool:
        try:
            with _translated("MLflow"):
                self._open().search_experiments(max_results=1)
        except TrackingError:
            return False
        return True

    def close(self) -> None:
        """Let go of the store's connections."""
        store = getattr(getattr(self._client, "_tracking_client", None), "store", None)
        if engine := getattr(store, "engine", None):
            engine.dispose()
        self._client = None

    def write_trial(self, registry: Registry, sweep: Sweep, trial: Trial) -> None:
        with _translated(f"trial {trial.spec.trial_id}"):
            self._write_trial(registry, sweep, trial)

    def write_sweep(self, registry: Registry, sweep: Sweep) -> None:
        with _translated(f"sweep {sweep.name}"):
            self._write_sweep(registry, sweep)

    def _write_trial(self, registry: Registry, sweep: Sweep, trial: Trial) -> None:
        device = _device(registry, trial)
        row, attempts = table.row(trial, device), registry.attempts(trial.spec.trial_id)
        tags = run_data.trial_tags(sweep, trial, row, device)
        start_ms, end_ms = run_data.span_ms(attempts)
        name = f"{tags['phone'] or 'any'} {row.strategy}" + (f" #{row.repeat}" if row.repeat else "")
        run = self._run(registry, sweep, trial.spec.trial_id, name, start_ms)
        step = attempts[-1].number if attempts else 0
        metrics = self._new_metrics(run, run_data.metrics(row), end_ms, step)
        self._log(run, _new_params(run, run_data.params(trial.spec.config)), metrics, _new_tags(run, tags))
        for key in run_data.FAILURE_TAGS:
            if key in run.data.tags and key not in tags:
                self._open().delete_tag(run.info.run_id, key)
        with tempfile.TemporaryDirectory() as folder:
            artifacts.write_trial(Path(folder), trial, _traces(registry, trial.spec.trial_id), attempts)
            self._open().log_artifacts(run.info.run_id, folder)
        self._open().set_terminated(run.info.run_id, STATUS[trial.state], end_ms)

    def _write_sweep(self, registry: Registry, sweep: Sweep) -> None:
        trials = registry.trials(sweep.sweep_id)
        rows = table.rows(trials, registry.devices())
        start_ms = int(sweep.created_at.timestamp() * 1000) if sweep.created_at else 0
        run = self._run(registry, sweep, None, f"sweep {sweep.name}", start_ms)
        speedups = run_data.ratio_tags(ratio_view.cells(ratios(trials), rows))
        self._log(run, tags=_new_tags(run, run_data.sweep_tags(sweep, table_view.summary(rows)) | speedups))
        with tempfile.TemporaryDirectory() as folder:
            artifacts.write_sweep(Path(folder), sweep, rows)
            self._open().log_artifacts(run.info.run_id, folder)
        states = {t.state for t in trials}
        if states & {TrialState.WAITING, TrialState.RUNNING}:
            self._open().update_run(run.info.run_id, status="RUNNING")
        else:
            ends = [run_data.span_ms(registry.attempts(t.spec.trial_id))[1] for t in trials]
            status = "FAILED" if TrialState.FAILED in states else "FINISHED"
            self._open().set_terminated(run.info.run_id, status, max(ends, default=start_ms))

    def _run(self, registry: Registry, sweep: Sweep, trial_id: str | None, name: str, start_ms: int) -> Any:
        experiment_id = self._experiment(sweep)
        run = self._find(registry, sweep.sweep_id, trial_id, experiment_id)
        if run is None:
            tags = {"kind": "trial" if trial_id else "sweep", "sweep_id": sweep.sweep_id, "trial": trial_id or ""}
            run = self._open().create_run(experiment_id, start_ms, {k: v for k, v in tags.items() if v}, name)
        elif run.info.lifecycle_stage == "deleted":
            self._open().restore_run(run.info.run_id)
        registry.set_tracking_run_id(sweep.sweep_id, trial_id, run.info.run_id)
        return run

    def _find(self, registry: Registry, sweep_id: str, trial_id: str | None, experiment_id: str) -> Any:
        from mlflow.entities import ViewType
        from mlflow.exceptions import MlflowException

        if known := registry.tracking_run_id(sweep_id, trial_id):
            try:
                run = self._open().get_run(known)
            except MlflowException as error:
                if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                    raise
            else:
                if run.info.experiment_id == experiment_id:
                    return run
        query = f"tags.trial = '{trial_id}'" if trial_id else "tags.kind = 'sweep'"
        order = ["attributes.start_time ASC"]
        return next(iter(self._open().search_runs([experiment_id], query, ViewType.ALL, 1, order)), None)

    def _experiment(self, sweep: Sweep) -> str:
        name = f"{RESERVED} (sweep)" if sweep.name == RESERVED else sweep.name
        found = self._open().get_experiment_by_name(name)
        if found is None:
            location = None if self._remote else (self._root / sweep.sweep_id).as_uri()
            created: str = self._open().create_experiment(name, location, {"sweep_id": sweep.sweep_id})
            return created
        if found.lifecycle_stage == "deleted":
            self._open().restore_experiment(found.experiment_id)
        experiment_id: str = found.experiment_id
        return experiment_id

    def _log(self, run: Any, params: Items = (), metrics: Items = (), tags: Items = ()) -> None:
        """Together, for each call costs MLflow some ten statements."""
        parts = (
            run_data.chunks(params, BATCH_PARAMS),
            run_data.chunks(metrics, BATCH_METRICS),
            run_data.chunks(tags, BATCH_PARAMS),
        )
        for some_params, some_metrics, some_tags in zip_longest(*parts, fillvalue=()):
            self._open().log_batch(run.info.run_id, some_metrics, some_params, some_tags)

    def _new_metrics(self, run: Any, metrics: Mapping[str, float], at_ms: int, step: int) -> list[Any]:
        """A figure that is there already is left alone; one that changed is a later point, else MLflow would show the
        larger of the two."""
        from mlflow.entities import Metric

        known = run.data.metrics
        return [
            Metric(k, v, self._after(run, k) if k in known else at_ms, step)
            for k, v in metrics.items()
            if known.get(k) != v
        ]

    def _after(self, run: Any, key: str) -> int:
        return 1 + max(int(m.timestamp) for m in self._open().get_metric_history(run.info.run_id, key))

    def _open(self) -> Any:
        if self._client is None:
            for name, value in ENVIRONMENT.items():
                os.environ.setdefault(name, value)
            from mlflow import MlflowClient

            logging.getLogger("alembic").setLevel(logging.WARNING)
            self._client = self._connected(MlflowClient)
        return self._client

    @property
    def _remote(self) -> bool:
        return self._uri.startswith(("http://", "https://"))

    def _connected(self, make: Any) -> Any:
        """A new store is made with an experiment of MLflow's own, whose artifacts would go to the working folder."""
        if self._remote:
            return make(tracking_uri=self._uri)
        os.environ[ARTIFACT_ROOT] = self._root.as_uri()
        try:
            return make(tracking_uri=self._uri)
        finally:
            del os.environ[ARTIFACT_ROOT]  # MLflow takes a process that has it for a server


def _new_params(run: Any, params: Mapping[str, str]) -> list[Any]:
    """MLflow refuses to change a param, and the first is what ran."""
    from mlflow.entities import Param

    return [Param(k, v) for k, v in params.items() if k not in run.data.params]


def _new_tags(run: Any, tags: Mapping[str, str]) -> list[Any]:
    from mlflow.entities import RunTag

    return [RunTag(k, v) for k, v in tags.items() if run.data.tags.get(k) != v]


def _traces(registry: Registry, trial_id: str) -> artifacts.Traces:
    return artifacts.Traces(registry.rounds_jsonl(trial_id), registry.nodes_packed(trial_id))


def _device(registry: Registry, trial: Trial) -> Any:
    try:
        return registry.device(trial.device or trial.spec.device or "")
    except UnknownName:
        return None


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """MLflow lets its database's, its web client's and the disk's exceptions through: all of them end here."""
    try:
        yield
    except RegistryError:
        raise
    except Exception as error:
        raise TrackingError(f"{what}: {type(error).__name__}: {error}") from error
