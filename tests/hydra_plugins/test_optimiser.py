"""`hydra/sweeper=optimise` with the real controller in this process and agents whose speed follows a known curve."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobStatus
from omegaconf import OmegaConf

from hydra_plugins.lever_farm._study import distribution
from orchestrator import settings, wiring
from orchestrator.cli.hydra_app import run_hydra
from orchestrator.cli.main import run
from orchestrator.entities import AttemptOrder, AttemptOutcome, FailureKind, Progress, Trial, TrialState
from orchestrator.errors import ConfigError
from orchestrator.sweeps import record
from tests.fakes import trials
from tests.fakes.agents import farm_in_this_process

BEST_K = 6
SEARCH = ("-m", "pair=smollm2", "runtime=inline", "phones=any", "hydra/sweeper=optimise", "engine=chain")
SPACE = "engine.drafting.k=range(1,17)"
SETTINGS = ("hydra.sweeper.n_trials=14", "hydra.sweeper.seed=3", "hydra.sweep.dir=out")


class Agents:
    """Fastest at k = 6; more drafting costs more energy. `fails`: values of k that end in an error. `on_third`: what
    happens while the third attempt runs."""

    def __init__(self) -> None:
        self.tried: list[int] = []
        self.fails: set[int] = set()
        self.on_third: Callable[[], object] = lambda: None

    def run(self, order: AttemptOrder, _report: Callable[[Progress], None], _cancel: threading.Event) -> AttemptOutcome:
        k = int(order.job["engine"]["draft_k"])
        self.tried.append(k)
        if len(self.tried) == 3:
            self.on_third()
        if k in self.fails:
            return AttemptOutcome(order.attempt_id, failure_kind=FailureKind.BAD_SPEC, failure_message="no such k")
        metrics = {"tpot_s": 0.1 + 0.01 * abs(k - BEST_K), "energy_j_per_token": 1.0 + 0.1 * k}
        result = trials.result(order.job["trial_id"], metrics=metrics, attempt_id=order.attempt_id)
        return AttemptOutcome(order.attempt_id, result=result, attempt_wall_s=1.0)


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agents:
    made = Agents()
    farm_in_this_process(monkeypatch, tmp_path, made.run)
    return made


def test_it_finds_what_is_best_and_writes_it_down(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    returns = run_hydra([*SEARCH, SPACE, *SETTINGS])
    assert len(returns) == 14
    assert all(one.status is JobStatus.COMPLETED for one in returns)
    assert "Best:\n  tpot_s 0.1" in capsys.readouterr().out
    (best,) = OmegaConf.load("out/optimization_results.yaml").solutions
    assert abs(best.params["engine.drafting.k"] - BEST_K) <= 1
    assert (Path("out") / "0" / ".hydra" / "config.yaml").is_file()


def test_two_objectives_give_a_front(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    both = "hydra.sweeper.objectives=[tpot_s:minimize,energy_j_per_token:minimize]"
    run_hydra([*SEARCH, SPACE, *SETTINGS, both])
    assert "none of which another beats in everything" in capsys.readouterr().out
    front = OmegaConf.load("out/optimization_results.yaml").solutions
    assert {one.params["engine.drafting.k"] for one in front} <= set(range(1, BEST_K + 1))


def test_the_same_search_again_goes_on_where_it_was(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    run_hydra([*SEARCH, SPACE, *SETTINGS])
    tried = len(agents.tried)
    run_hydra([*SEARCH, SPACE, *SETTINGS, "hydra.sweeper.n_trials=16"])
    known = len(set(agents.tried[:tried]))
    assert f"{known} configurations known before" in capsys.readouterr().err
    assert len(agents.tried) - tried <= 16 - known


def test_a_failing_configuration_is_told_as_such_and_the_search_goes_on(
    agents: Agents, capsys: pytest.CaptureFixture[str]
) -> None:
    agents.fails = set(range(1, 17)) - {2, BEST_K, 7, 11}
    assert run(["sweep", *SEARCH, SPACE, *SETTINGS]) == 1
    out, err = capsys.readouterr()
    assert "configurations gave no figure; the first: failed: no such k" in out
    assert "configurations failed" in err


@pytest.mark.parametrize(("setting", "most"), [("schedule.fail_fast=true", 1), ("schedule.max_failures=3", 3)])
def test_failures_end_the_search(agents: Agents, setting: str, most: int, capsys: pytest.CaptureFixture[str]) -> None:
    agents.fails = set(range(1, 17))
    assert run(["sweep", *SEARCH, SPACE, *SETTINGS, "sweep=mine", setting]) == 1
    assert "configurations failed" in capsys.readouterr().err
    counts = Counter(trial.state for trial in stored())
    assert counts[TrialState.FAILED] >= most
    assert most <= len(agents.tried) <= most + 2  # what had been asked for meanwhile


def test_failures_of_an_earlier_search_are_not_held_against_a_new_one(agents: Agents) -> None:
    agents.fails = set(range(1, 17))
    run(["sweep", *SEARCH, SPACE, *SETTINGS, "sweep=mine", "schedule.max_failures=2"])
    agents.fails = set()
    assert run(["sweep", *SEARCH, SPACE, *SETTINGS, "sweep=mine", "schedule.max_failures=2"]) == 0


def test_on_existing_rerun_measures_anew(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    run_hydra([*SEARCH, SPACE, *SETTINGS])
    before = len(agents.tried)
    run_hydra([*SEARCH, SPACE, *SETTINGS, "on_existing=rerun", "sweep=other"])
    assert "other: 0 configurations known before" in capsys.readouterr().err
    assert len(agents.tried) - before == len(set(agents.tried[before:])) > 1  # each once, however often it is asked for


@pytest.mark.parametrize("asked", [3, 8], ids=["nothing waits", "some wait"])
def test_a_search_that_is_cancelled_elsewhere_ends(agents: Agents, asked: int) -> None:
    def cancel() -> None:
        with closing(wiring.open_registry(settings.load())) as registry:
            registry.cancel(registry.sweep("mine").sweep_id)

    agents.on_third = cancel
    assert run(["sweep", *SEARCH, SPACE, *SETTINGS, "sweep=mine", f"hydra.sweeper.n_trials={asked}"]) == 1
    assert len(agents.tried) <= 4
    assert not {trial.state for trial in stored()} & {TrialState.WAITING, TrialState.RUNNING}


def test_the_record_grows_and_asks_git_once(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def revision(checkout: Path) -> str:
        asked.append(checkout)
        return "abc"

    monkeypatch.setattr(record, "git_revision", revision)
    run_hydra([*SEARCH, SPACE, *SETTINGS, "sweep=mine", "hydra.sweeper.n_trials=4"])
    run_hydra([*SEARCH, SPACE, *SETTINGS, "sweep=mine", "hydra.sweeper.n_trials=6"])
    assert len(asked) == 2
    with closing(wiring.open_registry(settings.load())) as registry:
        found = registry.sweep("mine").record
    assert found["packs"] == ["d", "t"]
    known = {override for overrides in found["overrides"] for override in overrides}
    assert {f"engine.drafting.k={k}" for k in agents.tried} <= known


def stored() -> list[Trial]:
    with closing(wiring.open_registry(settings.load())) as registry:
        return registry.trials("mine")


def test_an_objective_that_nothing_has_is_named(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", *SEARCH, SPACE, "hydra.sweeper.n_trials=2", "hydra.sweeper.objectives=[speed:maximize]"]) == 2
    assert "it has no speed; metrics: energy_j_per_token, tpot_s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((SPACE, "hydra.sweeper.objectives=[tpot_s:down]"), "tpot_s:down has no direction that is known"),
        ((SPACE, "hydra.sweeper.sampler=best"), "hydra.sweeper.sampler='best' is not known"),
        ((SPACE, "hydra.sweeper.n_trials=0"), "hydra.sweeper.n_trials=0 is out of range"),
        (("engine.drafting.k=3",), "nothing is left to optimise"),
        ((SPACE, "pair=qwen-coder"), "model pair 'qwen-coder' is not added"),
        ((SPACE, "engine.thraeds=2"), "Could not override 'engine.thraeds'"),
        ((SPACE, "runtime=ray", "detach=true"), "detach=true: this process asks for each configuration"),
        ((SPACE, "on_existing=skip,rerun"), "on_existing cannot be searched"),
        ((SPACE, "schedule.max_failures=choice(1,2)"), "schedule.max_failures cannot be searched"),
    ],
)
def test_bad_searches_are_refused(
    agents: Agents, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", *SEARCH, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert agents.tried == []


def test_a_dry_run_shows_the_first_configurations(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", *SEARCH, SPACE, *SETTINGS, "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert "engine.drafting.k=" in out
    assert re.search(r"\d trials, 0 done before, \d to run: not known", out)
    assert "Optimises tpot_s (minimize). And 6 more configurations" in err
    assert agents.tried == []


@pytest.mark.parametrize(
    ("override", "shown"),
    [
        ("a=choice(x,y)", "CategoricalDistribution(choices=('x', 'y'))"),
        ("a=1,2,3", "CategoricalDistribution(choices=(1, 2, 3))"),
        ("a=range(2,10,3)", "IntDistribution(high=8, log=False, low=2, step=3)"),
        ("a=range(5)", "IntDistribution(high=4, log=False, low=0, step=1)"),
        ("a=interval(0.5,2)", "FloatDistribution(high=2.0, log=False, low=0.5, step=None)"),
        ("a=tag(log,range(1,65))", "IntDistribution(high=64, log=True, low=1, step=1)"),
    ],
)
def test_hydras_sweeps_become_distributions(override: str, shown: str) -> None:
    (parsed,) = OverridesParser.create().parse_overrides([override])
    found: Any = distribution(parsed)
    assert str(found) == shown


def test_a_sweep_that_cannot_be_searched_is_refused() -> None:
    (parsed,) = OverridesParser.create().parse_overrides(["a=range(0.1,0.9,0.2)"])
    with pytest.raises(ConfigError, match="cannot be searched"):
        distribution(parsed)
