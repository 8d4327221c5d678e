"""Whether calibrations that a job brings hold for it, and what they say of splitting DRAM."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from device_agent.engine.costs import CostCurve
from device_agent.engine.placement import DRAFT, DRAFT_PROJECT, PROJECT, VERIFY, Usual
from device_agent.failure import AgentFailure
from device_agent.protocol import ENGINE_VERSION, CostCalibration, EngineSpec, JobSpec, StreamCosts

USUAL_TREE = 16  # tokens of a round where the strategy does not fix them
USUAL_PASSES = 4  # draft passes of one
USUAL_ROWS = 4  # projected in a round


def check_calibrations(spec: JobSpec) -> None:
    """Raises AgentFailure bad_spec for one made for other models, another engine or other threads."""
    edges, costs, engine = spec.engine.drafting.edges, spec.costs, spec.engine
    predictor = engine.pruning.predictor
    if edges.key != "none":
        _refuse("acceptance", edges.key, "target pack", edges.target_pack, spec.target_pack)
        _refuse("acceptance", edges.key, "draft pack", edges.draft_pack, spec.draft_pack)
        _refuse("acceptance", edges.key, "engine", edges.engine_version, ENGINE_VERSION)
    if predictor.layers:
        _refuse("predictor", predictor.key, "target pack", predictor.target_pack, spec.target_pack)
        _refuse("predictor", predictor.key, "draft pack", predictor.draft_pack, spec.draft_pack)
        _refuse("predictor", predictor.key, "engine", predictor.engine_version, ENGINE_VERSION)
    if costs is not None:
        _refuse("cost", costs.key, "target pack", costs.target_pack, spec.target_pack)
        _refuse("cost", costs.key, "draft pack", costs.draft_pack, spec.draft_pack)
        _refuse("cost", costs.key, "engine", costs.engine_version, ENGINE_VERSION)
        if not costs.core_trials:  # else both were chosen by it
            _refuse("cost", costs.key, "threads", costs.threads, engine.threads)
            _refuse("cost", costs.key, "cores", str(costs.cores), str(engine.cores))
        _refuse("cost", costs.key, "storage mode", costs.storage_mode, engine.storage.mode)
        _refuse("cost", costs.key, "placement", costs.placement, engine.placement)


def _refuse(kind: str, key: str, what: str, calibrated: object, ours: object) -> None:
    if calibrated not in ("", ours):
        message = f"{kind} calibration {key} is for {what} {calibrated}, and this job has {ours}; calibrate again"
        raise AgentFailure("bad_spec", message)


def stream_costs(costs: CostCalibration, engine: EngineSpec, layers: Sequence[int]) -> StreamCosts:
    """A usual round of `engine` over layers of these sizes (bytes). Bytes only are the layers' share of the budget, so
    another budget than at calibration makes another plan and no wrong one."""
    usual = usual_round(engine)
    draft = CostCurve.of(costs.draft).plus(CostCurve.of(costs.draft_project))
    return StreamCosts(
        bandwidth_mb_s=bandwidth_mb_s(costs, engine) or StreamCosts.bandwidth_mb_s,
        compute_ns_per_byte=CostCurve.of(costs.verify).of_one(usual[VERIFY].size) * 1e9 / sum(layers),
        draft_s=usual[DRAFT].calls * draft.of_one(usual[DRAFT].size),
        projection_s=CostCurve.of(costs.project).of_one(usual[PROJECT].size),
    )


def usual_round(engine: EngineSpec) -> dict[str, Usual]:
    """What a round of `engine` asks of each role, as far as can be said beforehand."""
    tokens, rows, drafts = USUAL_TREE, USUAL_ROWS, Usual(USUAL_PASSES, USUAL_TREE // USUAL_PASSES)
    if engine.strategy == "chain":
        tokens, drafts = engine.draft_k + 1, Usual(engine.draft_k, 1)
    elif engine.strategy == "autoregressive":
        tokens, rows, drafts = 1, 1, Usual(0, 1)
    return {DRAFT: drafts, DRAFT_PROJECT: drafts, VERIFY: Usual(1, tokens), PROJECT: Usual(1, rows)}


def bandwidth_mb_s(costs: CostCalibration, engine: EngineSpec) -> float | None:
    """Of the flash, read in the pieces and with the threads most like the engine's; None when it was not measured."""
    chunk, threads = engine.storage.chunk_kib, engine.storage.reader_threads

    def unlike(measured: tuple[int, int, float]) -> float:
        return abs(float(np.log(measured[0] / chunk))) + abs(float(np.log(measured[1] / threads)))

    return min(costs.bandwidth_mb_s, key=unlike)[2] if costs.bandwidth_mb_s else None
