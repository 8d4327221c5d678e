"""Real jobs of the agent on a tiny pair."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.agent import CellFailed
from benchmarks.bench import Bench, OutOfTime
from benchmarks.contenders import Condition, Contender, chain, lever
from benchmarks.headroom import headroom
from benchmarks.prompts import PromptSet
from benchmarks.scope import FULL
from device_agent.protocol import PromptSpec
from tests.fakes.tiny_pair import tiny_pair

CAPPED = Condition("cap_500", "flash", 500.0)
PROMPTS = PromptSet("set", (PromptSpec("a", (1, 2, 3)),))
CHAIN = Contender("chain", chain(CAPPED, 2, True))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    store, pair = tiny_pair(tmp_path)
    return Bench(store, replace(pair, stop_token_ids=()), FULL, tmp_path / "results", lambda line: None)


def test_a_cell_is_measured_once(bench: Bench) -> None:
    first = bench.measure(CAPPED, CHAIN, PROMPTS, 6)
    assert first.count("exact") + first.count("tie") == 6
    assert first.rounds
    assert not list((bench.results / "jobs").iterdir())
    again = Bench(bench.store, bench.pair, replace(FULL, limit_s=0.0), bench.results, bench.say)
    assert again.measure(CAPPED, CHAIN, PROMPTS, 6) == first
    with pytest.raises(OutOfTime):  # another would have to be run
        again.measure(CAPPED, CHAIN, PROMPTS, 7)


def test_a_failed_job_says_why_and_where(bench: Bench) -> None:
    nowhere = PromptSet("set", (PromptSpec("a", (10**6,)),))
    with pytest.raises(CellFailed, match="10000"):
        bench.measure(CAPPED, CHAIN, nowhere, 6)
    assert list((bench.results / "jobs").iterdir())
    assert not (bench.results / "cells").exists()


def test_costs_and_acceptance_are_for_those_who_run_by_them(bench: Bench) -> None:
    costs = bench.costs(CAPPED, CHAIN)
    edges = bench.edges((PromptSpec("a", (1, 2, 3)), PromptSpec("b", (4, 5))))
    engine = lever(CAPPED, edges)
    found = bench.measure(CAPPED, Contender("lever", engine, costs), PROMPTS, 6)
    assert found.result.plan["calibration"] == edges.key
    assert found.count("diverged") == 0
    assert headroom(found.rounds, found.result.plan)["free_drafting"] >= 1
