"""From the command line to JobReturns, with the real controller in this process and agents that answer at once."""

from __future__ import annotations

import logging
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from orchestrator import settings, wiring
from orchestrator.cli.hydra_app import run_hydra
from orchestrator.cli.main import run
from orchestrator.entities import AttemptOrder, AttemptOutcome, FailureKind, Progress
from orchestrator.errors import TrackingError, TrialsFailed
from orchestrator.registry.contract import Registry
from tests.fakes import trials
from tests.fakes.farm import phone
from tests.fakes.models import FakeModels

SWEEP = ("-m", "pair=smollm2", "runtime=inline", "engine=autoregressive,chain")


class Agents:
    """What phones would do. `fails`: strategies whose attempts fail for good. `interrupts`: Ctrl-C comes while the
    first attempt runs, which goes on until `released`."""

    def __init__(self) -> None:
        self.fails: set[str] = set()
        self.ran: Counter[str] = Counter()
        self.interrupts = False
        self.released = threading.Event()

    def run(self, order: AttemptOrder, _report: Callable[[Progress], None], _cancel: threading.Event) -> AttemptOutcome:
        strategy = order.job["engine"]["strategy"]
        self.ran[strategy] += 1
        if self.interrupts:
            self.interrupts = False
            signal.raise_signal(signal.SIGINT)
            self.released.wait(60)
        if strategy in self.fails:
            return AttemptOutcome(order.attempt_id, failure_kind=FailureKind.BAD_SPEC, failure_message="it says no")
        result = trials.result(order.job["trial_id"], [trials.request([1, 2])], attempt_id=order.attempt_id)
        return AttemptOutcome(order.attempt_id, result=result, attempt_wall_s=1.0)


