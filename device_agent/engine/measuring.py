"""Cost curves of the two models: calibrated ones, or measured on the device itself before the first request."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from device_agent.engine.costs import CostCurve, RoundModel
from device_agent.engine.drafter import Drafter
from device_agent.engine.strategy import Conditions
from device_agent.kernels.base import Floats
from device_agent.model.transformer import TokenBatch, Transformer
from device_agent.protocol import CostCalibration

VERIFIED = (1, 2, 4, 8, 16, 32)  # tokens of a pass
DRAFTED = (1, 2, 4, 8, 16)
PROJECTED = (1, 2, 4, 8, 16)  # rows
FAR = 512  # attended slots where the cost of attention is measured, if there are as many
FAR_TOKENS = 8

Project = Callable[[Floats], object]
Meanwhile = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class PassCosts:
    """Seconds of the layers by tokens and of the projections by rows."""

    draft: CostCurve
    draft_project: CostCurve
    verify: CostCurve
    project: CostCurve

    @classmethod
    def of(cls, known: CostCalibration) -> PassCosts:
        return cls(*map(CostCurve.of, (known.draft, known.draft_project, known.verify, known.project)))


def measure_costs(
    target: Transformer,
    draft: Transformer,
    project: Project,
    meanwhile: Meanwhile = nullcontext,
    repeats: int = 1,
) -> PassCosts:
    """Overwrites both KV caches; reads the target's layers once.

    `project`: the draft's states onto what it can draft; `meanwhile`: what goes on while the draft is run.
    """
    with meanwhile():
        drafted = measure_passes(draft, DRAFTED, repeats)
        draft_project = measure_projection(draft, project, repeats)
    verified = measure_passes(target, VERIFIED, repeats)
    return PassCosts(drafted, draft_project, verified, measure_projection(target, target.project, repeats))


def measure_rounds(drafter: Drafter, conditions: Conditions) -> RoundModel:
    """What rounds of these models cost, by calibrated costs or measured ones.

    The projection onto a trimmed vocabulary is always measured: it takes milliseconds.
    """
    known, model = conditions.costs, drafter.model
    costs = PassCosts.of(known) if known else measure_costs(conditions.target, model, drafter.project)
    project = measure_projection(model, drafter.project) if known and drafter.output else costs.draft_project
    return RoundModel(
        draft=costs.draft.plus(project),
        verify=costs.verify,
        project=costs.project,
        load=conditions.load,
        bandwidth=conditions.bandwidth,
        energy=conditions.energy,
        cores=conditions.cores,
    )


def measure_passes(model: Transformer, sizes: tuple[int, ...], repeats: int = 1) -> CostCurve:
    """Seconds of a pass over that many tokens, projection aside; overwrites the model's KV cache.

    Streamed layers are read once for all sizes. Each size runs once more than counts, since a first run builds its
    graph; of several repeats the median counts. On static shapes all buckets are measured instead, and what uploading
    streamed layers adds to each pass.
    """
    static = bool(model.kernels.layer_buckets)
    # The largest first: what a driver sets aside for a graph then never has to grow.
    fit = [size for size in model.kernels.layer_buckets[::-1] or sizes if size <= model.n_ctx]
    far = min(FAR, model.n_ctx)
    plan = [(size, size) for size in fit] + [(min(FAR_TOKENS, far), far)] * (far > FAR_TOKENS)
    batches = [batch_in_last_slots(size, n_kv) for size, n_kv in plan for _ in range(1 + repeats)]
    upload_s = _upload_s(model, batches[0]) if static and not model.source.resident else 0.0
    runs = np.reshape(model.time_layers(batches), (len(plan), 1 + repeats))
    seconds = (np.median(runs[:, 1:], axis=1) + upload_s).tolist()
    curve = CostCurve(dict(zip(fit, seconds, strict=False)), static=static)
    if len(plan) > len(fit):
        near = curve.of_one(plan[-1][0])
        per_slot_s = max(0.0, seconds[-1] - near) / (plan[-1][0] * far)
        return CostCurve(dict(zip(fit, seconds, strict=False)), per_slot_s, static)
    return curve


def _upload_s(model: Transformer, batch: TokenBatch) -> float:
    """Seconds that a pass copies layers to the device, those aside that stay there."""
    model.time_layers([batch])
    before = model.kernels.upload_s
    model.time_layers([batch])
    return model.kernels.upload_s - before


def measure_projection(model: Transformer, project: Project, repeats: int = 1) -> CostCurve:
    """Seconds of projecting that many states of `model`; the median of `repeats`, after a first run."""
    found, d_model = {}, model.source.manifest.hyper.d_model
    for rows in model.kernels.head_buckets[::-1] or PROJECTED:
        states = np.ones((rows, d_model), np.float32)
        found[rows] = float(np.median([_seconds(project, states) for _ in range(1 + repeats)][1:]))
    return CostCurve(found, static=bool(model.kernels.head_buckets))


def _seconds(project: Project, states: Floats) -> float:
    started = perf_counter()
    project(states)
    return perf_counter() - started


def batch_in_last_slots(size: int, n_kv: int) -> TokenBatch:
    """`size` tokens in the last of `n_kv` slots, which all of them see."""
    slots = np.arange(n_kv - size, n_kv, dtype=np.int64)
    ids = np.arange(size, dtype=np.int32)
    return TokenBatch(ids, slots.astype(np.int32), slots, np.ones((size, n_kv), np.bool_))
