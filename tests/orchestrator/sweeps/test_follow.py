"""Following a batch: what is shown when, told by a registry that moves while we wait."""

import io
from collections.abc import Callable, Iterator

import pytest
from rich.console import Console

from orchestrator.entities import Attempt, FailureKind, FarmEvent, Sweep, Trial, TrialState
from orchestrator.errors import FarmError
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.sweeps.follow import follow
from orchestrator.sweeps.live_view import open_view, render
from orchestrator.sweeps.progress import SweepProgress
from tests.fakes import farm

Step = Callable[[], object]


@pytest.fixture
def registry() -> MemoryRegistry:
    registry = MemoryRegistry()
    registry.put_device(farm.phone())
    return registry


def scripted(*steps: Step) -> Callable[[float], None]:
    """A pause that lets the farm take its next step; running out of steps is a hang."""
    left: Iterator[Step] = iter(steps)

    def pause(_seconds: float) -> None:
        next(left)()

    return pause


def progress_event(registry: MemoryRegistry, attempt: Attempt, **data: object) -> None:
    registry.add_event(
        FarmEvent(
            "progress", trial_id=attempt.trial_id, attempt_id=attempt.attempt_id, device=attempt.device, data=data
        )
    )


def compare(registry: MemoryRegistry) -> None:
    """What the controller does a moment after a trial's end."""
    for trial in registry.underived(10):
        registry.set_derived(trial.spec.trial_id, {"speedup_over_autoregressive": 2.0}, {})


def watch(registry: MemoryRegistry, steps: list[Step], terminal: bool = False) -> tuple[list[Trial], str]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=200, color_system=None)
    sweep = registry.sweeps()[0].sweep_id
    with open_view(console) as view:
        ended = follow(registry, sweep, ["t1", "t2"], 0, view, scripted(*steps, lambda: compare(registry)))
    return ended, out.getvalue()


def the_story(registry: MemoryRegistry) -> list[Step]:
    """t1 is provisioned, decodes, loses its cable and is done; t2 waits, then fails."""
    attempts: list[Attempt] = []
    return [
        lambda: attempts.append(farm.run(registry, "t1")),
        lambda: progress_event(
            registry, attempts[0], kind="provisioning", step="pack", done_bytes=120_000_000, total_bytes=491_000_000
        ),
        lambda: progress_event(registry, attempts[0], kind="connection_lost"),
        lambda: progress_event(registry, attempts[0], kind="reattached"),
        lambda: registry.finish_attempt(attempts[0], farm.done(attempts[0]), TrialState.DONE, charged=False),
        lambda: attempts.append(farm.run(registry, "t2")),
        lambda: registry.finish_attempt(
            attempts[1], farm.failed(attempts[1], FailureKind.NAN_LOGITS), TrialState.FAILED, charged=True
        ),
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_trials_are_returned_in_order_and_told_as_they_end(registry: MemoryRegistry, terminal: bool) -> None:
    farm.submit(registry, "t1", "t2")
    ended, shown = watch(registry, the_story(registry), terminal)
    assert [(t.spec.trial_id, t.state) for t in ended] == [("t1", TrialState.DONE), ("t2", TrialState.FAILED)]
    assert (ended[0].result or {})["metrics"]["speedup_over_autoregressive"] == 2.0
    assert "TPOT 0.5 s" in shown
    assert "nan_logits: went nan_logits" in shown


def test_plain_lines_tell_every_step_once(registry: MemoryRegistry) -> None:
    farm.submit(registry, "t1", "t2")
    registry.set_waiting_reason({"t2": "oneplus12 is busy"})
    _, shown = watch(registry, the_story(registry))
    told = shown.splitlines()
    assert len(told) == 10, shown
    assert "oneplus12: chain: provisioning pack 120/491 MB" in told
    assert "waiting: 1 oneplus12 is busy" in told
    assert any("connection lost" in line for line in told)


@pytest.mark.parametrize("terminal", [False, True])
def test_an_attempt_that_failed_is_told_though_its_trial_goes_on(registry: MemoryRegistry, terminal: bool) -> None:
    farm.submit(registry, "t1", "t2")
    attempts: list[Attempt] = []
    mishap: list[Step] = [
        lambda: attempts.append(farm.run(registry, "t1")),
        lambda: registry.finish_attempt(
            attempts[0], farm.failed(attempts[0], FailureKind.REBOOTED), TrialState.WAITING, charged=False
        ),
        lambda: farm.finish(registry, "t1"),
        lambda: farm.finish(registry, "t2"),
    ]
    _, shown = watch(registry, mishap, terminal)
    assert shown.count("oneplus12: chain: rebooted, will be tried again: went rebooted") == 1


def test_a_finished_batch_needs_no_wait(registry: MemoryRegistry) -> None:
    farm.submit(registry, "t1", "t2")
    farm.finish(registry, "t1")
    farm.finish(registry, "t2")
    with open_view(Console(file=io.StringIO())) as view:
        ended = follow(registry, "id-s", ["t1", "t2"], 0, view, scripted())
    assert [t.state for t in ended] == [TrialState.DONE] * 2


def test_other_trials_of_a_grown_sweep_are_not_waited_for(registry: MemoryRegistry) -> None:
    farm.submit(registry, "t0", "t1", "t2")
    ended, _ = watch(registry, [lambda: farm.finish(registry, "t1"), lambda: farm.finish(registry, "t2")])
    assert len(ended) == 2


def test_a_cancelled_sweep_is_over_at_the_next_look(registry: MemoryRegistry) -> None:
    farm.submit(registry, "t1", "t2")
    ended, _ = watch(registry, [lambda: registry.cancel(registry.sweeps()[0].sweep_id)])
    assert {t.state for t in ended} == {TrialState.CANCELLED}


def test_a_farm_that_dies_ends_the_following(registry: MemoryRegistry) -> None:
    def dies() -> None:
        raise FarmError("the controller ended")

    farm.submit(registry, "t1", "t2")
    with pytest.raises(FarmError):
        watch(registry, [dies])


def test_a_sweep_of_thousands_still_fits_a_screen(registry: MemoryRegistry) -> None:
    names = [f"p{i}" for i in range(100)]
    for name in names:
        registry.put_device(farm.phone(name))
    specs = [farm.trial(f"t-{name}", name) for name in names]
    registry.submit(Sweep("s", "s"), specs)
    progress = SweepProgress.of(registry.trials("s"))
    for spec in specs[:50]:
        registry.start_attempt(spec.trial_id, str(spec.device), "me", 60.0)
    for event in registry.events():
        progress.apply(event)
    progress.refresh(registry.trials("s"))
    out = io.StringIO()
    Console(file=out, width=120).print(render(progress))
    assert len(out.getvalue().splitlines()) < 24
    assert "and 34 more phones" in out.getvalue()
