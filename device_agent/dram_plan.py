"""What a job will hold in DRAM: arithmetic only, so that the host refuses a budget before a phone is touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from device_agent.failure import AgentFailure
from device_agent.protocol import EngineSpec, HyperParams, PackManifest

MB = 1_000_000
INTERPRETER = 60 * MB  # Python, numpy, ggml and this program, measured on x86-64 Linux
GRAPHS = 10 * MB  # cached compute graphs of one model (kernels.decoder.CACHED_LAYERS)
MAX_ROWS = 64  # kernels.base.MAX_ROWS: tokens of one kernel call
KV_STEP = 128  # kernels.base.KV_STEP
PROJECTED_ROWS = 16  # logits held at once: a round's favourite path, or the exactness check's rows and copies
MIN_RING_SLOTS = 2  # one to read into while the other is computed on


@dataclass(frozen=True)
class DramPlan:
    """Bytes by purpose, and what the layers get."""

    parts: dict[str, int]
    ring_slots: int  # 0: all layers pinned
    pinned_layers: int
    budget: int | None

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    def summary(self) -> dict[str, Any]:
        """For JobResult.plan, in MB (10^6 bytes)."""
        sizes = {f"{name}_mb": round(nbytes / MB, 1) for name, nbytes in self.parts.items()}
        budget = {} if self.budget is None else {"budget_mb": round(self.budget / MB, 1)}
        layers = {"ring_slots": self.ring_slots, "pinned_layers": self.pinned_layers}
        return sizes | budget | layers | {"total_mb": round(self.total / MB, 1)}


def plan_dram(target: PackManifest, draft: PackManifest | None, engine: EngineSpec) -> DramPlan:
    """The plan for `engine`; the ring gets as many slots as it asks for and the budget allows.

    Raises AgentFailure(budget_too_small) naming the budget that would do.
    """
    fixed = _fixed_parts(target, draft, engine.n_ctx)
    budget = None if engine.dram_budget_mb is None else int(engine.dram_budget_mb * MB)
    layers = _layer_sizes(target)
    if engine.storage.mode == "resident":
        plan = DramPlan(fixed | {"target_layers": sum(layers)}, 0, len(layers), budget)
        _refuse_beyond(budget, plan.total, "resident layers; storage mode flash needs less")
        return plan
    slot = max(layers)
    least = sum(fixed.values()) + MIN_RING_SLOTS * slot
    _refuse_beyond(budget, least, f"{MIN_RING_SLOTS} ring slots of {slot / MB:.1f} MB")
    slots = engine.storage.ring_slots
    if budget is not None:
        slots = min(slots, (budget - sum(fixed.values())) // slot)
    return DramPlan(fixed | {"target_ring": slots * slot}, slots, 0, budget)


def _refuse_beyond(budget: int | None, needed: int, what: str) -> None:
    if budget is not None and budget < needed:
        enough = -(-needed // MB)
        raise AgentFailure(
            "budget_too_small",
            f"dram_budget_mb={budget / MB:g} is too small: {enough} MB would do, for weights, KV caches and {what}",
        )


def _fixed_parts(target: PackManifest, draft: PackManifest | None, n_ctx: int) -> dict[str, int]:
    """What is there whatever the layers get. Embedding rows are read on demand, unless they double as output."""
    parts = {"interpreter": INTERPRETER, "target_output": _resident_extents(target)}
    parts |= {"target_kv": _kv(target.hyper, n_ctx), "target_compute": _compute(target.hyper, n_ctx)}
    if draft is not None:
        parts["draft_weights"] = _resident_extents(draft) + sum(_layer_sizes(draft))
        parts |= {"draft_kv": _kv(draft.hyper, n_ctx), "draft_compute": _compute(draft.hyper, n_ctx)}
    return parts


def _resident_extents(manifest: PackManifest) -> int:
    sizes = {extent.name: extent.nbytes for extent in manifest.extents}
    return sizes["globals"] + sizes.get("output", sizes["embedding"])


def _layer_sizes(manifest: PackManifest) -> list[int]:
    return [extent.nbytes for extent in manifest.extents if extent.name.startswith("layer.")]


def _kv(hyper: HyperParams, n_ctx: int) -> int:
    slots = -(-n_ctx // KV_STEP) * KV_STEP
    return 2 * 2 * slots * hyper.n_kv_heads * hyper.head_dim * hyper.n_layers  # keys and values, F16


def _compute(hyper: HyperParams, n_ctx: int) -> int:
    """Activations of one call, a whole context's states and masks, logits, graphs."""
    width = hyper.n_heads * hyper.head_dim + 2 * hyper.n_kv_heads * hyper.head_dim + 4 * hyper.d_model + 3 * hyper.d_ff
    activations = 4 * MAX_ROWS * width
    context = n_ctx * (4 * hyper.d_model + 3 * n_ctx)  # states F32; visibility as bool, mask as F16
    return activations + context + 4 * PROJECTED_ROWS * hyper.n_vocab + GRAPHS
