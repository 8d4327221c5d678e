"""The measuring itself: a cell is taken from the shelf or run, until the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.agent import CellFailed, run_job
from benchmarks.cell import Measured, job, job_key, key_of
from benchmarks.contenders import N_CTX, Condition, Contender
from benchmarks.llama_cpp import LlamaCpp, LlamaTimes
from benchmarks.memory_budget import budget_mb
from benchmarks.prompts import PromptSet
from benchmarks.python_share import PythonShare, measure_apart
from benchmarks.scope import Scope
from benchmarks.shelf import Shelf
from device_agent.protocol import (
    ENGINE_VERSION,
    CostCalibration,
    EdgeCalibration,
    EngineSpec,
    JobSpec,
    PromptSpec,
    StorageSpec,
)
from orchestrator.models.acceptance import learnt
from orchestrator.models.store import ModelStore, Pair

LEARNING_K = 8  # draft tokens a round while acceptance is learnt
LEARNING_TOKENS = 128


class OutOfTime(Exception):
    """The scope's limit would be passed by another cell."""


@dataclass
class Bench:
    store: ModelStore
    pair: Pair
    scope: Scope
    results: Path
    say: Callable[[str], None]  # a line for whoever watches
    llama: LlamaCpp | None = None
    measured: list[Measured] = field(default_factory=list)  # all that this run rests on

    def __post_init__(self) -> None:
        self.shelf = Shelf(self.results / "cells")
        self.started = time.monotonic()
        self._longest_s = 0.0

    def check_time(self) -> None:
        """Raises OutOfTime when a cell as long as the longest so far would not end in time."""
        spent_s = time.monotonic() - self.started
        if self.scope.limit_s is not None and spent_s + self._longest_s > self.scope.limit_s:
            raise OutOfTime

    def measure(self, condition: Condition, contender: Contender, prompts: PromptSet, tokens: int) -> Measured:
        """Raises CellFailed, OutOfTime."""
        label = f"{condition.name} · {prompts.name} · {contender.name}"
        engine = self.budgeted(contender) if condition.mode == "flash" else contender.engine
        spec = replace(job(self.pair, engine, contender.drafts, prompts, tokens), costs=contender.costs)
        found, is_new = self._job(label, spec)
        if is_new:
            self.say(f"         {label}: [bold]{found.tpot_s:.3f}[/] s a token, {found.result.tags['exactness']}")
        self.measured.append(found)
        return found

    def costs(self, condition: Condition, contender: Contender) -> CostCalibration:
        """What passes cost under `condition`. Raises CellFailed, OutOfTime."""
        engine = self.budgeted(contender) if condition.mode == "flash" else contender.engine
        spec = replace(job(self.pair, engine, True, PromptSet("none", ()), 1), kind="costs")
        label = f"{condition.name} · costs"
        found = self._job(label, spec)[0].result.costs
        if found is None:
            raise CellFailed(f"{label}: the agent gave none", "Remove the results folder and run it again.")
        return replace(found, key="benchmark")

    def edges(self, prompts: tuple[PromptSpec, ...]) -> EdgeCalibration:
        """How often the draft is right, learnt from `prompts`. Raises CellFailed, OutOfTime."""
        engine = EngineSpec("chain", LEARNING_K, storage=StorageSpec("resident"), n_ctx=N_CTX)
        spec = job(self.pair, engine, True, PromptSet("calibration", prompts), LEARNING_TOKENS)
        spec = replace(spec, kind="edges", max_rounds=self.scope.edge_rounds)
        found, _ = self._job("acceptance", spec)
        return learnt(self.pair, spec.sampling, prompts, found.result.edges).edges

    def _job(self, label: str, spec: JobSpec) -> tuple[Measured, bool]:
        """And whether it was run just now."""
        key = job_key(spec)
        kept = self.shelf.find(Measured, key)
        if kept is not None:
            return kept, False
        with self._cell(label):
            found = run_job(label, spec, self.results / "jobs" / key, self.store.packs)
        self.shelf.put(key, found)
        return found, True

    def python_share(self) -> PythonShare:
        """Of a draft pass. Raises LeverError, OutOfTime."""
        pack = self.store.pack_dir(self.pair.draft_pack)
        key = key_of({"engine_version": ENGINE_VERSION, "python_share": self.pair.draft_pack})
        found = self.shelf.find(PythonShare, key)
        if found is None:
            with self._cell("python_share"):
                found = measure_apart(pack)
            self.shelf.put(key, found)
        return found

    def llama_times(self, llama: LlamaCpp, prompts: PromptSet, threads: int, n_ctx: int) -> LlamaTimes:
        """Raises LeverError, OutOfTime."""
        asked = {"prompts": [prompt.token_ids for prompt in prompts.prompts], "tokens": self.scope.tokens}
        key = key_of({"llama_cpp": str(llama.gguf), "threads": threads, "n_ctx": n_ctx} | asked)
        found = self.shelf.find(LlamaTimes, key)
        if found is None:
            with self._cell(f"resident · {prompts.name} · llama.cpp"):
                found = llama.measure(prompts, self.scope.tokens, threads, n_ctx)
            self.shelf.put(key, found)
        return found

    @contextmanager
    def _cell(self, label: str) -> Iterator[None]:
        """Something that takes time, if there is some left."""
        self.check_time()
        self.say(f"[dim]{time.monotonic() - self.started:5.0f} s  {label} …")
        begun = time.monotonic()
        yield
        self._longest_s = max(self._longest_s, time.monotonic() - begun)

    def budgeted(self, contender: Contender) -> EngineSpec:
        draft = self.store.manifest(self.pair.draft_pack) if contender.drafts else None
        budget = budget_mb(self.store.manifest(self.pair.target_pack), draft, contender.engine)
        return replace(contender.engine, dram_budget_mb=budget)
