from __future__ import annotations

from orchestrator.entities import Sweep, Trial
from orchestrator.errors import TrackingError
from orchestrator.registry.contract import Registry
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.tracking.delivery import Delivery
from tests.fakes import farms
from tests.fakes import trials as fake


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeSink:
    """Remembers what was written; trials in `poison` are refused, and all of them while `down`."""

    def __init__(self) -> None:
        self.trials: list[str] = []
        self.sweeps: list[str] = []
        self.poison: set[str] = set()
        self.down = False
        self.calls = 0

    def write_trial(self, registry: Registry, sweep: Sweep, trial: Trial) -> None:
        self.calls += 1
        if self.down or trial.spec.trial_id in self.poison:
            raise TrackingError("no")
        self.trials.append(trial.spec.trial_id)

    def write_sweep(self, registry: Registry, sweep: Sweep) -> None:
        self.calls += 1
        if self.down:
            raise TrackingError("no")
        self.sweeps.append(sweep.name)

    def reachable(self) -> bool:
        return not self.down

    def close(self) -> None: ...


def ran(names: str) -> MemoryRegistry:
    registry = farms.farm()
    specs = [fake.spec(name) for name in names]
    farms.submit(registry, "s", specs)
    for spec in specs:
        farms.finish(registry, spec)
    return registry


def kinds(registry: Registry) -> list[str]:
    return [e.kind for e in registry.events() if e.kind.startswith("tracking")]


def test_everything_owed_is_written_once_and_the_sweep_last() -> None:
    registry, sink = ran("ab"), FakeSink()
    owed = len(registry.outbox(100))
    assert Delivery(sink).drain(registry) == owed
    assert (sink.trials, sink.sweeps) == (["a", "b"], ["s"])
    assert registry.outbox(100) == []


def test_several_items_of_a_trial_are_one_write() -> None:
    registry, sink = ran("a"), FakeSink()
    registry.set_derived("a", {"speedup_over_autoregressive": 2.0}, {})
    Delivery(sink).drain(registry)
    assert sink.trials == ["a"]
    assert registry.outbox(100) == []


def test_a_trial_that_runs_again_is_left_for_its_newer_item() -> None:
    registry, sink = farms.farm(), FakeSink()
    spec = fake.spec("a")
    farms.submit(registry, "s", [spec])
    farms.fail(registry, spec)
    farms.submit(registry, "s", [spec])
    Delivery(sink).drain(registry)
    assert sink.trials == []
    assert registry.outbox(100) == []


def test_an_outage_keeps_the_outbox_and_is_tried_again_after_a_growing_pause() -> None:
    registry, sink, clock = ran("ab"), FakeSink(), Clock()
    delivery, owed = Delivery(sink, clock), registry.outbox(100)
    sink.down = True
    tries = []
    for tick in range(200):
        clock.now = float(tick)
        before = sink.calls
        assert delivery.drain(registry) == 0
        if sink.calls > before:
            tries.append(tick)
    assert registry.outbox(100) == owed
    assert tries == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    sink.down, clock.now = False, 300.0
    assert delivery.drain(registry) == len(owed)
    assert kinds(registry) == ["tracking_unreachable", "tracking_recovered"]


def test_a_poison_item_is_reported_and_does_not_block_the_rest() -> None:
    registry, sink, clock = ran("abc"), FakeSink(), Clock()
    delivery = Delivery(sink, clock)
    sink.poison = {"a", "b"}
    for _ in range(8):
        delivery.drain(registry, limit=1)
    assert sink.trials == ["c"]
    assert [i.trial_id for i in registry.outbox(100)] == ["a", "b"]
    assert kinds(registry) == ["tracking_failed"] * 2
    sink.poison, clock.now = set(), 31.0
    delivery.drain(registry)
    assert registry.outbox(100) == []
    assert sink.trials == ["c", "a", "b"]


class SlowSink(FakeSink):
    """Writing a sweep's own run takes a second."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def write_sweep(self, registry: Registry, sweep: Sweep) -> None:
        self._clock.now += 1.0
        super().write_sweep(registry, sweep)


def test_a_large_sweeps_own_run_is_written_now_and_then_and_at_its_end() -> None:
    clock, registry = Clock(), farms.farm()
    sink = SlowSink(clock)
    delivery = Delivery(sink, clock)
    specs = [fake.spec(f"t{i}") for i in range(4)]
    farms.submit(registry, "s", specs)
    delivery.drain(registry)
    for spec in specs[:2]:
        farms.finish(registry, spec)
        delivery.drain(registry)
    assert (sink.trials, sink.sweeps) == (["t0", "t1"], ["s"])
    reminders = [item.trial_id for item in registry.outbox(9)]
    assert reminders[0] == "t0"  # a crash now would not forget that the sweep's run is behind
    assert delivery.drain(registry) == 0
    assert sink.trials == ["t0", "t1"]  # and meanwhile nothing is written twice
    clock.now += 60
    delivery.drain(registry)
    assert sink.sweeps == ["s", "s"]
    assert registry.outbox(9) == []
    for spec in specs[2:]:
        farms.finish(registry, spec)
    delivery.drain(registry)
    assert sink.sweeps == ["s"] * 3  # it ended: at once
    assert registry.outbox(9) == []
    registry.set_derived("t3", {"speedup_over_autoregressive": 2.0}, {})
    delivery.drain(registry)
    assert sink.sweeps == ["s"] * 4  # and so is what is known only after the end
    assert registry.outbox(9) == []
