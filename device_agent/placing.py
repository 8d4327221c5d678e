"""A job's models, opened on the backends that its placement gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from device_agent.cost_use import usual_round
from device_agent.engine.measuring import DRAFTED, VERIFIED, measure_passes, measure_projection
from device_agent.engine.placement import DRAFT, DRAFT_PROJECT, PROJECT, VERIFY, Offer, Usual, place
from device_agent.failure import AgentFailure
from device_agent.kernels.backends import Backend, list_backends, open_kernels
from device_agent.kernels.placed import PlacedKernels
from device_agent.model.source import WeightSource
from device_agent.model.transformer import Transformer, open_transformer
from device_agent.model.trimmed_output import TrimmedOutput
from device_agent.protocol import BackendCosts, CostCalibration, CostTable, EngineSpec

HELD = {  # parts of the DRAM plan that are a role's memory, wherever it is placed
    VERIFY: ("device_layers", "target_kv", "target_compute"),
    PROJECT: ("target_output",),
    DRAFT: ("draft_weights", "draft_kv", "draft_compute"),
    DRAFT_PROJECT: ("draft_output",),
}
UNABLE = ("bad_spec", "out_of_memory")  # failures of a device that cannot run a model
MODES = ("cpu", "npu", "auto")
TARGET, DRAFTER = (VERIFY, PROJECT), (DRAFT, DRAFT_PROJECT)  # a model's two roles: its layers, its logits


@dataclass(frozen=True)
class Places:
    """Where each role computes, and by whose word."""

    backends: Mapping[str, Backend]  # by role; empty: all on the CPU
    said_by: str  # the setting, or the costs that it was weighed by
    offers: tuple[BackendCosts, ...] = ()  # measured for it

    @property
    def accelerator(self) -> str:
        """none | virtual | the devices that were used beside the CPU."""
        used = {backend.name: backend for backend in self.backends.values() if backend.kind != "cpu"}
        if any(backend.kind == "virtual" for backend in used.values()):
            return "virtual"
        return ", ".join(f"{name} ({backend.device.description})" for name, backend in used.items()) or "none"

    def report(self) -> dict[str, object]:
        """For JobResult.plan. What follows from logits is the CPU's: it has them in its memory."""
        roles = {role: backend.name for role, backend in self.backends.items()}
        return {"placement": roles | {"sampling": "CPU"}, "placement_by": self.said_by} if roles else {}


ALL_ON_CPU = Places({}, "cpu")


def choose_places(
    engine: EngineSpec,
    target: WeightSource,
    draft: WeightSource | None,
    costs: CostCalibration | None,
    parts: Mapping[str, int],
) -> Places:
    """By `engine.placement`; `parts` of the DRAM plan tell what fits where. Raises AgentFailure bad_spec."""
    if engine.placement not in MODES:
        raise AgentFailure("bad_spec", f"placement {engine.placement!r} is not one of {', '.join(MODES)}")
    if engine.placement == "cpu":
        return ALL_ON_CPU
    if engine.storage.mode == "mmap":
        raise AgentFailure("bad_spec", "mapped layers are the page cache's: storage mode mmap needs placement cpu")
    backends = list_backends()
    usual = {role: asked for role, asked in usual_round(engine).items() if draft or role in TARGET}
    if engine.placement == "npu":
        return Places(dict.fromkeys(usual, backends[1]), "npu")
    known = costs.backends if costs else ()
    if {offer.backend for offer in known} != {backend.name for backend in backends}:
        known, said_by = tuple(_measured(backend, engine, target, draft) for backend in backends), "auto: measured"
    else:
        said_by = f"auto: calibration {costs.key}" if costs else ""
    return Places(_choose(backends, known, usual, parts), said_by, known)


def open_placed(source: WeightSource, engine: EngineSpec, places: Places, roles: tuple[str, str]) -> Transformer:
    """A model whose layers and logits are `roles`; closing it closes `source`."""
    if not places.backends:
        return open_transformer(source, engine.n_ctx, engine.threads)
    layers, head = (places.backends[role] for role in roles)
    ran = open_kernels(layers, source, engine.n_ctx, engine.threads)
    if head == layers:
        return Transformer(source, ran)
    projected = open_kernels(head, source, engine.n_ctx, engine.threads)
    return Transformer(source, PlacedKernels(ran, projected))


def as_placed(costs: CostCalibration, places: Places) -> CostCalibration:
    """`costs` of passes on the backends chosen, where they are known for each."""
    tables = {offer.backend: dict(offer.costs) for offer in costs.backends}
    found = {role: tables[b.name][role] for role, b in places.backends.items() if role in tables.get(b.name, {})}
    return replace(costs, **found)  # type: ignore[arg-type]  # roles are named as its fields


def _choose(
    backends: Sequence[Backend], known: Sequence[BackendCosts], usual: Mapping[str, Usual], parts: Mapping[str, int]
) -> dict[str, Backend]:
    named = {backend.name: backend for backend in backends}
    nbytes = {role: sum(parts.get(part, 0) for part in held) for role, held in HELD.items()}
    offers = [Offer(one.backend, dict(one.costs), nbytes, named[one.backend].free_bytes) for one in known]
    return {role: named[name] for role, name in place(offers, usual).backends.items()}


def _measured(backend: Backend, engine: EngineSpec, target: WeightSource, draft: WeightSource | None) -> BackendCosts:
    """Of the roles that `backend` can play. The models are opened for this alone."""
    costs = _model_costs(backend, engine, target, TARGET, VERIFIED)
    if draft:
        costs += _model_costs(backend, engine, draft, DRAFTER, DRAFTED, engine.drafting.trim_vocabulary)
    return BackendCosts(backend.name, costs)


def _model_costs(
    backend: Backend,
    engine: EngineSpec,
    source: WeightSource,
    roles: tuple[str, str],
    sizes: tuple[int, ...],
    trim: int = 0,
) -> tuple[tuple[str, CostTable], ...]:
    """Nothing for an accelerator that lacks an operation of the model, or memory for it."""
    try:
        with closing(open_kernels(backend, source, engine.n_ctx, engine.threads)) as kernels:
            model = Transformer(source, kernels)
            output = TrimmedOutput(source, trim) if trim else None
            passes = measure_passes(model, sizes)
            head = measure_projection(model, lambda x: model.project_onto(x, output) if output else model.project(x))
            return (roles[0], passes.calibrated()), (roles[1], head.calibrated())
    except AgentFailure as failure:
        if backend.kind == "cpu" or failure.kind not in UNABLE:
            raise
        return ()
