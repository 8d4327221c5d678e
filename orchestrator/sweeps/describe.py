"""Trials, phones and counts in words, for live views and plain lines alike."""

from __future__ import annotations

from collections import Counter

from orchestrator.entities import FarmEvent, Trial, TrialState
from orchestrator.sweeps.progress import PhoneActivity


def trial_text(trial: Trial) -> str:
    """Which trial: its overrides, repeat and phone."""
    phone = trial.device or trial.spec.device
    return f"{trial_name(trial)} on {phone}" if phone else trial_name(trial)


def trial_name(trial: Trial) -> str:
    """Its overrides and repeat, where the phone is named beside it."""
    labels = trial.spec.labels
    name = labels.get("overrides") or f"{labels.get('pair', '')} {labels.get('strategy', '')}".strip()
    repeat = f" #{trial.spec.repeat + 1}" if trial.spec.config.get("schedule", {}).get("repeats", 1) > 1 else ""
    return f"{name}{repeat}"


def activity_text(activity: PhoneActivity) -> str:
    """What a phone does: `provisioning 120/491 MB`, `decoding p1, 12/32 tokens, round 4`."""
    if not activity.connected:
        return "connection lost; the attempt goes on, waiting to re-attach"
    if not activity.total:
        return activity.step
    if activity.unit == "B":
        return f"{activity.step} {activity.done / 1e6:.0f}/{activity.total / 1e6:.0f} MB"
    rounds = f", round {activity.rounds}" if activity.rounds else ""
    return f"{activity.step}, {activity.done}/{activity.total} tokens{rounds}"


def result_text(trial: Trial) -> str:
    """How it ended: the figures that people look at first, or why it failed."""
    if trial.state is TrialState.FAILED:
        return f"{trial.failure_kind or 'failed'}: {first_line(trial.failure_message or 'no message')}"
    metrics = (trial.result or {}).get("metrics", {})
    shown = [
        f"{name} {metrics[key]:.3g}{unit}"
        for key, name, unit in (
            ("tpot_s", "TPOT", " s"),
            ("tokens_per_s", "", " tokens/s"),
            ("acceptance_length", "acceptance length", ""),
        )
        if key in metrics
    ]
    return ", ".join(text.strip() for text in shown) or trial.state.value


def mishap_text(event: FarmEvent, trial: Trial) -> str:
    """An attempt that failed and is made up for."""
    kind = str(event.data.get("failure_kind") or "failed").replace("_", " ")
    message = first_line(str(event.data.get("failure_message") or "no message"))
    return f"{event.device}: {trial_name(trial)}: {kind}, will be tried again: {message}"


def counts_text(counts: Counter[TrialState]) -> str:
    return ", ".join(f"{counts[state]} {state.value}" for state in TrialState if counts[state])


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
