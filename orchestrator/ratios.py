"""Speed-ups over repeats: each configuration against plain decoding on the same phone, with an interval. Pure.

Trial r of the configuration and trial r of the baseline are a pair: with schedule.order=paired they ran one after the
other. A prompt's ratio within a pair is one figure; their geometric mean is the speed-up.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.entities import Trial

BASELINE = "autoregressive"

Seconds = Mapping[str, float]  # prompt id → seconds per output token


@dataclass(frozen=True)
class Ratio:
    """`low`, `high`: 95 % interval of `speedup`; None with a single session. Spreads of seconds per token as shares:
    0.03 is 3 %; `within` a session, `between` sessions."""

    phone: str
    config_key: str
    trial_ids: tuple[str, ...]
    speedup: float
    low: float | None
    high: float | None
    sessions: int
    prompts: int
    within: float | None
    between: float | None


def ratios(trials: Iterable[Trial]) -> list[Ratio]:
    """Of every configuration that has trials with a baseline, in the order of `trials`."""
    done = [t for t in trials if t.result is not None and _seconds(t)]
    baselines: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    groups: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in done:
        phone, labels = trial.device or "", trial.spec.labels
        groups[phone, labels.get("config_key", "")].append(trial)
        if labels.get("strategy") == BASELINE:
            baselines[phone, labels.get("baseline_key", "")].append(trial)
    found = (_ratio(phone, key, group, baselines) for (phone, key), group in groups.items())
    return [ratio for ratio in found if ratio]


def _ratio(
    phone: str, key: str, group: Sequence[Trial], baselines: Mapping[tuple[str, str], Sequence[Trial]]
) -> Ratio | None:
    if group[0].spec.labels.get("strategy") == BASELINE:
        return None
    choices: dict[str, list[tuple[Trial, Trial]]] = defaultdict(list)
    for trial in group:
        for baseline in baselines.get((phone, trial.spec.labels.get("baseline_key", "")), ()):
            choices[baseline.spec.labels.get("config_key", "")].append((trial, baseline))
    if not choices:
        return None
    most = max(len(pairs) for pairs in choices.values())
    fastest = min((pairs for pairs in choices.values() if len(pairs) == most), key=_baseline_s)
    return _of_pairs(phone, key, fastest)


def _baseline_s(pairs: Sequence[tuple[Trial, Trial]]) -> float:
    """Mean log seconds per token of the plain trials: of several ways of plain decoding the fastest counts."""
    logs = [math.log(s) for _, baseline in pairs for s in _seconds(baseline).values()]
    return sum(logs) / len(logs)


def _of_pairs(phone: str, key: str, pairs: Sequence[tuple[Trial, Trial]]) -> Ratio | None:
    import numpy as np

    from orchestrator.statistics import deviations, spread

    ours, theirs = [_seconds(trial) for trial, _ in pairs], [_seconds(baseline) for _, baseline in pairs]
    prompts = [p for p in ours[0] if all(p in s for s in (*ours, *theirs))]
    if not prompts:
        return None
    a, b = (np.log([[s[p] for p in prompts] for s in some]) for some in (ours, theirs))
    found = spread(b - a)
    within, between = deviations(a)
    bounded = math.isfinite(found.low)
    return Ratio(
        phone=phone,
        config_key=key,
        trial_ids=tuple(trial.spec.trial_id for trial, _ in pairs),
        speedup=math.exp(found.mean),
        low=math.exp(found.low) if bounded else None,
        high=math.exp(found.high) if bounded else None,
        sessions=found.sessions,
        prompts=found.prompts,
        within=within,
        between=between,
    )


def _seconds(trial: Trial) -> Seconds:
    """Of the requests that have them; results of older versions have none."""
    requests = (trial.result or {}).get("requests", ())
    return {str(r["id"]): float(r["tpot_s"]) for r in requests if (r.get("tpot_s") or 0) > 0}
