"""From what a calibration recorded to a target's predictor: for each layer, whether pruning after it would pay, and why
not; only the layer that pays best is kept."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from device_agent.protocol import CostCalibration, CostTable, EdgeTrace, LayerPredictor, RecallPoint
from orchestrator.models import bilinear_fit
from orchestrator.models.edge_fit import Array, acceptance, edge_data
from orchestrator.models.predictor_fit import PredictorFit, Recorded, fit_predictor, points, replayed
from orchestrator.models.pruning_worth import PruningWorth, all_trees, pruning_worth
from orchestrator.models.rounds_replay import Costs

RANK = 16
LEAST_PLACES = 400  # fewer say nothing about one accepted token in a hundred
TARGET_RECALL = 0.99
SHARES = (0.5, 0.75, 0.86, 0.93)  # of the layers, after which states are recorded


@dataclass(frozen=True)
class LayerReport:
    """On prompts that the fit did not see; trees are the best of their kind where computing is the limit."""

    layer: int
    auc: float | None  # of edges
    known_auc: float | None  # of what was known beforehand
    recall: float | None  # of tokens that would be accepted; None: no limit keeps enough
    removed: float | None  # share of the wrong nodes that go
    known_removed: float | None  # that would go at this recall by what was known beforehand
    speedup: float  # over the best trees without pruning
    headroom: float  # the same, were exactly the wrong nodes dropped


@dataclass(frozen=True)
class PruningReport:
    useful: bool
    why: str
    places: int = 0
    layers: tuple[LayerReport, ...] = ()


def recorded_layers(n_layers: int) -> tuple[int, ...]:
    return tuple(sorted({max(1, min(n_layers - 1, round(share * n_layers))) for share in SHARES}))


def learn_predictor(
    states: Path, traces: Sequence[EdgeTrace], edge_weights: Sequence[float], costs: CostCalibration, n_layers: int
) -> tuple[PruningReport, tuple[LayerPredictor, ...]]:
    """`edge_weights`: those that `traces`' features are to be weighed with. One layer's predictor, or none."""
    if len(traces) < LEAST_PLACES:
        return PruningReport(False, f"{len(traces)} places are too few to learn from: {LEAST_PLACES} at least"), ()
    known, text = _known(traces, edge_weights), _texts(traces)
    reports: list[LayerReport] = []
    found: list[tuple[PruningWorth, Recorded, PredictorFit]] = []
    with np.load(states) as arrays:
        for layer in sorted(int(name[6:]) for name in arrays if name.startswith("layer_")):
            begins = np.asarray(np.diff(text, prepend=-1) != 0)
            data = Recorded(_maps(arrays, layer), known, edge_data(traces).hits, text, begins)
            fit = fit_predictor(data, RANK)
            trees = all_trees(data, fit.predicted, TARGET_RECALL)
            worth = pruning_worth(trees, layer, layer / n_layers, resident_costs(costs))
            reports.append(_report(worth, fit))
            found.append((worth, data, fit))
    best = max(found, key=lambda one: one[0].speedup)
    report = PruningReport(best[0].useful, _why(best[0]), len(traces), tuple(reports))
    return report, ((_calibrated(*best),) if best[0].useful else ())


def resident_costs(costs: CostCalibration) -> Costs:
    """On the machine that they were measured on, nothing being read."""
    project = dict(costs.project.seconds)
    return Costs(
        draft_s=lambda tokens: _at(costs.draft, tokens) + _at(costs.draft_project, tokens),
        verify_s=lambda tokens: _at(costs.verify, tokens),
        project_s=min(seconds / rows for rows, seconds in project.items()),
    )


def _at(table: CostTable, tokens: Array) -> Array:
    """Linear between what was measured, and beyond as from the start to the end."""
    sizes, seconds = np.array(table.seconds).T
    found: Array = np.interp(tokens, sizes, seconds) * np.maximum(1.0, tokens / sizes[-1])
    return found


def _known(traces: Sequence[EdgeTrace], weights: Sequence[float]) -> Array:
    """(places, children, 4), as engine.predictor.known_features has them."""
    features = edge_data(traces).features
    p = np.clip(acceptance(features, np.array(weights)), 1e-5, 1 - 1e-5)
    return np.stack((np.ones_like(p), np.log(p / (1 - p)), features[..., 2], features[..., 3]), axis=2)


def _texts(traces: Sequence[EdgeTrace]) -> np.ndarray[Any, np.dtype[np.int64]]:
    names = list(dict.fromkeys(trace.request for trace in traces))
    return np.array([names.index(trace.request) for trace in traces], np.int64)


def _maps(arrays: Any, layer: int) -> bilinear_fit.Places:
    at = np.searchsorted(arrays["row_tokens"], arrays["tokens"])
    states, final, rows = (arrays[name].astype(np.float32) for name in (f"layer_{layer}", "final", "rows"))
    return bilinear_fit.Places(states, final, rows, at)


def _report(worth: PruningWorth, fit: PredictorFit) -> LayerReport:
    return LayerReport(
        layer=worth.layer,
        auc=fit.auc,
        known_auc=fit.known_auc,
        recall=worth.point.recall if worth.point else None,
        removed=worth.point.removed if worth.point else None,
        known_removed=worth.known_point.removed if worth.known_point else None,
        speedup=worth.speedup,
        headroom=worth.headroom,
    )


def _why(worth: PruningWorth) -> str:
    if worth.point is None:
        return f"no limit keeps {TARGET_RECALL:.0%} of the tokens that would be accepted"
    known = worth.known_point.removed if worth.known_point else 0.0
    return (
        f"after layer {worth.layer} {worth.point.removed:.0%} of the wrong nodes would go, {known:.0%} by the draft's "
        f"own probabilities; the best trees would be {worth.speedup:.3f} times as fast as without pruning, "
        f"{worth.headroom:.3f} times were no right one ever dropped"
    )


def _calibrated(worth: PruningWorth, data: Recorded, fit: PredictorFit) -> LayerPredictor:
    assert worth.pruned is not None
    found = replayed(data, fit.predicted, worth.pruned.shape)
    at = points(found, found.survival, data.text)
    return LayerPredictor(
        layer=worth.layer,
        rank=RANK,
        maps=base64.b64encode(fit.maps.packed().astype(np.float16).tobytes()).decode(),
        weights=fit.weights,
        points=tuple(RecallPoint(one.recall, one.survival, one.removed) for one in at),
    )
