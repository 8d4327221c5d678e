"""Everybody's best settings under a condition, found on calibration prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks import contenders as c
from benchmarks.bench import Bench
from benchmarks.cell import Measured
from benchmarks.contenders import Condition, Contender
from benchmarks.prompts import PromptSet
from benchmarks.scope import TREES
from benchmarks.search import best_of, coarse_to_fine
from device_agent.dram_plan import MB, layer_sizes
from device_agent.protocol import EdgeCalibration, EngineSpec, PackManifest, RoundTrace, StreamCosts

LEAST_K, MOST_K = 1, 12
PLAIN, CHAIN, TREE, LEVER = "autoregressive", "chain", "static_tree", "lever"
EQUAL = "+"  # after a baseline's name: with reading across rounds, pinning and trimming


@dataclass(frozen=True)
class Tuned:
    """Who runs under a condition; `candidates`: seconds a token of all that was tried, on the calibration prompts."""

    contenders: tuple[Contender, ...]
    candidates: dict[str, float] = field(default_factory=dict)


def tune(bench: Bench, condition: Condition, prompts: PromptSet) -> Tuned:
    """Raises CellFailed, OutOfTime."""
    tuning = _Tuning(bench, condition, prompts, {})
    contenders = tuning.flash() if condition.mode == "flash" else tuning.resident()
    return Tuned(contenders, tuning.candidates)


@dataclass(frozen=True)
class _Tuning:
    bench: Bench
    condition: Condition
    prompts: PromptSet
    candidates: dict[str, float]

    def resident(self) -> tuple[Contender, ...]:
        guess = StreamCosts()
        k = self._best_k(True, guess)
        plain, chain = c.plain(self.condition, False, guess), c.chain(self.condition, k, True, guess)
        return Contender(PLAIN, plain), Contender(CHAIN, chain), self._lever(guess)

    def flash(self) -> tuple[Contender, ...]:
        first = self._run(PLAIN, c.plain(self.condition, False, StreamCosts()))
        bandwidth = self.condition.cap_mb_s or read_mb_s(first.rounds)
        plain = self._costs(first, bandwidth)
        k, tree = self._best_k(False, plain), self._best_tree(False, plain)
        practised = (
            Contender(PLAIN, c.plain(self.condition, False, plain)),
            Contender(CHAIN, c.chain(self.condition, k, False, plain)),
            Contender(TREE, c.static_tree(self.condition, TREES[tree], False, plain)),
        )
        chain_costs, tree_costs = (self._costs(self._calibrated(one), bandwidth) for one in practised[1:])
        if self.bench.scope.tune_both:
            k, tree = self._best_k(True, chain_costs), self._best_tree(True, tree_costs)
        equal = (
            Contender(PLAIN + EQUAL, c.plain(self.condition, True, plain)),
            Contender(CHAIN + EQUAL, c.chain(self.condition, k, True, chain_costs)),
            Contender(TREE + EQUAL, c.static_tree(self.condition, TREES[tree], True, tree_costs)),
        )
        return *practised, *equal, self._lever(tree_costs)

    def _best_k(self, features: bool, costs: StreamCosts) -> int:
        def tpot_s(k: int) -> float:
            return self._run(f"{CHAIN}{_mark(features)} k={k}", c.chain(self.condition, k, features, costs)).tpot_s

        return coarse_to_fine(LEAST_K, MOST_K, self.bench.scope.k_step, self.bench.scope.k_fine, tpot_s)[0]

    def _best_tree(self, features: bool, costs: StreamCosts) -> str:
        def tpot_s(name: str) -> float:
            engine = c.static_tree(self.condition, TREES[name], features, costs)
            return self._run(f"{TREE}{_mark(features)} {name}", engine).tpot_s

        return best_of(self.bench.scope.trees, tpot_s)[0]

    def _lever(self, costs: StreamCosts) -> Contender:
        """Its costs and edge calibration come from a run that began with `costs` and the general prior."""
        first = self._run(LEVER, c.lever(self.condition, EdgeCalibration(), costs))
        weights = tuple(float(weight) for weight in first.result.plan["edge_weights"])
        edges = EdgeCalibration("benchmark", weights)
        return Contender(LEVER, c.lever(self.condition, edges, self._costs(first, costs.bandwidth_mb_s)))

    def _run(self, name: str, engine: EngineSpec) -> Measured:
        measured = self._calibrated(Contender(name, engine))
        self.candidates[name] = measured.tpot_s
        return measured

    def _calibrated(self, contender: Contender) -> Measured:
        tokens = self.bench.scope.plain_tokens if contender.name == PLAIN else self.bench.scope.calibration_tokens
        return self.bench.measure(self.condition, contender, self.prompts, tokens)

    def _costs(self, measured: Measured, bandwidth_mb_s: float) -> StreamCosts:
        target = self.bench.store.manifest(self.bench.pair.target_pack)
        return stream_costs(measured.rounds, target, bandwidth_mb_s)


def _mark(features: bool) -> str:
    return EQUAL if features else ""


def stream_costs(rounds: Sequence[RoundTrace], target: PackManifest, bandwidth_mb_s: float) -> StreamCosts:
    """A usual round: medians."""
    return StreamCosts(
        bandwidth_mb_s=bandwidth_mb_s,
        compute_ns_per_byte=median(trace.verify_compute_s for trace in rounds) * 1e9 / sum(layer_sizes(target)),
        draft_s=median(trace.draft_s for trace in rounds),
        projection_s=median(trace.projection_s for trace in rounds),
    )


def read_mb_s(rounds: Sequence[RoundTrace]) -> float:
    """Bytes ÷ time of rounds that do little but read."""
    return sum(trace.read_bytes for trace in rounds) / MB / sum(trace.round_s for trace in rounds)
