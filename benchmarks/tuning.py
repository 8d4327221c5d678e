"""Everybody's best settings under a condition, found on calibration prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from benchmarks import contenders as c
from benchmarks.bench import Bench
from benchmarks.contenders import Condition, Contender
from benchmarks.prompts import PromptSet
from benchmarks.scope import TREES
from benchmarks.search import best_of, coarse_to_fine
from device_agent.cost_use import bandwidth_mb_s
from device_agent.dram_plan import layer_sizes
from device_agent.protocol import CostCalibration, CostTable, EdgeCalibration, EngineSpec, PackManifest, StreamCosts

LEAST_K, MOST_K = 1, 12
FINALISTS = 2  # trees that are tried again with equal features
PLAIN, CHAIN, TREE, LEVER = "autoregressive", "chain", "static_tree", "lever"
EQUAL = "+"  # after a baseline's name: with reading across rounds, pinning, trimming and requantising


@dataclass(frozen=True)
class Tuned:
    """Who runs under a condition; `candidates`: seconds a token of all that was tried, on the calibration prompts."""

    contenders: tuple[Contender, ...]
    candidates: dict[str, float] = field(default_factory=dict)


def tune(bench: Bench, condition: Condition, prompts: PromptSet, edges: EdgeCalibration) -> Tuned:
    """Raises CellFailed, OutOfTime."""
    lever = Contender(LEVER, c.lever(condition, edges))
    tuning = _Tuning(bench, condition, prompts, bench.costs(condition, lever), {})
    best = Contender(LEVER, lever.engine, tuning.costs)
    contenders = tuning.flash() if condition.mode == "flash" else tuning.resident()
    return Tuned((*contenders, best), tuning.candidates)


@dataclass(frozen=True)
class _Tuning:
    bench: Bench
    condition: Condition
    prompts: PromptSet
    costs: CostCalibration
    candidates: dict[str, float]

    def resident(self) -> tuple[Contender, ...]:
        return Contender(PLAIN, c.plain(self.condition, False)), self._chain(self._best_k(True), True)

    def flash(self) -> tuple[Contender, ...]:
        k, trees = self._best_k(False), self._best_trees(self.bench.scope.trees, False)
        practised = Contender(PLAIN, c.plain(self.condition, False)), self._chain(k, False), self._tree(trees[0], False)
        if self.bench.scope.tune_both:
            k, trees = self._near_k(k, True), self._best_trees(trees[:FINALISTS], True)
        return *practised, self._plain_equal(), self._chain(k, True), self._tree(trees[0], True)

    def _plain_equal(self) -> Contender:
        target = self.bench.store.manifest(self.bench.pair.target_pack)
        bare = c.plain(self.condition, True)
        return Contender(PLAIN + EQUAL, c.plain(self.condition, True, plain_costs(self.costs, bare, target)))

    def _chain(self, k: int, features: bool) -> Contender:
        return self._drafting(CHAIN, c.chain(self.condition, k, features), features)

    def _tree(self, name: str, features: bool) -> Contender:
        return self._drafting(TREE, c.static_tree(self.condition, TREES[name], features), features)

    def _drafting(self, name: str, engine: EngineSpec, features: bool) -> Contender:
        """Without features there is nothing to plan by costs."""
        mark = EQUAL if features and self.condition.mode == "flash" else ""
        return Contender(name + mark, engine, self.costs if features else None)

    def _best_k(self, features: bool) -> int:
        scope = self.bench.scope
        return coarse_to_fine(LEAST_K, MOST_K, scope.k_step, scope.k_fine, partial(self._chain_s, features))[0]

    def _near_k(self, k: int, features: bool) -> int:
        """Cheaper drafts make longer chains pay."""
        near = range(max(LEAST_K, k - 1), min(MOST_K, k + 2) + 1)
        return best_of(near, partial(self._chain_s, features))[0]

    def _chain_s(self, features: bool, k: int) -> float:
        return self._tried(self._chain(k, features), f"k={k}")

    def _best_trees(self, names: Sequence[str], features: bool) -> list[str]:
        """The best first."""
        found = best_of(names, lambda name: self._tried(self._tree(name, features), name))[1]
        return sorted(found, key=found.__getitem__)

    def _tried(self, contender: Contender, setting: str) -> float:
        named = Contender(f"{contender.name} {setting}", contender.engine, contender.costs)
        measured = self.bench.measure(self.condition, named, self.prompts, self.bench.scope.calibration_tokens)
        self.candidates[named.name] = measured.tpot_s
        return measured.tpot_s


def plain_costs(costs: CostCalibration, engine: EngineSpec, target: PackManifest) -> StreamCosts:
    """A round of plain decoding: one token, nothing drafted."""
    return StreamCosts(
        bandwidth_mb_s=bandwidth_mb_s(costs, engine) or StreamCosts.bandwidth_mb_s,
        compute_ns_per_byte=_one(costs.verify) * 1e9 / sum(layer_sizes(target)),
        projection_s=_one(costs.project),
    )


def _one(table: CostTable) -> float:
    sizes, seconds = np.array(table.seconds).T
    return float(np.interp(1, sizes, seconds))
