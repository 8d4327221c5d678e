"""Rows of a sweep: one trial each, with the keys of ENGINE §10 and the labels that say what is virtual, modelled or
capped. Pure; the command line, the tracker's artifacts and the dashboard all show these rows."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.entities import Device, Trial

# Trial metrics in the order of ENGINE §10, names with units.
METRICS = (
    "ttft_s",
    "tpot_s",
    "tokens_per_s",
    "output_tokens",
    "rounds",
    "block_efficiency",
    "acceptance_length",
    "draft_acceptance_rate",
    "nodes_per_round",
    "flash_read_bytes",
    "tokens_per_flash_gb",
    "flash_utilisation",
    "pipeline_efficiency",
    "peak_rss_mb",
    "energy_j_per_token",
    "energy_gross_j_per_token",
    "power_w_mean",
    "temperature_c_start",
    "temperature_c_end",
    "exact_tokens",
    "tie_tokens",
    "diverged_tokens",
    "speedup_over_autoregressive",
    "agent_wall_s",
    "attempt_wall_s",
)
TAGS = ("exactness", "verdict", "energy_method", "io_mode", "flash_cap_mb_s", "accelerator", "simulated")

VIRTUAL = "virtual-phone"  # first in the tag `simulated`; what else of it is simulated follows


@dataclass(frozen=True)
class Row:
    """`phone` is the name with its label, e.g. "oneplus12 (virtual)"; absent metrics are absent, never zero."""

    trial: str
    state: str
    phone: str
    pair: str
    strategy: str
    storage: str
    workload: str = ""
    overrides: str = ""
    repeat: int = 0
    attempt: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    failure_kind: str = ""
    failure_message: str = ""
    reason: str = ""


def rows(trials: Iterable[Trial], devices: Iterable[Device] = ()) -> list[Row]:
    """In the order of `trials`; `devices` tells which phones are virtual."""
    by_name = {d.name: d for d in devices}
    return [row(t, by_name.get(t.device or t.spec.device or "")) for t in trials]


def row(trial: Trial, device: Device | None = None) -> Row:
    labels, result = trial.spec.labels, trial.result or {}
    metrics = dict(result.get("metrics", {}))
    if trial.attempt_wall_s is not None:
        metrics["attempt_wall_s"] = trial.attempt_wall_s
    tags = _tags(result.get("tags", {}), device, done=trial.result is not None)
    return Row(
        trial=trial.spec.trial_id,
        state=str(trial.state),
        phone=phone_label(trial.device or trial.spec.device, tags),
        pair=labels.get("pair", ""),
        strategy=strategy_label(trial),
        storage=storage_label(trial.spec.job, tags),
        workload=labels.get("workload", ""),
        overrides=labels.get("overrides", ""),
        repeat=trial.spec.repeat,
        attempt=trial.attempt_id or "",
        metrics=metrics,
        tags=tags,
        failure_kind=trial.failure_kind or "",
        failure_message=trial.failure_message or "",
        reason=trial.reason,
    )


def verdict(tags: Mapping[str, str]) -> str:
    """`valid`, or `void:<reasons>` from the `void.<quantity>` tags and from a diverged text."""
    reasons = {f"{k.removeprefix('void.')} {v}".strip() for k, v in tags.items() if k.startswith("void.")}
    if tags.get("exactness", "").startswith("DIVERGED"):
        reasons.add("diverged")
    return f"void:{', '.join(sorted(reasons))}" if reasons else "valid"


def phone_label(name: str | None, tags: Mapping[str, str]) -> str:
    return f"{name or 'any'} (virtual)" if VIRTUAL in tags.get("simulated", "") else name or "any"


def strategy_label(trial: Trial) -> str:
    """The strategy and what tunes it: "chain k=5", "static_tree 4-2-1", "prompt_lookup k=10 n=3", "lever energy"."""
    engine = trial.spec.job.get("engine", {})
    parts = [trial.spec.labels.get("strategy") or str(engine.get("strategy", ""))]
    if widths := engine.get("draft_widths"):
        parts.append("-".join(map(str, widths)))
    parts += [f"{letter}={engine[key]}" for letter, key in (("k", "draft_k"), ("n", "draft_ngram")) if engine.get(key)]
    drafting = engine.get("drafting", {})
    if (objective := drafting.get("objective", "latency")) != "latency":
        parts.append(objective)
    if not drafting.get("enabled", True):
        parts.append("drafting off")
    return " ".join(parts)


def storage_label(job: Mapping[str, Any], tags: Mapping[str, str]) -> str:
    """Where the target lives and the bandwidth in force, e.g. "flash, 500 MB/s cap": the lower of cap and profile."""
    storage = job.get("engine", {}).get("storage", {})
    mode = str(storage.get("mode", ""))
    cap, profile = storage.get("flash_bandwidth_mb_s"), job.get("flash_profile_mb_s")
    limits = [limit for limit in (cap, profile, _number(tags.get("flash_cap_mb_s"))) if limit is not None]
    if mode != "flash" or not limits:
        return mode
    return f"flash, {min(limits):g} MB/s {'cap' if cap == min(limits) else 'profile'}"


def record(row: Row) -> dict[str, Any]:
    """One flat JSON-ready object: labels, then the metrics that exist, then the tags."""
    labels: dict[str, Any] = {
        name: getattr(row, name)
        for name in ("trial", "state", "phone", "pair", "strategy", "storage", "workload", "overrides", "repeat")
    }
    failure = {k: v for k in ("attempt", "failure_kind", "failure_message", "reason") if (v := getattr(row, k))}
    known = [m for m in METRICS if m in row.metrics]
    metrics = {m: row.metrics[m] for m in (*known, *sorted(set(row.metrics) - set(METRICS)))}
    return {**labels, **metrics, **row.tags, **failure, **{k: labels[k] for k in labels}}


def to_csv(rows: Sequence[Row]) -> str:
    """One line a trial; the columns of ENGINE §10 are always there, others when a row has them."""
    records = [record(r) for r in rows]
    first = [k for r in records[:1] for k in r if k not in METRICS and k not in TAGS]
    fixed = dict.fromkeys((*first, *METRICS, *TAGS))
    columns = list(fixed | dict.fromkeys(k for r in records for k in r))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def _tags(found: Mapping[str, str], device: Device | None, *, done: bool) -> dict[str, str]:
    tags = dict(found)
    simulated = [s for s in tags.pop("simulated", "").split(",") if s]
    if device is not None and device.simulated:
        simulated = [VIRTUAL, *simulated, *map(str, device.facts.get("simulated", ()))]
    if simulated:
        tags["simulated"] = ",".join(dict.fromkeys(simulated))
    if done:
        tags["verdict"] = verdict(tags)
    return tags


def _number(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\d+(\.\d+)?", text) else None