class SilentTracker:
    """Owes nothing."""

    def drain(self, registry: Registry) -> int:
        for item in (items := registry.outbox(100)):
            registry.outbox_done(item.item_id)
        return len(items)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agents]:
    agents = Agents()
    monkeypatch.setenv("LEVER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LEVER_REGISTRY_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wiring, "attempt_runner", lambda _settings: agents.run)
    monkeypatch.setattr(wiring, "tracker", lambda _settings: SilentTracker())
    monkeypatch.setattr(wiring, "model_store", lambda _settings: FakeModels(smollm2=("t", "d")))
    with closing(wiring.open_registry(settings.load())) as registry:
        registry.put_device(phone("a"))
        registry.put_device(phone("b"))
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield agents
    agents.released.set()
    root.handlers[:], root.level = handlers, level


def phones_of(one: JobReturn) -> list[str]:
    return [str(trial["device"]) for trial in one.return_value]


def test_jobs_return_in_order_with_their_trials_metrics(agents: Agents) -> None:
    plain, chain = run_hydra(SWEEP)
    assert plain.overrides == ["pair=smollm2", "runtime=inline", "engine=autoregressive"]
    assert chain.overrides == ["pair=smollm2", "runtime=inline", "engine=chain"]
    assert plain.status is chain.status is JobStatus.COMPLETED
    assert phones_of(plain) == phones_of(chain) == ["a", "b"]
    assert chain.return_value[0]["metrics"]["tpot_s"] == 0.5
    assert chain.return_value[0]["metrics"]["speedup_over_autoregressive"] == 1.0


def test_what_hydra_writes_is_complete_and_elsewhere(agents: Agents, tmp_path: Path) -> None:
    run_hydra([*SWEEP, "hydra.sweep.dir=out", "workload.max_new_tokens=4"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "out"]
    for number, strategy in enumerate(("autoregressive", "chain")):
        folder = tmp_path / "out" / str(number) / ".hydra"
        assert OmegaConf.load(folder / "config.yaml").engine.strategy == strategy
        assert OmegaConf.load(folder / "hydra.yaml").hydra.job.num == number
        assert f"engine={strategy}" in OmegaConf.load(folder / "overrides.yaml")


def test_a_failing_trial_hides_no_other(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    agents.fails = {"autoregressive"}
    plain, chain = run_hydra(SWEEP)
    assert (plain.status, chain.status) == (JobStatus.FAILED, JobStatus.COMPLETED)
    with pytest.raises(TrialsFailed, match="engine=autoregressive on a: bad_spec: it says no"):
        _ = plain.return_value
    assert phones_of(chain) == ["a", "b"]
    capsys.readouterr()


def test_the_command_ends_with_a_table_of_failures_and_exit_code_1(
    agents: Agents, capsys: pytest.CaptureFixture[str]
) -> None:
    agents.fails = {"autoregressive"}
    assert run(["sweep", *SWEEP]) == 1
    out, err = capsys.readouterr()
    assert "2 done" in out
    assert out.count("it says no") == 2
    assert err.splitlines()[-2] == "error: 1 of 2 configurations failed"


def test_the_same_command_again_runs_only_what_failed(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    agents.fails = {"autoregressive"}
    run(["sweep", *SWEEP])
    agents.fails = set()
    assert run(["sweep", *SWEEP]) == 0
    assert agents.ran == {"autoregressive": 4, "chain": 2}
    assert "4 trials, 2 done before, 2 to run" in capsys.readouterr().err
    assert run(["sweep", *SWEEP]) == 0
    assert "4 trials, 4 done before, nothing to run" in capsys.readouterr().err
    assert sum(agents.ran.values()) == 6


def test_a_new_sweep_of_done_trials_is_told_to_the_tracker(agents: Agents) -> None:
    run_hydra(SWEEP)
    run_hydra([*SWEEP, "sweep=again"])
    assert sum(agents.ran.values()) == 4
    with closing(wiring.open_registry(settings.load())) as registry:
        assert len(registry.trials(registry.sweep("again").sweep_id)) == 4
        assert registry.outbox(10) == []


def test_without_m_it_is_one_configuration(agents: Agents) -> None:
    (one,) = run_hydra(["pair=smollm2", "runtime=inline", "engine=chain", "phones=a"])
    assert phones_of(one) == ["a"]
    assert one.hydra_cfg is not None
    assert one.hydra_cfg.hydra.job.num == 0


def test_sweeps_may_be_given_in_a_file(agents: Agents, tmp_path: Path) -> None:
    (tmp_path / "mine" / "experiment").mkdir(parents=True)
    (tmp_path / "mine" / "experiment" / "study.yaml").write_text(
        "# @package _global_\nhydra:\n  mode: MULTIRUN\n  sweeper:\n    params:\n      engine.drafting.k: 3,5\n"
    )
    returns = run_hydra(["--config-dir", "mine", "+experiment=study", *SWEEP[1:3], "engine=chain", "phones=a"])
    assert [one.cfg.engine.drafting.k for one in returns if one.cfg] == [3, 5]


def test_the_basic_sweeper_works_with_our_launcher(agents: Agents) -> None:
    returns = run_hydra([*SWEEP, "hydra/sweeper=basic", "hydra.sweep.dir=out"])
    assert [one.status for one in returns] == [JobStatus.COMPLETED] * 2


def test_ctrl_c_without_a_terminal_detaches_and_the_same_command_goes_on(
    agents: Agents, capsys: pytest.CaptureFixture[str]
) -> None:
    agents.interrupts = True
    assert run(["sweep", *SWEEP]) == 130
    assert "what waits is kept; the same `lever sweep` command follows it again." in capsys.readouterr().err
    agents.released.set()
    assert run(["sweep", *SWEEP]) == 0
    assert "4 already under way" in capsys.readouterr().err


def test_a_farm_that_cannot_work_is_one_message(
    agents: Agents, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_settings: settings.Settings) -> SilentTracker:
        raise TrackingError("the store is of a newer version", "Upgrade.")

    monkeypatch.setattr(wiring, "tracker", broken)
    assert run(["sweep", *SWEEP]) == 1
    assert "error: the controller ended: the store is of a newer version" in capsys.readouterr().err
