"""`lever attach`, `resume`, `cancel`, and what `lever sweep` says of other sweeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from orchestrator import settings, wiring
from orchestrator.cli.main import run
from orchestrator.registry.contract import Registry
from tests.fakes.agents import Agents

SWEEP = ("sweep", "-m", "pair=smollm2", "runtime=inline", "engine=autoregressive,chain", "sweep=mine")


@pytest.fixture
def registry(agents: Agents) -> Iterator[Registry]:
    with closing(wiring.open_registry(settings.load())) as registry:
        yield registry


@pytest.fixture
def interrupted(agents: Agents, registry: Registry, capsys: pytest.CaptureFixture[str]) -> Registry:
    """Ctrl-C came while its first trial ran: one runs, three wait."""
    agents.interrupts = True
    assert run(SWEEP) == 130
    agents.released.set()
    capsys.readouterr()
    return registry


def states(registry: Registry) -> list[str]:
    return sorted(t.state.value for t in registry.trials(registry.sweep("mine").sweep_id))


def test_attach_sees_a_sweep_through(interrupted: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["attach", "mine", "--inline"]) == 0
    assert states(interrupted) == ["done"] * 4
    assert "4 done" in capsys.readouterr().out
    assert run(["attach", "mine", "--inline"]) == 0


def test_cancel_ends_a_sweep_once(interrupted: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cancel", "mine"]) == 0
    said = capsys.readouterr().out
    assert "3 trials that waited will not run, 1 running attempts are being stopped. Undo: lever resume mine" in said
    assert "service is not up" in said
    assert states(interrupted) == ["cancelled"] * 3 + ["running"]
    assert run(["attach", "mine", "--inline"]) == 1  # which stops what runs
    capsys.readouterr()
    for _ in range(2):
        assert run(["cancel", "mine"]) == 0
        assert "nothing to cancel" in capsys.readouterr().out


def test_resume_after_cancel_and_failure(
    interrupted: Registry, agents: Agents, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["cancel", "mine"])
    agents.fails = {"chain"}
    assert run(["resume", "mine", "--inline"]) == 1
    assert states(interrupted) == ["done", "done", "failed", "failed"]
    said = capsys.readouterr()
    assert "error: 2 of 4 trials have no result\nRun them again: lever resume mine" in said.err
    agents.fails = set()
    assert run(["resume", "mine", "--inline"]) == 0
    assert "2 done before, 0 under way, 2 to run again" in capsys.readouterr().err
    assert states(interrupted) == ["done"] * 4
    assert run(["resume", "mine", "--inline"]) == 0


@pytest.mark.parametrize("command", ["attach", "resume", "cancel"])
def test_an_unknown_sweep_is_named(interrupted: Registry, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "mien"]) == 2
    assert "Did you mean mine?" in capsys.readouterr().err


def test_a_farm_in_this_process_says_what_else_it_works_on(
    interrupted: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", "pair=smollm2", "runtime=inline", "engine=chain", "workload.max_new_tokens=7"]) == 0
    assert "this process also works on what is not finished: mine" in capsys.readouterr().err


def test_jobs_that_share_trials_are_named(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "-m", "pair=smollm2", "runtime=inline", "engine.drafting.k=3,5", "phones=a"]) == 0
    said = capsys.readouterr().err
    assert "job #1 (engine.drafting.k=5) is the same trial as job #0 (engine.drafting.k=3)" in said
    assert "1 trials, 1 to run" in said


def test_detach_needs_a_farm_that_goes_on(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "pair=smollm2", "runtime=inline", "detach=true"]) == 2
    assert "detach=true" in capsys.readouterr().err


def test_rerun_measures_again(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(SWEEP) == 0
    assert run([*SWEEP, "on_existing=rerun"]) == 0
    assert agents.ran == {"autoregressive": 4, "chain": 4}
