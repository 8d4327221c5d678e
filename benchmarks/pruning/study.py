"""What pruning would do: `python -m benchmarks.pruning.study PAIR FOLDER`, on what `collect` wrote to FOLDER.

First the headroom: for each drafter and regime of costs, the speed of the best trees without pruning, and what a
perfect pruner would make of it. Then, for each layer, how much a predictor knows beyond the draft, held out, and what
pruning by it would do. Prints both, writes FOLDER/study.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pruning import dataset
from device_agent.kernels.base import Floats
from device_agent.model.output_rows import OutputTable
from device_agent.model.weights import open_streamed
from orchestrator.models.edge_fit import Array
from orchestrator.models.predictor_fit import fit_predictor
from orchestrator.models.pruning_worth import all_trees, pruning_worth
from orchestrator.models.rounds_replay import Below, Costs
from orchestrator.models.store import ModelStore
from orchestrator.settings import load

RANK = 32
RECALL = 0.99
LAYERS = (7, 14, 21, 24, 25, 26)
PERFECT = (1, 7, 14, 21, 24, 26)  # layers after which a perfect pruner is tried
N_LAYERS = 28
LAYER_BYTES = 0.75e9
PINNED = 0.25  # share of the layers in DRAM
CAPS_MB_S = (500, 1000, 2000, 4000)

Curve = dict[int, float]  # tokens → seconds of a pass
Kernels = dict[str, tuple[Curve, Curve]]  # verification and drafting
Row = dict[str, Any]

PROJECT_S = 0.025  # of the target's output, for each token emitted

# Qwen2.5-Coder 1.5B drafted by 0.5B: seconds of the target's layers and of a draft pass, by tokens.
KERNELS: Kernels = {
    # two threads, weights by rows, measured on a quiet machine
    "rows": (
        {1: 0.080, 2: 0.121, 4: 0.210, 8: 0.330, 16: 0.603, 32: 1.084},
        {1: 0.035, 4: 0.088, 8: 0.126, 16: 0.226, 32: 0.439},
    ),
    # two threads of AVX-512 on a busy machine, the fastest of seven passes: by rows, and interleaved, batches in fours
    "rows512": (
        {1: 0.037, 2: 0.075, 4: 0.114, 8: 0.194, 16: 0.356, 32: 0.712},
        {1: 0.015, 2: 0.030, 4: 0.043, 8: 0.068, 16: 0.112, 32: 0.200},
    ),
    "fours512": (
        {1: 0.072, 4: 0.077, 5: 0.148, 8: 0.152, 16: 0.235, 32: 0.443},
        {1: 0.015, 2: 0.030, 4: 0.043, 8: 0.068, 16: 0.112, 32: 0.200},
    ),
    # one thread, weights in AMX tiles, the draft's by rows: processor seconds on a busy machine
    "tiles": (
        {1: 0.121, 2: 0.164, 4: 0.181, 8: 0.237, 16: 0.302, 32: 0.472},
        {1: 0.063, 2: 0.094, 4: 0.137, 8: 0.209, 16: 0.382, 32: 0.653},
    ),
}
DRAFTERS = {"full": 1.0, "first20": 20 / 24, "lookup": 0.0}  # and what a draft pass costs of the whole draft's
POWER = {"idle_w": 0.5, "busy_w": 3.0, "read_j": 0.42 * LAYER_BYTES * (1 - PINNED) / 1e9}  # two cores of oneplus12


@dataclass(frozen=True)
class Regime:
    name: str
    costs: Callable[[float], Costs]  # of a drafter whose passes cost that share


def regimes(kernels: Kernels, project_s: float) -> Iterator[Regime]:
    for kind, (verify, draft) in kernels.items():
        yield Regime(f"{kind}, resident", _costs(verify, draft, project_s, 0.0))
        for cap in CAPS_MB_S:
            read_s = LAYER_BYTES * (1 - PINNED) / (cap * 1e6)
            yield Regime(f"{kind}, flash {cap} MB/s", _costs(verify, draft, project_s, read_s))
            yield Regime(f"{kind}, flash {cap} MB/s, energy", _costs(verify, draft, project_s, read_s, _joules))


def _costs(verify: Curve, draft: Curve, project_s: float, read_s: float, spent: Any = None) -> Callable[[float], Costs]:
    def of(share: float) -> Costs:
        parts = (lambda n: share * _at(draft, n), lambda n: _at(verify, n), project_s, read_s)
        return Costs(*parts, spent) if spent else Costs(*parts)

    return of


def _joules(busy_s: Array, seconds: Array) -> Array:
    found: Array = POWER["idle_w"] * seconds + POWER["busy_w"] * busy_s + POWER["read_j"]
    return found


def _at(curve: Curve, tokens: Array) -> Array:
    sizes, seconds = np.array(list(curve)), np.array(list(curve.values()))
    found: Array = np.interp(tokens, sizes, seconds) * np.maximum(1.0, tokens / sizes[-1])
    return found


def headrooms(texts: Sequence[dataset.Text], kernels: Kernels) -> Iterator[Row]:
    """A row for each drafter and regime; needs no predictor."""
    for drafter, share in DRAFTERS.items():
        drafted, below = _drafted(texts, drafter)
        data = dataset.recorded(texts, drafted, None, no_rows)
        trees = all_trees(data, data.probabilities(), RECALL, below)
        for regime in regimes(kernels, PROJECT_S):
            costs = regime.costs(share)
            worths = [pruning_worth(trees, layer, layer / N_LAYERS, costs) for layer in PERFECT]
            perfect = {worth.layer: worth.headroom for worth in worths}
            yield {"drafter": drafter, "regime": regime.name, "plain": asdict(worths[0].plain), "perfect": perfect}


def predictors(texts: Sequence[dataset.Text], rows: dataset.Rows, kernels: Kernels) -> Iterator[Row]:
    """A row for each drafter, layer and regime."""
    for drafter, layer in product(DRAFTERS, LAYERS):
        drafted, below = _drafted(texts, drafter)
        data = dataset.recorded(texts, drafted, layer, rows)
        fit = fit_predictor(data, RANK)
        trees = all_trees(data, fit.predicted, RECALL, below)
        for regime in regimes(kernels, PROJECT_S):
            worth = pruning_worth(trees, layer, layer / N_LAYERS, regime.costs(DRAFTERS[drafter]))
            yield {
                "drafter": drafter,
                "layer": layer,
                "regime": regime.name,
                "edges": int(data.hits.size),
                "auc": fit.auc,
                "known_auc": fit.known_auc,
                "recall": worth.point.recall if worth.point else None,
                "removed": worth.point.removed if worth.point else None,
                "known_removed": worth.known_point.removed if worth.known_point else None,
                "speedup": worth.speedup,
                "headroom": worth.headroom,
                "plain": asdict(worth.plain),
                "pruned": asdict(worth.pruned) if worth.pruned else None,
            }


def _drafted(texts: Sequence[dataset.Text], drafter: str) -> tuple[dataset.Drafted, Below | None]:
    if drafter == "lookup":
        return dataset.by_lookup(texts), _chain
    return dataset.by_model(texts, drafter), None


def no_rows(tokens: Sequence[int]) -> Floats:
    return np.zeros((len(tokens), 1), np.float32)


def _chain(value: float, levels: int) -> tuple[float, float]:  # noqa: ARG001  # a Below
    """What is looked up goes on as far as it may."""
    return float(levels), float(levels)


def headroom_line(row: Row) -> str:
    plain = row["plain"]
    perfect = "  ".join(f"{layer}: {ratio:.3f}" for layer, ratio in row["perfect"].items())
    best = f"{plain['rate']:6.2f} with {plain['nodes']:4.1f} nodes"
    return f"{row['drafter']:8} {row['regime']:32} {best}  perfect pruning after layer {perfect}"


def line(row: Row) -> str:
    gone = "–" if row["recall"] is None else f"{row['removed']:.1%} (draft {row['known_removed'] or 0:.1%})"
    who = f"{row['drafter']:8} {row['layer']:3} {row['regime']:32}"
    known = f"AUC {row['known_auc']:.4f} → {row['auc']:.4f}  gone {gone:22}"
    return f"{who} {known} speed {row['speedup']:.3f}  perfect {row['headroom']:.3f}"


def main(pair: str, folder: Path) -> None:
    store = ModelStore(load().models)
    weights = open_streamed(store.packs / store.pair(pair).target_pack, 2, 4096, None)
    texts, found = dataset.load(folder), []
    for row in headrooms(texts, KERNELS):
        found.append(row)
        print(headroom_line(row), flush=True)
    for row in predictors(texts, OutputTable(weights).rows, KERNELS):
        found.append(row)
        print(line(row), flush=True)
    (folder / "study.json").write_text(json.dumps(found, indent=1))
    weights.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
