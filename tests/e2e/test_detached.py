"""A sweep that nobody waits for, on a whole farm by its command line: left, followed, cancelled twice, taken up again,
and measured anew."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.entities import TrialState
from orchestrator.service.down import down
from tests.fakes.live_farm import STREAMED, SWEEP, LiveFarm, decoding, until

pytestmark = pytest.mark.slow
SHORT = (*SWEEP, "workload.limit=1", "sweep=short")
LONG = (*SWEEP, *STREAMED, "workload.limit=1", "workload.max_new_tokens=40", "sweep=long", "schedule.repeats=2")
WITHIN_S = 240.0


@pytest.fixture(scope="module")
def farm() -> Iterator[LiveFarm]:
    with tempfile.TemporaryDirectory(prefix="lever-detached-") as home:
        farm = LiveFarm(Path(home))
        farm.prepare("oneplus12")
        try:
            yield farm
        finally:
            down(farm.settings, print)


def states(farm: LiveFarm, sweep: str) -> list[tuple[TrialState, int]]:
    """Each trial's state, and how often it was tried."""
    with farm.registry() as registry:
        return [(trial.state, trial.attempts) for trial in registry.trials(sweep)]


def test_a_detached_sweep_goes_on_and_is_followed_later(farm: LiveFarm) -> None:
    said = farm.lever(*SHORT, "detach=true", timeout_s=WITHIN_S)  # starts the farm
    assert said.splitlines()[-1].startswith("detached. Follow it: lever attach short"), said
    said = farm.lever("attach", "short", timeout_s=WITHIN_S)
    assert "short: 2 done" in said
    assert states(farm, "short") == [(TrialState.DONE, 1)] * 2


def test_what_is_done_runs_again_only_when_asked(farm: LiveFarm) -> None:
    assert "2 done before, nothing to run" in farm.lever(*SHORT)
    assert states(farm, "short") == [(TrialState.DONE, 1)] * 2
    assert "2 to run" in farm.lever(*SHORT, "on_existing=rerun", timeout_s=WITHIN_S)
    assert states(farm, "short") == [(TrialState.DONE, 2)] * 2


def test_a_sweep_is_cancelled_once_however_often_it_is_said(farm: LiveFarm) -> None:
    farm.lever(*LONG, "detach=true", timeout_s=WITHIN_S)
    with farm.registry() as registry:
        until(lambda: decoding(registry), "an attempt that decodes", WITHIN_S)
    said = farm.lever("cancel", "long")
    assert "cancelled; 3 trials that waited will not run, 1 running attempts are being stopped" in said
    said = farm.lever("cancel", "long")
    assert "nothing to cancel" in said or "0 trials that waited will not run" in said
    until(lambda: {state for state, _ in states(farm, "long")} == {TrialState.CANCELLED}, "all are over", WITHIN_S)
    assert "nothing to cancel" in farm.lever("cancel", "long")
    with farm.registry() as registry:
        assert registry.running() == []
    jobs = farm.home / "phones" / "oneplus12"
    until(lambda: not any(_lives(pid) for pid in jobs.rglob("jobs/*/pid")), "no agent is left on the phone")
    attached = farm.start("attach", "long")
    text, _ = attached.communicate(timeout=WITHIN_S)
    assert attached.returncode == 1
    assert "4 of 4 trials have no result" in text


def _lives(pid_file: Path) -> bool:
    return Path("/proc", pid_file.read_text().strip(), "exe").exists()


def test_a_cancelled_sweep_is_taken_up_again(farm: LiveFarm) -> None:
    said = farm.lever("resume", "long", timeout_s=WITHIN_S)
    assert "0 done before, 0 under way, 4 to run again" in said
    assert "long: 4 done" in said
    assert [state for state, _ in states(farm, "long")] == [TrialState.DONE] * 4
