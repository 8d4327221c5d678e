"""Cost curves of the two models, measured on the device itself before the first request."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

from device_agent.engine.costs import CostCurve, RoundModel
from device_agent.engine.drafter import Drafter
from device_agent.engine.strategy import Conditions
from device_agent.kernels.base import Floats
from device_agent.model.transformer import TokenBatch, Transformer

VERIFIED = (1, 2, 4, 8, 16, 32)  # tokens of a pass
DRAFTED = (1, 2, 4, 8, 16)
PROJECTED = (1, 2, 4, 8, 16)  # rows
FAR = 512  # attended slots where the cost of attention is measured, if there are as many
FAR_TOKENS = 8

Project = Callable[[Floats], object]


def measure_rounds(drafter: Drafter, conditions: Conditions) -> RoundModel:
    """What rounds of these models cost. Overwrites both KV caches; reads the target's layers once."""
    target, draft = conditions.target, drafter.model
    return RoundModel(
        draft=measure_passes(draft, DRAFTED).plus(measure_projection(draft, drafter.project)),
        verify=measure_passes(target, VERIFIED),
        project=measure_projection(target, target.project),
        load=conditions.load,
        bandwidth=conditions.bandwidth,
        energy=conditions.energy,
        cores=conditions.cores,
    )


def measure_passes(model: Transformer, sizes: tuple[int, ...]) -> CostCurve:
    """Seconds of a pass over that many tokens, projection aside; overwrites the model's KV cache.

    Streamed layers are read once for all sizes. Each size runs twice, since a first run builds its graph.
    """
    fit = [size for size in sizes if size <= model.n_ctx]
    far = min(FAR, model.n_ctx)
    plan = [(size, size) for size in fit] + [(min(FAR_TOKENS, far), far)] * (far > FAR_TOKENS)
    batches = [_batch(size, n_kv) for size, n_kv in plan for _ in range(2)]
    seconds = model.time_layers(batches)[1::2]
    curve = CostCurve(dict(zip(fit, seconds, strict=False)))
    if len(plan) > len(fit):
        near = float(curve.seconds(np.array([float(plan[-1][0])]))[0])
        return CostCurve(dict(zip(fit, seconds, strict=False)), max(0.0, seconds[-1] - near) / (plan[-1][0] * far))
    return curve


def measure_projection(model: Transformer, project: Project) -> CostCurve:
    """Seconds of projecting that many states of `model`."""
    found, d_model = {}, model.source.manifest.hyper.d_model
    for rows in PROJECTED:
        states = np.ones((rows, d_model), np.float32)
        project(states)
        started = perf_counter()
        project(states)
        found[rows] = perf_counter() - started
    return CostCurve(found)


def _batch(size: int, n_kv: int) -> TokenBatch:
    """`size` tokens in the last of `n_kv` slots, which all of them see."""
    slots = np.arange(n_kv - size, n_kv, dtype=np.int64)
    ids = np.arange(size, dtype=np.int32)
    return TokenBatch(ids, slots.astype(np.int32), slots, np.ones((size, n_kv), np.bool_))
