"""One interleaved run: every prompt set through every condition and contender, which are tuned when first met."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.agent import CellFailed
from benchmarks.bench import Bench, OutOfTime
from benchmarks.cell import Measured
from benchmarks.contenders import N_CTX, PARTS, Condition, Contender, without
from benchmarks.order import rotated
from benchmarks.prompts import Workload
from benchmarks.tuning import PLAIN, Tuned, tune
from device_agent.protocol import EdgeCalibration, EngineSpec
from orchestrator.errors import LeverError

RESIDENT = Condition("resident", "resident")
CAPPED = (Condition("cap_500", "flash", 500.0), Condition("cap_1000", "flash", 1000.0))
UNCAPPED = Condition("uncapped", "flash")
WITHOUT = "lever without "


@dataclass
class Run:
    """What was measured: cells by condition, contender and prompt set."""

    tuned: dict[str, Tuned] = field(default_factory=dict)
    cells: dict[str, dict[str, dict[str, Measured]]] = field(default_factory=dict)
    llama_s: dict[str, float] = field(default_factory=dict)  # llama.cpp's seconds a token by prompt set
    python_share: float | None = None
    failures: list[str] = field(default_factory=list)
    complete: bool = False

    def add(self, condition: str, contender: str, prompts: str, measured: Measured) -> None:
        self.cells.setdefault(condition, {}).setdefault(contender, {})[prompts] = measured

    def tpot_s(self, condition: str, contender: str) -> dict[str, float]:
        """Seconds a token by prompt set."""
        found = self.cells.get(condition, {}).get(contender, {})
        return {name: measured.tpot_s for name, measured in found.items()}


def conditions(bench: Bench) -> tuple[Condition, ...]:
    return (*CAPPED, RESIDENT, *((UNCAPPED,) if bench.scope.uncapped else ()))


def run(bench: Bench, work: Workload) -> Run:
    """All of it, or as much as the scope's time allows. Raises CellFailed when tuning fails."""
    found = Run()
    try:
        edges = bench.edges(work.learning) if bench.scope.edge_rounds else EdgeCalibration()
        for turn in range(len(work.evaluation)):
            for condition in conditions(bench):
                if condition.name not in found.tuned:
                    found.tuned[condition.name] = tune(bench, condition, work.calibration, edges)
                contenders = found.tuned[condition.name].contenders
                everybody = [*contenders, *(_ablated(contenders[-1]) if _ablates(bench, condition) else ())]
                for contender in rotated(everybody, turn):
                    _evaluate(bench, found, condition, contender, work, turn)
            _outside(bench, found, work, turn)
        found.complete = not found.failures
    except OutOfTime:
        bench.say(f"[yellow]The time is over ({bench.scope.limit_s:.0f} s): run it again to go on.")
    return found


def _ablates(bench: Bench, condition: Condition) -> bool:
    return bench.scope.ablation and condition in CAPPED


def _ablated(lever: Contender) -> list[Contender]:
    """Lever with each part switched off that this engine has."""
    engines = {part: without(lever.engine, part) for part in PARTS}
    return [Contender(WITHOUT + part, engine, lever.costs) for part, engine in engines.items() if engine]


def _evaluate(bench: Bench, found: Run, condition: Condition, contender: Contender, work: Workload, turn: int) -> None:
    prompts, scope = work.evaluation[turn], bench.scope
    slow = condition.mode == "flash" and contender.name.startswith((PLAIN, WITHOUT + "drafting"))
    try:
        measured = bench.measure(condition, contender, prompts, scope.plain_tokens if slow else scope.tokens)
    except CellFailed as failure:
        bench.say(f"[red]{failure.message}[/] {failure.remedy}")
        found.failures.append(failure.message)
        return
    found.add(condition.name, contender.name, prompts.name, measured)


def _outside(bench: Bench, found: Run, work: Workload, turn: int) -> None:
    """What is no job of the agent: llama.cpp if asked for, and once Python's share."""
    if bench.llama is not None:
        prompts = work.evaluation[turn]
        try:
            found.llama_s[prompts.name] = bench.llama_times(bench.llama, prompts, EngineSpec.threads, N_CTX).tpot_s
        except LeverError as error:
            found.failures.append(error.message)
    if found.python_share is None:
        found.python_share = bench.python_share().share
