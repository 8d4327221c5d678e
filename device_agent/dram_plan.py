"""What a job will hold in DRAM: arithmetic only, so that the host refuses a budget before a phone is touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from device_agent.failure import AgentFailure
from device_agent.layer_split import MIN_RING_SLOTS, FlashCosts, LayerSplit, ring_only, split_layers
from device_agent.pipeline_model import RoundCosts
from device_agent.protocol import EngineSpec, HyperParams, PackManifest, StorageSpec

MB = 1_000_000
INTERPRETER = 60 * MB  # Python, numpy, ggml and this program, measured on x86-64 Linux
GRAPHS = 10 * MB  # cached compute graphs of one model (kernels.decoder.CACHED_LAYERS)
MAX_ROWS = 63  # kernels.base.MAX_ROWS: tokens of one kernel call
KV_STEP = 128  # kernels.base.KV_STEP
STATIC_GRAPHS = 2  # compute buffers of all static shapes, in sizes of the largest
PROJECTED_ROWS = 16  # logits held at once: a round's favourite path, or the exactness check's rows and copies


@dataclass(frozen=True)
class DramPlan:
    """Bytes by purpose, and what the layers get."""

    parts: dict[str, int]
    layers: LayerSplit
    budget: int | None
    mapped: int = 0  # mmap: layers that may stay mapped at a time

    @property
    def ring_slots(self) -> int:
        return self.layers.slots

    @property
    def pinned_layers(self) -> int:
        return len(self.layers.pinned)

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    def summary(self) -> dict[str, Any]:
        """For JobResult.plan, in MB (10^6 bytes)."""
        sizes = {f"{name}_mb": round(nbytes / MB, 1) for name, nbytes in self.parts.items()}
        budget = {} if self.budget is None else {"budget_mb": round(self.budget / MB, 1)}
        mapped = {"mapped_layers": self.mapped} if self.mapped else {}
        pinned = {"pinned_layers": self.pinned_layers, "pinned": list(self.layers.pinned)}
        return (
            sizes | budget | mapped | {"ring_slots": self.ring_slots} | pinned | {"total_mb": round(self.total / MB, 1)}
        )


def plan_dram(target: PackManifest, draft: PackManifest | None, engine: EngineSpec) -> DramPlan:
    """The plan for `engine`; what the fixed parts leave of the budget is split between ring and pinned layers.

    Raises AgentFailure(budget_too_small) naming the budget that would do.
    """
    fixed = _fixed_parts(target, draft, engine.n_ctx, engine.drafting.trim_vocabulary)
    on_device = engine.placement != "cpu"
    fixed |= _device_parts(fixed) if on_device else {}
    budget = None if engine.dram_budget_mb is None else int(engine.dram_budget_mb * MB)
    layers, mode = layer_sizes(target), engine.storage.mode
    if mode == "resident":
        parts = _layer_parts({"target_layers": sum(layers)}, on_device)
        plan = DramPlan(fixed | parts, LayerSplit(0, 0, tuple(range(len(layers)))), budget)
        _refuse_beyond(budget, plan.total, "resident layers; storage mode flash needs less")
        return plan
    largest = max(layers)
    copies = 2 if on_device else 1
    least = sum(fixed.values()) + copies * MIN_RING_SLOTS * largest
    _refuse_beyond(budget, least, f"{MIN_RING_SLOTS} ring slots of {largest / MB:.1f} MB")
    if mode == "mmap":
        return _mapped(fixed, layers, budget)
    split = _split(layers, None if budget is None else (budget - sum(fixed.values())) // copies, engine.storage)
    pinned = sum(layers[index] for index in split.pinned)
    parts = _layer_parts({"target_ring": split.ring_bytes, "target_pinned": pinned}, on_device)
    return DramPlan(fixed | parts, split, budget)


def _device_parts(fixed: dict[str, int]) -> dict[str, int]:
    """An accelerator computes with copies in its own memory, which is a phone's DRAM too. KV caches move there."""
    weights = sum(fixed.get(name, 0) for name in ("target_output", "draft_weights", "draft_output"))
    compute = sum(fixed.get(name, 0) for name in ("target_compute", "draft_compute"))
    return {"device_weights": weights, "device_compute": STATIC_GRAPHS * compute}


def _layer_parts(parts: dict[str, int], on_device: bool) -> dict[str, int]:
    return parts | ({"device_layers": sum(parts.values())} if on_device else {})


