"""A job of kind `costs`: what passes, projections and reading cost on this device with this job's settings."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from device_agent.core_binding import on_cores, with_cores
from device_agent.core_choice import best_cores
from device_agent.core_measuring import core_trials
from device_agent.engine.measuring import measure_costs
from device_agent.failure import AgentFailure
from device_agent.job_folder import JobLog
from device_agent.model.flash_probe import bandwidth_table, flash_busy
from device_agent.model.pack import open_pack
from device_agent.protocol import ENGINE_VERSION, CoreTrial, CostCalibration, JobSpec
from device_agent.session import Session, open_session

REPEATS = 5  # a calibration is kept for long: one moment's disturbance must not be


def run_costs(spec: JobSpec, folder: Path, log: JobLog) -> tuple[CostCalibration, str]:
    """And the way of reading. Raises as open_session."""
    trials: tuple[CoreTrial, ...] = ()
    if spec.engine.cores.auto:
        trials = core_trials(spec, folder, log)
        spec = on_cores(spec, best_cores(trials))
    with open_session(with_cores(spec)[0], folder) as session:
        log.event("loaded", plan=session.plan.summary())
        costs = calibrated_costs(spec, session, folder / spec.packs_dir / spec.target_pack)
        return replace(costs, core_trials=trials), session.weights.io_mode


def calibrated_costs(spec: JobSpec, session: Session, target_folder: Path) -> CostCalibration:
    """Streamed layers are read while the draft is measured, as they are in rounds. Overwrites the KV caches."""
    if session.draft is None or spec.draft_pack is None:
        raise AgentFailure("bad_spec", "costs are calibrated for a pair, and this job has no draft model")
    storage, pack, cap = spec.engine.storage, open_pack(target_folder), session.cap_mb_s
    cores = session.reader_cores
    streamed = storage.mode == "flash"

    def meanwhile() -> AbstractContextManager[object]:
        return flash_busy(pack, storage.chunk_kib, storage.reader_threads, cap, cores) if streamed else nullcontext()

    found = measure_costs(session.target, session.draft, session.draft.project, meanwhile, REPEATS)
    return CostCalibration(
        engine_version=ENGINE_VERSION,
        target_pack=spec.target_pack,
        draft_pack=spec.draft_pack,
        threads=spec.engine.threads,
        storage_mode=storage.mode,
        io_mode=session.weights.io_mode,
        draft=found.draft.calibrated(),
        draft_project=found.draft_project.calibrated(),
        verify=found.verify.calibrated(),
        project=found.project.calibrated(),
        bandwidth_mb_s=bandwidth_table(pack, cap, cores) if streamed else (),
        placement=spec.engine.placement,
        backends=session.places.offers,
        cores=spec.engine.cores,
    )
