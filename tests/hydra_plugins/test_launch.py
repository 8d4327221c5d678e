"""From the command line to JobReturns, with the real controller in this process and agents that answer at once."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from orchestrator import settings, wiring
from orchestrator.cli.hydra_app import run_hydra
from orchestrator.cli.main import run
from orchestrator.errors import ConfigError, TrackingError, TrialsFailed
from tests.fakes.agents import Agents, SilentTracker

SWEEP = ("-m", "pair=smollm2", "runtime=inline", "engine=autoregressive,chain")


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
    returns = run_hydra(["--config-dir", "mine", "experiment=study", *SWEEP[1:3], "engine=chain", "phones=a"])
    assert [one.cfg.engine.drafting.k for one in returns if one.cfg] == [3, 5]


def test_the_basic_sweeper_works_with_our_launcher(agents: Agents) -> None:
    returns = run_hydra([*SWEEP, "hydra/sweeper=basic", "hydra.sweep.dir=out"])
    assert [one.status for one in returns] == [JobStatus.COMPLETED] * 2


def test_ctrl_c_without_a_terminal_detaches_and_the_same_command_goes_on(
    agents: Agents, capsys: pytest.CaptureFixture[str]
) -> None:
    agents.interrupts = True
    assert run(["sweep", *SWEEP]) == 130
    assert "--inline`, or the same `lever sweep` command, follows it again." in capsys.readouterr().err
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


def test_a_multirun_can_be_shown_instead(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", *SWEEP, "--cfg", "job", "--package", "engine"]) == 0
    shown = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [one["strategy"] for one in shown] == ["autoregressive", "chain"]
    assert run(["sweep", *SWEEP, "--cfg", "job", "--package", "egnine"]) == 2
    assert "--package egnine: there is no such part" in capsys.readouterr().err
    assert not agents.ran


def test_a_dry_run_tells_trials_phones_and_hours_and_queues_nothing(
    agents: Agents, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", *SWEEP, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "engine=chain" in out
    assert "a: 2 configurations" in out
    assert "4 trials, 0 done before, 4 to run: not known: nothing like it ever ran here." in out
    with closing(wiring.open_registry(settings.load())) as registry:
        assert registry.sweeps() == []
    run_hydra(SWEEP)
    capsys.readouterr()
    assert run(["sweep", *SWEEP, "schedule.repeats=3", "--dry-run"]) == 0
    assert "12 trials, 4 done before, 8 to run: less than a minute." in capsys.readouterr().out
    assert run(["sweep", *SWEEP, "--dry-run"]) == 0
    assert "4 trials, all done before: nothing to run." in capsys.readouterr().out


def test_python_gets_the_same_as_the_command_line(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    from orchestrator import sweep

    agents.fails = {"autoregressive"}
    result = sweep(*SWEEP[1:])
    assert [row.state for row in result.rows] == ["failed", "failed", "done", "done"]
    assert len(result.failed) == 2
    assert result.records()[2]["tpot_s"] == 0.5
    assert result.name.startswith("smollm2-")
    assert sweep(*SWEEP[1:], dry_run=True).rows == ()
    with pytest.raises(ConfigError, match="engine=chian"):
        sweep("engine=chian")


def test_python_imports_nothing_before_it_is_asked() -> None:
    code = "import sys, orchestrator; assert not {'hydra', 'ray', 'rich'} & set(sys.modules), sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