def _mapped(fixed: dict[str, int], layers: tuple[int, ...], budget: int | None) -> DramPlan:
    """With a budget, as many layers may stay mapped as fit; without one, the page cache may keep them all."""
    most = len(layers) if budget is None else min(len(layers), (budget - sum(fixed.values())) // max(layers))
    parts = fixed | {"target_mapped": min(sum(layers), most * max(layers))}
    return DramPlan(parts, LayerSplit(0, 0, ()), budget, most)


def _split(layers: tuple[int, ...], spare: int | None, storage: StorageSpec) -> LayerSplit:
    """Without a budget nothing is spare: the ring is as asked for."""
    asked = storage.ring_slots
    if spare is not None and storage.pinning:
        return split_layers(layers, spare, flash_costs(layers, storage))
    if spare is not None and storage.prefetch:
        return ring_only(layers, spare, flash_costs(layers, storage))
    slots = asked if spare is None else min(asked, spare // max(layers))
    return LayerSplit(slots, max(layers), ())


def flash_costs(layers: Sequence[int], storage: StorageSpec) -> FlashCosts:
    """A usual round by the calibrated costs, at the cap if there is one."""
    costs = storage.costs
    speed = min(costs.bandwidth_mb_s, storage.flash_bandwidth_mb_s or costs.bandwidth_mb_s)
    compute_s = costs.compute_ns_per_byte * 1e-9 * sum(layers) / len(layers)
    return FlashCosts(speed * MB, RoundCosts(compute_s, costs.draft_s, costs.projection_s), storage.prefetch)


def _refuse_beyond(budget: int | None, needed: int, what: str) -> None:
    if budget is not None and budget < needed:
        enough = -(-needed // MB)
        raise AgentFailure(
            "budget_too_small",
            f"dram_budget_mb={budget / MB:g} is too small: {enough} MB would do, for weights, KV caches and {what}",
        )


def _fixed_parts(target: PackManifest, draft: PackManifest | None, n_ctx: int, trim: int) -> dict[str, int]:
    """What is there whatever the layers get. Embedding rows are read on demand, unless they double as output."""
    parts = {"interpreter": INTERPRETER, "target_output": _globals(target) + _output(target)}
    parts |= {"target_kv": _kv(target.hyper, n_ctx), "target_compute": _compute(target.hyper, n_ctx)}
    if draft is not None:
        parts["draft_weights"] = _globals(draft) + sum(layer_sizes(draft))
        parts["draft_output"] = _trimmed(draft, trim) if trim else _output(draft)
        parts |= {"draft_kv": _kv(draft.hyper, n_ctx), "draft_compute": _compute(draft.hyper, n_ctx)}
    return parts


def _trimmed(manifest: PackManifest, trim: int) -> int:
    """Some rows of the output projection (model.trimmed_output); the others stay on flash."""
    spec = manifest.output
    return min(trim, spec.shape[1]) * (spec.nbytes // spec.shape[1])


def _globals(manifest: PackManifest) -> int:
    return next(extent.nbytes for extent in manifest.extents if extent.name == "globals")


def _output(manifest: PackManifest) -> int:
    sizes = {extent.name: extent.nbytes for extent in manifest.extents}
    return sizes.get("output", sizes["embedding"])


def layer_sizes(manifest: PackManifest) -> tuple[int, ...]:
    """Bytes of layers 0..L-1."""
    return tuple(extent.nbytes for extent in manifest.extents if extent.name.startswith("layer."))


def _kv(hyper: HyperParams, n_ctx: int) -> int:
    slots = -(-n_ctx // KV_STEP) * KV_STEP
    return 2 * 2 * slots * hyper.n_kv_heads * hyper.head_dim * hyper.n_layers  # keys and values, F16


def _compute(hyper: HyperParams, n_ctx: int) -> int:
    """Activations of one call and its mask, a whole context's states, logits, graphs."""
    width = hyper.n_heads * hyper.head_dim + 2 * hyper.n_kv_heads * hyper.head_dim + 4 * hyper.d_model + 3 * hyper.d_ff
    activations = 4 * MAX_ROWS * width
    context = n_ctx * (4 * hyper.d_model + 3 * MAX_ROWS)  # states F32; visibility as bool, mask as F16
    return activations + context + 4 * PROJECTED_ROWS * hyper.n_vocab + GRAPHS
