"""After everything that is timed: is each text the target's own, and what the target thought of the drafted tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from device_agent.engine.exactness import count_exactness, reference_rows, tie_tolerance
from device_agent.engine.judging import Judgement, judge
from device_agent.engine.node_trace import NodeTracer
from device_agent.engine.outcome import RequestOutcome
from device_agent.engine.sampling import Sampler
from device_agent.job_folder import JobLog
from device_agent.kernels.base import Floats
from device_agent.protocol import JobSpec, RequestResult
from device_agent.session import Session


def examined(spec: JobSpec, session: Session, outcomes: list[RequestOutcome], log: JobLog) -> list[RequestOutcome]:
    """Each request with its exactness, if that is asked for, from a fresh pass over its text; writes nodes.jsonl."""
    tracers = [NodeTracer(outcome) for outcome in outcomes]
    if spec.check_exactness:
        log.event("checking")
        session.weights.lift_cap()
        tolerance = _tolerance(spec, session, outcomes)
        outcomes = [_checked(spec, session, *pair, tolerance) for pair in zip(outcomes, tracers, strict=True)]
    if spec.engine.trace_nodes:
        for tracer in tracers:
            log.nodes(tracer.traces())
    return outcomes


def _tolerance(spec: JobSpec, session: Session, outcomes: list[RequestOutcome]) -> float:
    """Measured on the first text, with the largest batch that a round had."""
    largest = max((trace.nodes_verified for outcome in outcomes for trace in outcome.rounds), default=1)
    text = (*spec.prompts[0].token_ids, *outcomes[0].result.output_ids[:-1])
    return tie_tolerance(session.target, text, largest)


def _checked(
    spec: JobSpec, session: Session, outcome: RequestOutcome, tracer: NodeTracer, tolerance: float
) -> RequestOutcome:
    result = outcome.result
    prompt = next(prompt.token_ids for prompt in spec.prompts if prompt.id == result.id)
    sampler = Sampler(spec.sampling, result.id, session.target.name)
    rows = tracer.seen(reference_rows(session.target, prompt, result.output_ids))
    judgements = _judged(sampler, rows, result, tolerance)
    margins = tuple(
        margin if judgement.sure else min(margin, tolerance)
        for margin, judgement in zip(result.margins, judgements, strict=True)
    )
    count = count_exactness(judgements, tolerance)
    return replace(outcome, result=replace(result, margins=margins, exactness=count))


def _judged(sampler: Sampler, rows: Iterable[Floats], result: RequestResult, tolerance: float) -> list[Judgement]:
    pairs = zip(rows, result.output_ids, strict=True)
    return [judge(sampler, row, index, token, tolerance) for index, (row, token) in enumerate(pairs)]
