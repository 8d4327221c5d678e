"""Sweeps as MLflow's own server holds them: read through its store, no second connection, any database."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from orchestrator.table import Row
from orchestrator.tracking.run_data import RATIOS

PAGE = 1000  # runs a request
LABELS = {f.name for f in fields(Row)} - {"metrics", "tags", "repeat", "phone", "strategy", "storage"}


@dataclass(frozen=True)
class Trial:
    """A row and the address of its run in MLflow's UI, relative to the server."""

    row: Row
    href: str


@dataclass(frozen=True)
class SweepPage:
    name: str
    href: str
    started: datetime | None
    unfinished: bool
    summary: str  # what the tracker said last, e.g. "3 done, 1 running"
    overrides: tuple[str, ...]  # of all its jobs, each once
    trials: tuple[Trial, ...]
    ratios: tuple[tuple[str, ...], ...] = ()  # lines of ratio_view, under its HEADINGS


def sweep_names() -> list[str]:
    """Experiments that a tracker of ours made, newest first."""
    return [e.name for e in _experiments()]


def load(name: str) -> SweepPage | None:
    """None when there is no such sweep."""
    experiment = next((e for e in _experiments() if e.name == name), None)
    if experiment is None:
        return None
    runs = _runs(experiment.experiment_id)
    trials = [Trial(_row(r), _href(r)) for r in runs if r.data.tags.get("kind") == "trial"]
    own = next((r for r in runs if r.data.tags.get("kind") == "sweep"), None)
    tags = own.data.tags if own else {}
    start_ms = min((r.info.start_time for r in runs if r.info.start_time), default=None)
    return SweepPage(
        name=experiment.name,
        href=f"/#/experiments/{quote(experiment.experiment_id)}",
        started=datetime.fromtimestamp(start_ms / 1000, UTC) if start_ms else None,
        unfinished=own is not None and own.info.status == "RUNNING",
        summary=tags.get("trials", ""),
        overrides=_overrides(tags.get("overrides", "")),
        trials=tuple(trials),
        ratios=_ratios(tags),
    )


def _ratios(tags: dict[str, str]) -> tuple[tuple[str, ...], ...]:
    """As the writer split them over tags; one that was cut is left out."""
    found: list[tuple[str, ...]] = []
    number = 0
    while (text := tags.get(f"{RATIOS}{number}")) is not None:
        with suppress(ValueError):
            found += [tuple(map(str, line)) for line in json.loads(text)]
        number += 1
    return tuple(found)


def _overrides(text: str) -> tuple[str, ...]:
    """From the tag's JSON, a list for each job; as it is when a long one was cut."""
    try:
        jobs = json.loads(text)
    except ValueError:
        return (text,) if text else ()
    return tuple(dict.fromkeys(str(o) for job in jobs for o in (job if isinstance(job, list) else [job])))


def _experiments() -> list[Any]:
    found, token = [], None
    while True:
        page = _store().search_experiments(
            max_results=PAGE, filter_string="tags.sweep_id LIKE '%'", order_by=["creation_time DESC"], page_token=token
        )
        found += list(page)
        token = page.token
        if not token:
            return found


def _runs(experiment_id: str) -> list[Any]:
    from mlflow.entities import ViewType

    found, token = [], None
    while True:
        page = _store().search_runs(
            [experiment_id], "", ViewType.ACTIVE_ONLY, PAGE, ["attributes.start_time ASC"], token
        )
        found += list(page)
        token = page.token
        if not token:
            return found


def _row(run: Any) -> Row:
    """The row that the writer's tags came from."""
    tags = dict(run.data.tags)
    return Row(
        **{name: tags.get(name, "") for name in LABELS},
        phone=tags.get("phone_label", ""),
        strategy=tags.get("strategy_label", ""),
        storage=tags.get("storage_label", ""),
        repeat=int(repeat) if (repeat := tags.get("repeat", "")).isdigit() else 0,
        metrics={k: v for k, v in run.data.metrics.items() if math.isfinite(v)},
        tags=tags,
    )


def _href(run: Any) -> str:
    return f"/#/experiments/{quote(run.info.experiment_id)}/runs/{quote(run.info.run_id)}"


def _store() -> Any:
    from mlflow.server.handlers import _get_tracking_store

    return _get_tracking_store()
