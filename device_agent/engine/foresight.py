"""Whether a round is worth pruning, and with what: a trial's predictors, and what came of using them."""

from __future__ import annotations

from typing import Any

import numpy as np

from device_agent.engine.economy import Economy
from device_agent.engine.predictor import Predictor, point_at
from device_agent.engine.shrinkage import Shrinkage
from device_agent.engine.tree_pruner import Passed, Price, TreePruner
from device_agent.failure import AgentFailure
from device_agent.model.output_rows import OutputTable
from device_agent.model.transformer import Transformer
from device_agent.protocol import LayerPredictor, PruningSpec

FOLLOWED = 0.2  # weight of a round in what deciding takes


class Foresight:
    """Of one trial."""

    def __init__(self, key: str, known: dict[int, LayerPredictor], recall: float, target: Transformer) -> None:
        self._key = key
        hyper = target.source.manifest.hyper
        points = {layer: point for layer, one in known.items() if (point := point_at(one, recall))}
        self._n_layers = hyper.n_layers
        self._predictors = {layer: Predictor(known[layer], hyper.d_model) for layer in points}
        self._limits = {layer: point.survival for layer, point in points.items()}
        self._output = OutputTable(target.source)
        self._decide_s = 0.0
        self.shrinkage = Shrinkage({layer: 1 - point.removed / 2 for layer, point in points.items()}, self._n_layers)

    def pruner(self, economy: Economy, text: int, draft_s: float, gain: float, tokens: int) -> TreePruner | str:
        """Of a round that drafted for `draft_s`, expects `gain` and verifies `tokens`; or RoundTrace.pruning: why none.

        Nothing goes while reading hides the computing, nor while deciding takes longer than it is expected to save.
        """

        def price(layer: int, before: int) -> Price:
            return economy.finishing(text, draft_s, gain, before, layer / self._n_layers)

        if economy.hidden(text, draft_s, gain, tokens):
            return "hidden"
        first = min(self._predictors)
        left = 1 + (tokens - 1) * self.shrinkage.left[first]
        whole, expected = price(first, tokens)(np.array([float(tokens), left])).tolist()
        if whole - expected <= economy.rates.per_second * self._decide_s:
            return "unprofitable"
        return TreePruner(self._predictors, self._limits, price, self._output)

    def observe(self, tokens: int, pruner: TreePruner) -> tuple[Passed, ...]:
        """`pruner` pruned a round of `tokens`; returns what its layers let through."""
        self._decide_s += FOLLOWED * (pruner.seconds - self._decide_s)
        self.shrinkage.observe(tokens, pruner.passed)
        return tuple(pruner.passed)

    def report(self) -> dict[str, Any]:
        left = {str(layer): round(share, 3) for layer, share in self.shrinkage.left.items()}
        return {"pruning": self._key, "pruning_left_by_layer": left, "pruning_decide_s": round(self._decide_s, 6)}


def foresight(spec: PruningSpec, target: Transformer) -> Foresight | None:
    """None where nothing is to be pruned. Raises AgentFailure bad_spec for layers that no predictor knows."""
    if not spec.enabled or not spec.predictor.layers:
        return None
    known = {one.layer: one for one in spec.predictor.layers}
    if strange := sorted(set(spec.layers) - known.keys()):
        what = f"predictor {spec.predictor.key} knows layers {', '.join(map(str, known))}, not {strange[0]}"
        raise AgentFailure("bad_spec", what)
    n_layers = target.source.manifest.hyper.n_layers
    if deep := [layer for layer in known if layer >= n_layers]:
        what = f"predictor {spec.predictor.key} prunes after layer {deep[0]}, but the target has {n_layers}"
        raise AgentFailure("bad_spec", what)
    wanted = {layer: one for layer, one in known.items() if not spec.layers or layer in spec.layers}
    usable = {layer: one for layer, one in wanted.items() if point_at(one, spec.target_recall)}
    return Foresight(spec.predictor.key, usable, spec.target_recall, target) if usable else None
