"""A job's metrics, tags and plan, put together from its requests and its session (ENGINE §10)."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

from device_agent.dram_plan import MB, layer_sizes
from device_agent.engine.metrics import energy_metrics, exactness_metrics, trial_metrics
from device_agent.engine.outcome import RequestOutcome
from device_agent.engine.pipeline import CalibratedCosts, own_costs, pipeline_efficiency
from device_agent.kernels.binding import VERSION
from device_agent.layer_split import stream_of
from device_agent.protocol import ExactnessCount, JobSpec, to_json
from device_agent.session import Session
from device_agent.telemetry.energy import CpuSampler, gross_joules
from device_agent.telemetry.memory import peak_rss_bytes
from device_agent.waiting import waiting

SPEEDS = ("ttft_s", "tpot_s", "tokens_per_s", "energy_j_per_token")  # what a virtual accelerator says nothing of
OVER_BUDGET = 1.1  # peak memory up to this share of the budget counts as kept


def job_metrics(
    spec: JobSpec, session: Session, outcomes: Sequence[RequestOutcome], sampler: CpuSampler
) -> dict[str, float]:
    """What the timed requests say; keys without a value are absent."""
    metrics = trial_metrics(outcomes, _bandwidth_mb_s(session))
    if (efficiency := _efficiency(spec, session, outcomes)) is not None:
        metrics["pipeline_efficiency"] = efficiency
    if spec.energy.method == "model":
        windows = [(outcome.decode_start_s, outcome.decode_end_s) for outcome in outcomes]
        joules = gross_joules(spec.energy, sampler, windows, int(metrics["flash_read_bytes"]))
        metrics |= energy_metrics(joules, spec.energy.idle_w, outcomes)
    counts = [outcome.result.exactness for outcome in outcomes if outcome.result.exactness]
    return metrics | (exactness_metrics(counts) if counts else {}) | {"peak_rss_mb": peak_rss_bytes() / MB}


def _bandwidth_mb_s(session: Session) -> float | None:
    return session.cap_mb_s or session.weights.measured_mb_s


def _efficiency(spec: JobSpec, session: Session, outcomes: Sequence[RequestOutcome]) -> float | None:
    """For layers that come through the ring: nothing else has a pipeline to model."""
    bandwidth_mb_s = _bandwidth_mb_s(session)
    if not session.plan.ring_slots or not bandwidth_mb_s:
        return None
    layers = layer_sizes(session.weights.manifest)
    stream = stream_of(layers, session.plan.layers, bandwidth_mb_s * MB, spec.engine.storage.prefetch)
    known = session.pass_costs
    costs = CalibratedCosts(known, len(layers), _drafted(spec, session)) if known else own_costs(len(layers))
    return pipeline_efficiency(outcomes, stream, costs)


def _drafted(spec: JobSpec, session: Session) -> float:
    """Share of its vocabulary that the draft projects onto: all of it was calibrated."""
    trim = spec.engine.drafting.trim_vocabulary
    return min(1.0, trim / session.draft.source.manifest.hyper.n_vocab) if session.draft and trim else 1.0


def job_tags(spec: JobSpec, session: Session, outcomes: Sequence[RequestOutcome], peak_mb: float) -> dict[str, str]:
    tags = {
        "io_mode": session.weights.io_mode,
        "accelerator": session.places.accelerator,
        "kernels": kernels_said(session),
        "energy_method": spec.energy.method,
        "exactness": _exactness([outcome.result.exactness for outcome in outcomes]),
    }
    if adaptive := session.engine.report():
        tags |= {name: str(adaptive[name]) for name in ("calibration", "pruning")} | {"costs": session.costs}
    if session.plan.ring_slots:
        tags["pipeline_model"] = "calibrated" if session.pass_costs else "own rounds"
    if session.cap_mb_s:
        tags["flash_cap_mb_s"] = f"{session.cap_mb_s:g}"
    if spec.engine.dram_budget_mb and peak_mb > spec.engine.dram_budget_mb * OVER_BUDGET:
        tags["void.peak_rss_mb"] = f"over the budget of {spec.engine.dram_budget_mb:g} MB by more than 10 %"
    if spec.engine.storage.mode == "mmap" and spec.flash_profile_mb_s:
        tags["void.tpot_s"] = f"page faults cannot be held to this phone's {spec.flash_profile_mb_s:g} MB/s"
    if session.places.accelerator == "virtual":
        tags |= {"simulated": "virtual-accelerator"}
        tags |= dict.fromkeys((f"void.{key}" for key in SPEEDS), "of a virtual accelerator")
    return tags


def job_plan(spec: JobSpec, session: Session) -> dict[str, Any]:
    """The DRAM plan, and what computed on what."""
    settings = {"threads": spec.engine.threads, "n_ctx": spec.engine.n_ctx, "chunk_kib": spec.engine.storage.chunk_kib}
    build = {"kernels": kernels_said(session), "machine": platform.machine(), "python": platform.python_version()}
    build |= {"thread_waiting": waiting()}
    more = session.places.report() | _replayed_with(spec, session) | session.engine.report()
    return session.plan.summary() | settings | build | more


def _replayed_with(spec: JobSpec, session: Session) -> dict[str, Any]:
    """What the traces do not say and an offline replay needs."""
    found: dict[str, Any] = {"pass_costs": to_json(session.pass_costs)} if session.pass_costs else {}
    if session.plan.ring_slots and (bandwidth := _bandwidth_mb_s(session)):
        sizes = list(layer_sizes(session.weights.manifest))
        found["stream"] = {"layer_bytes": sizes, "mb_s": bandwidth, "prefetch": spec.engine.storage.prefetch}
    return found


def kernels_said(session: Session) -> str:
    """ggml's version, and the layouts of the weights that it multiplies by."""
    models = [model for model in (session.target, session.draft) if model]
    layouts = sorted({layout for model in models for layout in model.source.layouts.values()})
    return f"ggml {VERSION} {'+'.join(layouts) or 'rows'}"


def _exactness(counts: Sequence[ExactnessCount | None]) -> str:
    """`exact n/n, ties k`, or where the first request that diverged did so."""
    known = [count for count in counts if count is not None]
    if not known:
        return "unchecked"
    if diverged := [count.diverged_at for count in known if count.diverged_at is not None]:
        return f"DIVERGED@{diverged[0]}"
    exact, ties = sum(count.exact_tokens for count in known), sum(count.tie_tokens for count in known)
    return f"exact {exact}/{exact + ties}, ties {ties}"
