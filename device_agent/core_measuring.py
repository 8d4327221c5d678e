"""What a usual round takes with each number of threads and on each set of cores worth trying."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

from device_agent.core_binding import on_cores
from device_agent.core_choice import core_candidates
from device_agent.cost_use import usual_round
from device_agent.engine.measuring import batch_in_last_slots
from device_agent.engine.placement import DRAFT, PROJECT, VERIFY
from device_agent.failure import AgentFailure
from device_agent.job_folder import JobLog
from device_agent.kernels.base import Floats
from device_agent.model.transformer import Transformer
from device_agent.protocol import CoreTrial, EngineSpec, JobSpec
from device_agent.session import Session, open_session
from device_agent.telemetry.topology import core_capacities

LEVER = EngineSpec("lever")
REPEATS = 3  # rounds that count, each time a candidate has its turn
ATTENDED = 256  # KV slots, if the context has as many


def core_trials(spec: JobSpec, folder: Path, log: JobLog) -> tuple[CoreTrial, ...]:
    """Each candidate twice, in one order and back, so that a phone that grows hot favours none; the medians."""
    candidates = core_candidates(core_capacities())
    found: dict[CoreTrial, list[tuple[float, float]]] = {candidate: [] for candidate in candidates}
    turns = (*candidates, *reversed(candidates))
    for done, candidate in enumerate(turns, 1):
        with open_session(on_cores(_reading_ahead(spec), candidate), folder) as session:
            found[candidate] += rounds(session)
        log.event("cores", done=done, of=len(turns))
    return tuple(_trial(candidate, times) for candidate, times in found.items())


def rounds(session: Session) -> list[tuple[float, float]]:
    """(seconds, of them computing) of rounds as lever's, the first aside; overwrites the KV caches."""
    if session.draft is None:
        raise AgentFailure("bad_spec", "cores are chosen for a pair, and this job has no draft model")
    return [_round(session.target, session.draft) for _ in range(1 + REPEATS)][1:]


def _round(target: Transformer, draft: Transformer) -> tuple[float, float]:
    usual = usual_round(LEVER)
    started, before = perf_counter(), target.counters.compute_s + target.counters.projection_s
    for _ in range(round(usual[DRAFT].calls)):
        draft.project(_pass(draft, usual[DRAFT].size))
    drafted_s = perf_counter() - started
    target.project(_pass(target, usual[VERIFY].size)[: usual[PROJECT].size])
    verified_s = target.counters.compute_s + target.counters.projection_s - before
    return perf_counter() - started, drafted_s + verified_s


def _pass(model: Transformer, size: int) -> Floats:
    return model.forward(batch_in_last_slots(size, min(ATTENDED, model.n_ctx)))


def _reading_ahead(spec: JobSpec) -> JobSpec:
    """As lever reads: the next round's first layers while the draft runs."""
    return replace(spec, engine=replace(spec.engine, storage=replace(spec.engine.storage, prefetch=True)))


def _trial(candidate: CoreTrial, times: list[tuple[float, float]]) -> CoreTrial:
    round_s, compute_s = (median(column) for column in zip(*times, strict=True))
    return replace(candidate, round_s=round_s, compute_s=compute_s)
