"""The models of one job, opened within its DRAM plan, and closed whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from device_agent.core_binding import held_to
from device_agent.cost_use import bandwidth_mb_s, check_calibrations, stream_costs
from device_agent.dram_plan import MB, DramPlan, layer_sizes, plan_dram
from device_agent.engine.costs import FlashLoad
from device_agent.engine.engine import Engine
from device_agent.engine.strategy import Conditions
from device_agent.model.contents import unchanged
from device_agent.model.mapped_weights import MappedWeights, open_mapped
from device_agent.model.native_pack import native_pack
from device_agent.model.pack import open_pack
from device_agent.model.transformer import Transformer
from device_agent.model.weights import PackWeights, open_resident, open_streamed
from device_agent.placing import DRAFTER, TARGET, Places, as_placed, choose_places, open_placed
from device_agent.protocol import CostCalibration, EngineSpec, JobSpec, PackManifest


@dataclass(frozen=True)
class Session:
    engine: Engine
    target: Transformer
    draft: Transformer | None
    weights: PackWeights | MappedWeights  # the target's
    plan: DramPlan
    cap_mb_s: float | None  # flash bandwidth in force; None: the disk's own
    places: Places
    costs: str  # the calibration of pass costs that is used, or that they were measured, and why
    pass_costs: CostCalibration | None  # that calibration
    reader_cores: tuple[int, ...]  # (): any


@contextmanager
def open_session(spec: JobSpec, folder: Path) -> Iterator[Session]:
    """Raises AgentFailure: pack_corrupt, io_error, budget_too_small, bad_spec; pack_corrupt also at its end.

    `spec` has its cores settled (core_binding.with_cores)."""
    check_calibrations(spec)
    if spec.kind != "decode":
        spec = replace(spec, engine=_whole_vocabulary(spec.engine))
    packs = folder / spec.packs_dir
    target_folder = _as_computed(packs / spec.target_pack, spec.engine)
    draft_folder = _as_computed(packs / spec.draft_pack, spec.engine, draft=True) if spec.draft_pack else None
    packs_used = [open_pack(used) for used in dict.fromkeys((target_folder, draft_folder)) if used]
    target_manifest, draft_manifest = packs_used[0].manifest, packs_used[-1].manifest if draft_folder else None
    plan = plan_dram(target_manifest, draft_manifest, _with_costs(spec, target_manifest))
    cap, trimmed = bandwidth_cap(spec), spec.engine.drafting.trim_vocabulary > 0
    with ExitStack() as opened:
        reader_cores = opened.enter_context(held_to(spec.engine.cores))
        for used in packs_used:
            opened.enter_context(unchanged(used))
        weights = _target_weights(spec, target_folder, plan, cap, reader_cores)
        opened.callback(weights.close)  # closing twice is harmless, and the kernels may refuse to open
        drafter = open_resident(draft_folder, not trimmed, alike=False) if draft_folder else None
        if drafter:
            opened.callback(drafter.close)
        costs = spec.costs if spec.costs and spec.costs.io_mode == weights.io_mode else None
        places = choose_places(spec.engine, weights, drafter, costs, plan.parts)
        target = opened.enter_context(closing(open_placed(weights, spec.engine, places, TARGET)))
        draft = opened.enter_context(closing(open_placed(drafter, spec.engine, places, DRAFTER))) if drafter else None
        costs = as_placed(costs, places) if costs else None
        conditions = replace(_conditions(spec, target, weights, plan, cap), costs=costs)
        engine = Engine(target, draft, spec.engine, spec.sampling, conditions)
        said = _said_of_costs(spec, weights.io_mode)
        yield Session(engine, target, draft, weights, plan, cap, places, said, costs, reader_cores)


def _as_computed(pushed: Path, engine: EngineSpec, draft: bool = False) -> Path:
    """The pack whose weights lie as this device's kernels want them."""
    if not engine.repack or engine.placement != "cpu":  # other devices know no layout of the CPU's
        return pushed
    if draft:
        return native_pack(pushed, engine.drafting.requantize)
    return native_pack(pushed, filling=engine.storage.mode != "resident")


def _whole_vocabulary(engine: EngineSpec) -> EngineSpec:
    """Calibrations are of the draft's whole output projection, whoever uses them."""
    return replace(engine, drafting=replace(engine.drafting, trim_vocabulary=0))


def bandwidth_cap(spec: JobSpec) -> float | None:
    """MB/s that streaming is held to: the slower of what the trial asks and what the virtual phone has."""
    if spec.engine.storage.mode != "flash":
        return None
    caps = [cap for cap in (spec.engine.storage.flash_bandwidth_mb_s, spec.flash_profile_mb_s) if cap]
    return min(caps) if caps else None


def _target_weights(
    spec: JobSpec, folder: Path, plan: DramPlan, cap: float | None, reader_cores: tuple[int, ...]
) -> PackWeights | MappedWeights:
    storage = spec.engine.storage
    if storage.mode == "resident":
        return open_resident(folder)
    if storage.mode == "mmap":
        return open_mapped(folder, plan.mapped)
    pinned, threads = plan.layers.pinned, storage.reader_threads
    slots, prefetch = plan.ring_slots, storage.prefetch
    return open_streamed(folder, slots, storage.chunk_kib, cap, pinned, prefetch, threads, reader_cores)


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
