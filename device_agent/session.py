"""The models of one job, opened within its DRAM plan, and closed whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from device_agent.dram_plan import DramPlan, plan_dram
from device_agent.engine.engine import Engine
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
        yield Session(Engine(target, draft, spec.engine, spec.sampling), target, weights, plan, cap)


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
    return open_streamed(folder, plan.ring_slots, storage.chunk_kib, cap, plan.layers.pinned, storage.prefetch)


def _opened(stack: ExitStack, weights: PackWeights | MappedWeights, spec: JobSpec) -> Transformer:
    stack.callback(weights.close)  # closing twice is harmless, and the kernels may refuse to open
    model = open_transformer(weights, spec.engine.n_ctx, spec.engine.threads)
    stack.callback(model.close)
    return model
