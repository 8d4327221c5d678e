"""The models of one job, opened within its DRAM plan, and closed whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from device_agent.cost_use import bandwidth_mb_s, check_calibrations, stream_costs
from device_agent.dram_plan import MB, DramPlan, layer_sizes, plan_dram
from device_agent.engine.costs import FlashLoad
from device_agent.engine.engine import Engine
from device_agent.engine.strategy import Conditions
from device_agent.model.mapped_weights import MappedWeights, open_mapped
from device_agent.model.pack import open_pack
from device_agent.model.transformer import Transformer, open_transformer
from device_agent.model.weights import PackWeights, open_resident, open_streamed
from device_agent.protocol import EngineSpec, JobSpec, PackManifest


@dataclass(frozen=True)
class Session:
    engine: Engine
    target: Transformer
    draft: Transformer | None
    weights: PackWeights | MappedWeights  # the target's
    plan: DramPlan
    cap_mb_s: float | None  # flash bandwidth in force; None: the disk's own
    costs: str  # the calibration of pass costs that is used, or that they were measured, and why


@contextmanager
def open_session(spec: JobSpec, folder: Path) -> Iterator[Session]:
    """Raises AgentFailure: pack_corrupt, io_error, budget_too_small, bad_spec."""
    check_calibrations(spec)
    packs = folder / spec.packs_dir
    target_folder = packs / spec.target_pack
    draft_folder = packs / spec.draft_pack if spec.draft_pack else None
    draft_manifest = open_pack(draft_folder).manifest if draft_folder else None
    target_manifest = open_pack(target_folder).manifest
    plan = plan_dram(target_manifest, draft_manifest, _with_costs(spec, target_manifest))
    cap = bandwidth_cap(spec)
    with ExitStack() as opened:
        weights = _target_weights(spec, target_folder, plan, cap)
        target = _opened(opened, weights, spec)
        draft = _opened(opened, open_resident(draft_folder), spec) if draft_folder else None
        costs = spec.costs if spec.costs and spec.costs.io_mode == weights.io_mode else None
        conditions = replace(_conditions(spec, target, weights, plan, cap), costs=costs)
        engine = Engine(target, draft, spec.engine, spec.sampling, conditions)
        yield Session(engine, target, draft, weights, plan, cap, _said_of_costs(spec, weights.io_mode))


def bandwidth_cap(spec: JobSpec) -> float | None:
    """MB/s that streaming is held to: the slower of what the trial asks and what the virtual phone has."""
    if spec.engine.storage.mode != "flash":
        return None
    caps = [cap for cap in (spec.engine.storage.flash_bandwidth_mb_s, spec.flash_profile_mb_s) if cap]
    return min(caps) if caps else None


def _target_weights(spec: JobSpec, folder: Path, plan: DramPlan, cap: float | None) -> PackWeights | MappedWeights:
    storage = spec.engine.storage
    if storage.mode == "resident":
        return open_resident(folder)
    if storage.mode == "mmap":
        return open_mapped(folder, plan.mapped)
    pinned, threads = plan.layers.pinned, storage.reader_threads
    return open_streamed(folder, plan.ring_slots, storage.chunk_kib, cap, pinned, storage.prefetch, threads)


def _conditions(
    spec: JobSpec, target: Transformer, weights: PackWeights | MappedWeights, plan: DramPlan, cap: float | None
) -> Conditions:
    layers, pinned = layer_sizes(target.source.manifest), set(plan.layers.pinned)
    streamed = [] if plan.mapped else [nbytes for index, nbytes in enumerate(layers) if index not in pinned]
    ahead = plan.ring_slots if spec.engine.storage.prefetch else 0

    known = bandwidth_mb_s(spec.costs, spec.engine) if spec.costs else None
    expected = min((mb_s for mb_s in (known, cap) if mb_s), default=None)

    def bandwidth() -> float | None:
        mb_s = weights.measured_mb_s or expected
        return mb_s * MB if mb_s else None

    load = FlashLoad(sum(streamed), max(1, len(streamed)), ahead)
    return Conditions(target, load, bandwidth, spec.energy, spec.engine.threads)


def _with_costs(spec: JobSpec, target: PackManifest) -> EngineSpec:
    if spec.costs is None:
        return spec.engine
    costs = stream_costs(spec.costs, spec.engine, layer_sizes(target))
    return replace(spec.engine, storage=replace(spec.engine.storage, costs=costs))


def _said_of_costs(spec: JobSpec, io_mode: str) -> str:
    if spec.costs is None:
        return "measured"
    if spec.costs.io_mode != io_mode:
        return f"measured: calibration {spec.costs.key} is for {spec.costs.io_mode} reading, this is {io_mode}"
    return spec.costs.key


def _opened(stack: ExitStack, weights: PackWeights | MappedWeights, spec: JobSpec) -> Transformer:
    stack.callback(weights.close)  # closing twice is harmless, and the kernels may refuse to open
    model = open_transformer(weights, spec.engine.n_ctx, spec.engine.threads)
    stack.callback(model.close)
    return model
