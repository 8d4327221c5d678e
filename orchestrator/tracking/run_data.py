"""What a trial's run says, within MLflow's limits on names and lengths. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from orchestrator.entities import Attempt, Device, Sweep, Trial, TrialState
from orchestrator.table import Row

T = TypeVar("T")
KEY_LENGTH, PARAM_LENGTH, TAG_LENGTH = 250, 500, 5000
RATIOS, RATIOS_A_TAG = "ratios.", 10  # lines of some 200 characters
FAILURE_TAGS = ("failure_kind", "failure_message")


def params(config: Mapping[str, Any]) -> dict[str, str]:
    """The resolved configuration, flattened with dots; a list is one value, as JSON. Long values are cut: all of it is
    in the artifact config.yaml."""
    return {_key(k): _cut(v, PARAM_LENGTH) for k, v in _flatten(config, "")}


def metrics(row: Row) -> dict[str, float]:
    """Finite ones only: MLflow turns infinity into a number."""
    return {_key(k): float(v) for k, v in row.metrics.items() if math.isfinite(v)}


def trial_tags(sweep: Sweep, trial: Trial, row: Row, device: Device | None) -> dict[str, str]:
    """The agent's tags, and ours over them: a phone cannot rename a run."""
    labels = {
        "kind": "trial",
        "sweep": sweep.name,
        "sweep_id": sweep.sweep_id,
        "trial": row.trial,
        "attempt": row.attempt,
        "state": row.state,
        "phone": trial.device or trial.spec.device or "",
        "phone_label": row.phone,
        "soc": str(device.facts.get("soc", "")) if device else "",
        "runtime": str(device.facts.get("runtime", "")) if device else "",
        "pair": row.pair,
        "strategy": trial.spec.labels.get("strategy", ""),
        "strategy_label": row.strategy,
        "storage": trial.spec.labels.get("storage", ""),
        "storage_label": row.storage,
        "workload": row.workload,
        "overrides": row.overrides,
        "repeat": str(row.repeat),
        "target_pack": str(trial.spec.job.get("target_pack", "")),
        "draft_pack": str(trial.spec.job.get("draft_pack") or ""),
        "failure_kind": row.failure_kind if trial.state is TrialState.FAILED else "",
        "failure_message": row.failure_message if trial.state is TrialState.FAILED else "",
    }
    return _tags(row.tags, labels)


def sweep_tags(sweep: Sweep, summary: str) -> dict[str, str]:
    labels = {"kind": "sweep", "sweep": sweep.name, "sweep_id": sweep.sweep_id, "trials": summary}
    return _tags(dict(_flatten(sweep.record, "")), labels)


def ratio_tags(cells: Sequence[Sequence[str]]) -> dict[str, str]:
    """Lines of ratio_view as JSON, a few in each of the tags ratios.0, ratios.1 …"""
    some = enumerate(chunks(cells, RATIOS_A_TAG))
    return {f"{RATIOS}{i}": json.dumps(lines, ensure_ascii=False) for i, lines in some}


def span_ms(attempts: Sequence[Attempt]) -> tuple[int, int]:
    """Start of the first attempt and end of the last, unix ms: fixed, so that logging again adds no second point."""
    starts = [a.started_at.timestamp() for a in attempts if a.started_at]
    ends = [a.ended_at.timestamp() for a in attempts if a.ended_at]
    start = min(starts, default=min(ends, default=0.0))
    return int(start * 1000), int(max(ends, default=start) * 1000)


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk


def _tags(given: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """`mlflow.…` tags steer MLflow's UI and are not for others to set."""
    tags = {k: v for name, v in given.items() if not (k := _key(name)).startswith("mlflow.")} | dict(ours)
    return {k: _cut(v, TAG_LENGTH) for k, v in tags.items() if v}


def _flatten(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flatten(inner, f"{path}.{name}" if path else str(name))
    elif path:
        yield path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _key(name: str) -> str:
    """A name that MLflow takes and that cannot walk out of a folder."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name).strip(".")
    return plain[:KEY_LENGTH] or "_"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
