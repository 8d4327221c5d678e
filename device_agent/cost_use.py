"""Whether calibrations that a job brings hold for it, and what they say of splitting DRAM."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from device_agent.engine.costs import CostCurve
from device_agent.failure import AgentFailure
from device_agent.protocol import ENGINE_VERSION, CostCalibration, EngineSpec, JobSpec, StreamCosts

USUAL_TREE = 16  # tokens of a round where the strategy does not fix them
USUAL_PASSES = 4  # draft passes of one
USUAL_ROWS = 4  # projected in a round


def check_calibrations(spec: JobSpec) -> None:
    """Raises AgentFailure bad_spec for one made for other models, another engine or other threads."""
    edges, costs, engine = spec.engine.drafting.edges, spec.costs, spec.engine
    if edges.key != "none":
        _refuse("acceptance", edges.key, "target pack", edges.target_pack, spec.target_pack)
        _refuse("acceptance", edges.key, "draft pack", edges.draft_pack, spec.draft_pack)
        _refuse("acceptance", edges.key, "engine", edges.engine_version, ENGINE_VERSION)
    if costs is not None:
        _refuse("cost", costs.key, "target pack", costs.target_pack, spec.target_pack)
        _refuse("cost", costs.key, "draft pack", costs.draft_pack, spec.draft_pack)
        _refuse("cost", costs.key, "engine", costs.engine_version, ENGINE_VERSION)
        _refuse("cost", costs.key, "threads", costs.threads, engine.threads)
        _refuse("cost", costs.key, "storage mode", costs.storage_mode, engine.storage.mode)


def _refuse(kind: str, key: str, what: str, calibrated: object, ours: object) -> None:
    if calibrated not in ("", ours):
        message = f"{kind} calibration {key} is for {what} {calibrated}, and this job has {ours}; calibrate again"
        raise AgentFailure("bad_spec", message)


def stream_costs(costs: CostCalibration, engine: EngineSpec, layers: Sequence[int]) -> StreamCosts:
    """A usual round of `engine` over layers of these sizes (bytes). Bytes only are the layers' share of the budget, so
    another budget than at calibration makes another plan and no wrong one."""
    chain = engine.strategy == "chain"
    tokens, passes = (engine.draft_k + 1, engine.draft_k) if chain else (USUAL_TREE, USUAL_PASSES)
    drafted = 1 if chain else USUAL_TREE // USUAL_PASSES
    draft = CostCurve.of(costs.draft).plus(CostCurve.of(costs.draft_project))
    return StreamCosts(
        bandwidth_mb_s=bandwidth_mb_s(costs, engine) or StreamCosts.bandwidth_mb_s,
        compute_ns_per_byte=_seconds(CostCurve.of(costs.verify), tokens) * 1e9 / sum(layers),
        draft_s=passes * _seconds(draft, drafted),
        projection_s=_seconds(CostCurve.of(costs.project), USUAL_ROWS),
    )


def bandwidth_mb_s(costs: CostCalibration, engine: EngineSpec) -> float | None:
    """Of the flash, read in the pieces and with the threads most like the engine's; None when it was not measured."""
    chunk, threads = engine.storage.chunk_kib, engine.storage.reader_threads

    def unlike(measured: tuple[int, int, float]) -> float:
        return abs(float(np.log(measured[0] / chunk))) + abs(float(np.log(measured[1] / threads)))

    return min(costs.bandwidth_mb_s, key=unlike)[2] if costs.bandwidth_mb_s else None


def _seconds(curve: CostCurve, tokens: int) -> float:
    return float(curve.seconds(np.array([float(tokens)]))[0])
