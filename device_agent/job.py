"""One job from its spec to its result: warm-up, timed requests, exactness check, metrics."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from device_agent.core_binding import cores_tag, with_cores
from device_agent.cost_measuring import run_costs
from device_agent.engine.edge_recording import edge_traces
from device_agent.engine.emission import Emission
from device_agent.engine.engine import OnRound
from device_agent.engine.outcome import RequestOutcome
from device_agent.engine.state_recording import StateRecording
from device_agent.examination import examined
from device_agent.failure import AgentFailure
from device_agent.job_folder import JobLog
from device_agent.measures import job_metrics, job_plan, job_tags
from device_agent.protocol import (
    ENGINE_VERSION,
    PROTOCOL_VERSION,
    STATES,
    EdgeTrace,
    JobResult,
    JobSpec,
    PromptSpec,
    RoundTrace,
)
from device_agent.session import Session, open_session
from device_agent.telemetry.energy import CpuSampler

KINDS = ("decode", "edges", "costs")
PROGRESS_S = 0.5  # between two progress events


def run_spec(folder: Path, spec: JobSpec, log: JobLog) -> JobResult:
    """Run all prompts of `spec` and measure them, or calibrate. Raises AgentFailure, OSError, MemoryError."""
    if spec.kind not in KINDS:
        raise AgentFailure("bad_spec", f"kind {spec.kind!r} is not one of {', '.join(KINDS)}")
    if spec.kind == "costs":
        costs, io_mode = run_costs(spec, folder, log)
        return replace(_blank(spec), costs=costs, tags={"io_mode": io_mode})
    started = time.perf_counter()
    spec, cores_by = with_cores(spec)
    sampler = CpuSampler()
    try:
        with open_session(spec, folder) as session:
            log.event("loaded", seconds=time.perf_counter() - started, plan=session.plan.summary())
            _warm_up(spec, session, log)
            if spec.kind == "edges":
                return replace(_blank(spec), edges=_edges(spec, session, log, folder))
            outcomes = [_request(spec, session, prompt, log) for prompt in spec.prompts]
            outcomes = examined(spec, session, outcomes, log)
            result = _result(spec, session, outcomes, sampler, time.perf_counter() - started)
            return replace(result, tags=result.tags | cores_tag(spec.engine, cores_by))
    finally:
        sampler.close()


def _warm_up(spec: JobSpec, session: Session, log: JobLog) -> None:
    """Builds graphs and touches memory, so that the first request's times are like the others'."""
    if spec.warmup_tokens:
        prompt = PromptSpec("warm-up", spec.prompts[0].token_ids)
        outcome = session.engine.run_request(prompt, spec.warmup_tokens, ())
        log.event("warmed_up", tokens=len(outcome.result.output_ids), ttft_s=outcome.result.ttft_s)


def _request(spec: JobSpec, session: Session, prompt: PromptSpec, log: JobLog) -> RequestOutcome:
    outcome = session.engine.run_request(prompt, spec.max_new_tokens, spec.stop_token_ids, _progress(spec, prompt, log))
    result = outcome.result
    log.event("request_done", request=prompt.id, tokens=len(result.output_ids), tpot_s=result.tpot_s)
    return outcome


def _edges(spec: JobSpec, session: Session, log: JobLog, folder: Path) -> tuple[EdgeTrace, ...]:
    """Of prompts, one after another, until there were `max_rounds` rounds; writes states.npz if states are wanted."""
    if session.draft is None:
        raise AgentFailure("bad_spec", "acceptance is calibrated with a draft model, and this job has none")
    found: list[EdgeTrace] = []
    states = StateRecording(session.target, spec.state_layers)
    rounds = 0
    for prompt in spec.prompts:
        outcome = _request(spec, session, prompt, log)
        traces = list(edge_traces(session.draft, prompt, outcome))
        states.add(prompt, outcome, traces)
        found += traces
        rounds += len(outcome.rounds)
        log.event("edges", request=prompt.id, rounds=rounds, of=spec.max_rounds, edges=len(found))
        if 0 < spec.max_rounds <= rounds:
            break
    states.write(folder / STATES)
    return tuple(found)


def _progress(spec: JobSpec, prompt: PromptSpec, log: JobLog) -> OnRound:
    """Logs each round, and a progress event every half second with the output ids that are new."""
    told_tokens, rounds, told = 0, 0, time.monotonic()

    def on_round(trace: RoundTrace, emission: Emission) -> None:
        nonlocal told_tokens, rounds, told
        rounds += 1
        log.round(trace)
        if time.monotonic() - told >= PROGRESS_S:
            told = time.monotonic()
            ids = [choice.token for choice in emission.choices[told_tokens:]]
            told_tokens = tokens = len(emission.choices)
            of = {"request": prompt.id, "max_new_tokens": spec.max_new_tokens}
            log.event("progress", **of, tokens=tokens, rounds=rounds, output_ids=ids)

    return on_round


def _result(
    spec: JobSpec, session: Session, outcomes: list[RequestOutcome], sampler: CpuSampler, wall_s: float
) -> JobResult:
    metrics = job_metrics(spec, session, outcomes, sampler) | {"agent_wall_s": wall_s}
    return replace(
        _blank(spec),
        requests=tuple(outcome.result for outcome in outcomes),
        metrics=metrics,
        tags=job_tags(spec, session, outcomes, metrics["peak_rss_mb"]),
        plan=job_plan(spec, session),
    )


def _blank(spec: JobSpec) -> JobResult:
    return JobResult(
        version=PROTOCOL_VERSION,
        attempt_id=spec.attempt_id,
        trial_id=spec.trial_id,
        engine_version=ENGINE_VERSION,
        ok=True,
        error=None,
        requests=(),
        metrics={},
        tags={},
        plan={},
    )
