"""The order of a run, by a bench whose cells take no time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from benchmarks.agent import CellFailed
from benchmarks.bench import Bench, OutOfTime
from benchmarks.cell import Measured
from benchmarks.contenders import Condition, Contender
from benchmarks.prompts import PromptSet, Workload
from benchmarks.python_share import PythonShare
from benchmarks.run import WITHOUT, run
from benchmarks.scope import FULL, QUICK
from benchmarks.tuning import CHAIN, EQUAL, LEVER, PLAIN, TREE
from device_agent.protocol import ENGINE_VERSION, CostCalibration, CostTable, EdgeCalibration, EngineSpec, PromptSpec
from tests.fakes.measured import measured
from tests.fakes.tiny_pair import tiny_pair

PROMPTS = (PromptSpec("a", (1, 2, 3)),)
WORK = Workload(tuple(PromptSet(f"set-{i}", PROMPTS) for i in range(3)), PromptSet("calibration", PROMPTS), PROMPTS)


@dataclass
class Instant(Bench):
    """Answers at once; a chain of 7 and the tree fork-7 are best."""

    asked: list[tuple[str, str, str]] = field(default_factory=list)
    engines: list[EngineSpec] = field(default_factory=list)
    cells_left: int = 10_000
    broken: str = ""

    def measure(self, condition: Condition, contender: Contender, prompts: PromptSet, tokens: int) -> Measured:
        if self.cells_left == 0:
            raise OutOfTime
        self.cells_left -= 1
        self.asked.append((prompts.name, condition.name, contender.name))
        self.engines.append(contender.engine)
        if contender.name == self.broken:
            raise CellFailed("it broke", "mend it")
        widths = contender.engine.draft_widths
        slow = abs(contender.engine.draft_k - 7) + (2 if widths and len(widths) != 7 else 0)
        return measured(1.0 + slow)

    def costs(self, condition: Condition, contender: Contender) -> CostCalibration:
        known = CostTable(((1, 0.1), (8, 0.4)))
        return CostCalibration(
            ENGINE_VERSION, "t", "d", 2, condition.mode, "direct", known, known, known, known, ((4096, 2, 700.0),)
        )

    def edges(self, prompts: tuple[PromptSpec, ...]) -> EdgeCalibration:
        assert prompts == PROMPTS
        return EdgeCalibration("learnt", (0.0, 1.0, 0.0, 0.0, 0.0))

    def python_share(self) -> PythonShare:
        return PythonShare(0.04, 0.03)


@pytest.fixture
def bench(tmp_path: Path) -> Instant:
    store, pair = tiny_pair(tmp_path)
    return Instant(store, pair, FULL, tmp_path / "results", lambda line: None)


def test_each_set_sees_everybody_before_the_next(bench: Instant) -> None:
    found = run(bench, WORK)
    assert found.complete
    sets = [prompts for prompts, _, _ in bench.asked if prompts != "calibration"]
    assert list(dict.fromkeys(sets)) == ["set-0", "set-1", "set-2"]
    assert sets == sorted(sets)  # none comes back
    everybody = {PLAIN, CHAIN, TREE, PLAIN + EQUAL, CHAIN + EQUAL, TREE + EQUAL, LEVER}
    parts = {WITHOUT + part for part in ("drafting", "prefetch", "pinning", "trimming")}
    for condition in ("cap_500", "cap_1000"):
        assert found.cells[condition].keys() >= everybody | parts
    assert found.cells["uncapped"].keys() == everybody
    assert found.cells["resident"].keys() == {PLAIN, CHAIN, LEVER}


def test_who_is_first_changes_with_the_set(bench: Instant) -> None:
    run(bench, WORK)
    firsts = [
        next(name for prompts, condition, name in bench.asked if (prompts, condition) == (f"set-{i}", "cap_500"))
        for i in range(3)
    ]
    assert len(set(firsts)) == 3


def test_baselines_run_with_what_was_found_best(bench: Instant) -> None:
    found = run(bench, WORK)
    for condition, tuned in found.tuned.items():
        by_name = {contender.name: contender.engine for contender in tuned.contenders}
        for name, engine in by_name.items():
            if name.startswith(CHAIN):
                assert engine.draft_k == 7
            if name.startswith(TREE):
                assert engine.draft_widths == (2, 2, 1, 1, 1, 1, 1)
        assert by_name[LEVER].drafting.edges.weights == (0.0, 1.0, 0.0, 0.0, 0.0)
        told = {contender.name for contender in tuned.contenders if contender.costs is not None}
        if condition == "resident":
            assert told == {CHAIN, LEVER}
        else:
            assert told == {CHAIN + EQUAL, TREE + EQUAL, LEVER}
            assert by_name[PLAIN + EQUAL].storage.costs.projection_s == 0.1
            assert by_name[PLAIN + EQUAL].storage.costs.bandwidth_mb_s == 700.0


def test_time_over_keeps_what_there_is(bench: Instant) -> None:
    bench.scope = replace(QUICK, limit_s=1.0)
    bench.cells_left = 40
    found = run(bench, WORK)
    assert not found.complete
    assert found.cells["cap_500"]


def test_a_failed_cell_is_told_and_the_others_go_on(bench: Instant) -> None:
    bench.broken = TREE + EQUAL
    found = run(bench, WORK)
    assert found.failures
    assert not found.complete
    assert TREE + EQUAL not in found.cells["cap_500"]
    assert len(found.cells["cap_500"][LEVER]) == 3
