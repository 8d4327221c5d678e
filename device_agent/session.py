"""The models of one job, opened within its DRAM plan, and closed whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from device_agent.dram_plan import MB, DramPlan, layer_sizes, plan_dram
from device_agent.engine.costs import FlashLoad
from device_agent.engine.engine import Engine
from device_agent.engine.strategy import Conditions
from device_agent.model.mapped_weights import MappedWeights, open_mapped
from device_agent.model.pack import open_pack
from device_agent.model.transformer import Transformer, open_transformer
from device_agent.model.weights import PackWeights, open_resident, open_streamed
from device_agent.protocol import JobSpec


@dataclass(frozen=True)
class Session:
    engine: Engine
    target: Transformer
    weights: PackWeights | MappedWeights  # the target's
    plan: DramPlan
    cap_mb_s: float | None  # flash bandwidth in force; None: the disk's own


@contextmanager
def open_session(spec: JobSpec, folder: Path) -> Iterator[Session]:
    """Raises AgentFailure: pack_corrupt, io_error, budget_too_small, bad_spec."""
    packs = folder / spec.packs_dir
    target_folder = packs / spec.target_pack
    draft_folder = packs / spec.draft_pack if spec.draft_pack else None
    draft_manifest = open_pack(draft_folder).manifest if draft_folder else None
    plan = plan_dram(open_pack(target_folder).manifest, draft_manifest, spec.engine)
    cap = bandwidth_cap(spec)
    with ExitStack() as opened:
        weights = _target_weights(spec, target_folder, plan, cap)
        target = _opened(opened, weights, spec)
        draft = _opened(opened, open_resident(draft_folder), spec) if draft_folder else None
        engine = Engine(target, draft, spec.engine, spec.sampling, _conditions(spec, target, weights, plan, cap))
        yield Session(engine, target, weights, plan, cap)


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

    def bandwidth() -> float | None:
        mb_s = weights.measured_mb_s or cap
        return mb_s * MB if mb_s else None

    load = FlashLoad(sum(streamed), max(1, len(streamed)), ahead)
    return Conditions(target, load, bandwidth, spec.energy, spec.engine.threads)


def _opened(stack: ExitStack, weights: PackWeights | MappedWeights, spec: JobSpec) -> Transformer:
    stack.callback(weights.close)  # closing twice is harmless, and the kernels may refuse to open
    model = open_transformer(weights, spec.engine.n_ctx, spec.engine.threads)
    stack.callback(model.close)
    return model
