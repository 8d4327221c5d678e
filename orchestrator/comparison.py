"""Compare a done trial with trials of the same phone, target and prompts: is its text the target's, and how much faster
is it? Pure; where the reference is missing nothing is said.

Two checks are combined. The agent's own teacher-forced pass (RequestResult.exactness) covers every position of the
emitted text; the reference trial's token ids confirm it from another run, up to the first difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from device_agent.protocol import JobResult, RequestResult, from_json
from orchestrator.entities import Trial

BASELINE = "autoregressive"


@dataclass(frozen=True)
class Exactness:
    """Emitted positions by what the target would have chosen there; `diverged_at` is 0-based within its request."""

    exact: int = 0
    ties: int = 0
    diverged: int = 0
    total: int = 0
    diverged_at: int | None = None


@dataclass(frozen=True)
class Difference:
    """First position where two greedy texts part; a tie if the best two logits there were within tolerance."""

    position: int
    tie: bool


def compare(trial: Trial, related: Sequence[Trial]) -> tuple[dict[str, float], dict[str, str]]:
    """Metrics (`exact_tokens`, `tie_tokens`, `diverged_tokens`, `speedup_over_autoregressive`) and tags (`exactness`)
    of `trial`, given done trials with its `reference_key`, as Registry.baselines has them; an autoregressive trial is
    its own baseline, and its own reference unless a better one exists. Both empty when there is no reference."""
    baselines = _baselines(trial, related)
    if trial.result is None or not baselines:
        return {}, {}
    result = from_json(JobResult, trial.result)
    reference = min(baselines, key=lambda b: _reference_rank(b, trial))
    exactness = total(_requests(result, _result(reference)))
    metrics = {
        "exact_tokens": float(exactness.exact),
        "tie_tokens": float(exactness.ties),
        "diverged_tokens": float(exactness.diverged),
    }
    speedup = _speedup(trial, result, baselines)
    if speedup is not None:
        metrics["speedup_over_autoregressive"] = speedup
    return metrics, {"exactness": describe(exactness)}


def is_new_baseline(trial: Trial) -> bool:
    """A done baseline that was not compared yet, so that others may wait for it."""
    tags = (trial.result or {}).get("tags", {})
    return trial.spec.labels.get("strategy") == BASELINE and not tags.keys() & {"exactness", "comparison"}


def streamed(labels: Mapping[str, str]) -> bool:
    """Whether the target does not stay in DRAM."""
    return not labels.get("storage", "").startswith("resident")


def describe(exactness: Exactness) -> str:
    """`exact n/n, ties k`, or `DIVERGED@i` with the position in the first request that diverged."""
    if exactness.diverged:
        return f"DIVERGED@{exactness.diverged_at}"
    return f"exact {exactness.exact}/{exactness.total}, ties {exactness.ties}"


def total(requests: Iterable[Exactness]) -> Exactness:
    """Sum over requests, in order."""
    found = list(requests)
    return Exactness(
        exact=sum(r.exact for r in found),
        ties=sum(r.ties for r in found),
        diverged=sum(r.diverged for r in found),
        total=sum(r.total for r in found),
        diverged_at=next((r.diverged_at for r in found if r.diverged), None),
    )


def first_difference(ours: RequestResult, reference: RequestResult) -> Difference | None:
    """None when the texts agree; a text that ended for want of KV room differs only where both have a token."""
    for i, (a, b) in enumerate(zip(ours.output_ids, reference.output_ids, strict=False)):
        if a != b:
            return _difference(i, ours, reference)
    shorter, longer = sorted((ours, reference), key=lambda r: len(r.output_ids))
    length = len(shorter.output_ids)
    if length == len(longer.output_ids) or shorter.stop_reason == "kv_full":
        return None
    return _difference(length, ours, reference)


def judge(ours: RequestResult, reference: RequestResult | None) -> Exactness:
    """One request's positions, from the agent's count and the reference's text (None: it has no such request)."""
    difference = first_difference(ours, reference) if reference else None
    length, counted = len(ours.output_ids), ours.exactness
    if counted is None:
        return _judge_by_text(length, difference) if reference else Exactness(total=length)
    ties, diverged, at = counted.tie_tokens, counted.diverged_tokens, counted.diverged_at
    if difference and difference.tie:
        ties = max(ties, 1)  # the agent may have counted this very position already
    elif difference:
        diverged = max(diverged, 1)
        at = difference.position if at is None else min(at, difference.position)
    return Exactness(max(0, length - ties - diverged), ties, diverged, length, at if diverged else None)


def _judge_by_text(length: int, difference: Difference | None) -> Exactness:
    """Without the agent's count nothing is known beyond the first difference."""
    if difference is None:
        return Exactness(exact=length, total=length)
    if difference.tie:
        return Exactness(exact=difference.position, ties=1, total=length)
    return Exactness(difference.position, 0, 1, length, difference.position)


def _difference(position: int, ours: RequestResult, reference: RequestResult) -> Difference:
    tolerances = [r.exactness.tie_tolerance for r in (ours, reference) if r.exactness]
    margins = [r.margins[position] for r in (ours, reference) if position < len(r.margins)]
    return Difference(position, bool(margins) and min(margins) <= max(tolerances, default=0.0))


def _requests(result: JobResult, reference: JobResult) -> Iterable[Exactness]:
    references = {r.id: r for r in reference.requests}
    return (judge(request, references.get(request.id)) for request in result.requests)


def _baselines(trial: Trial, related: Sequence[Trial]) -> list[Trial]:
    """Autoregressive trials with a result on the same phone, `trial` included if it is one."""
    candidates = {t.spec.trial_id: t for t in (*related, trial)}.values()
    key = trial.spec.labels.get("reference_key")
    return [
        t
        for t in candidates
        if t.spec.labels.get("strategy") == BASELINE
        and t.spec.labels.get("reference_key") == key
        and t.result is not None
        and t.device == trial.device
    ]


def _reference_rank(candidate: Trial, trial: Trial) -> tuple[bool, bool, int, str]:
    """Resident decoding is the plainest; then the nearest configuration; then any fixed order, which is the index's
    that Registry.baselines reads."""
    ours, theirs = trial.spec.labels, candidate.spec.labels
    return (
        streamed(theirs),
        theirs.get("baseline_key") != ours.get("baseline_key"),
        candidate.spec.repeat,
        candidate.spec.trial_id,
    )


def _speedup(trial: Trial, result: JobResult, baselines: Sequence[Trial]) -> float | None:
    """Baseline's seconds per output token ÷ ours. Of several baselines the fastest, so that what helps plain decoding
    as well (reading ahead, pinned layers) is not credited to drafting."""
    if "void.tpot_s" in result.tags:
        return None
    key = trial.spec.labels.get("baseline_key")
    same = [b for b in baselines if b.spec.labels.get("baseline_key") == key]
    if not same:
        return None
    times = [_result(b).metrics.get("tpot_s", 0.0) for b in ([trial] if trial in same else same)]
    theirs, ours = min((s for s in times if s > 0), default=0.0), result.metrics.get("tpot_s", 0.0)
    return theirs / ours if theirs > 0 and ours > 0 else None


def _result(trial: Trial) -> JobResult:
    return from_json(JobResult, trial.result)
