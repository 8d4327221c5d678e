"""Controllers over an in-memory registry and a scripted executor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from orchestrator.controller import Controller, Timing
from orchestrator.entities import (
    AttemptOrder,
    FailureKind,
    Sweep,
    TrialSpec,
)
from orchestrator.registry.memory import MemoryRegistry
from tests.fakes import farm
from tests.fakes.executor import OutboxTracker, ScriptedExecutor
from tests.fakes.farm import PHONE, HandClock

QUICK = Timing(poll=0.001, lease=60.0, reconcile=0.05, progress=0.5, trouble=0.001, tracker=0.001, farewell=10.0)
DEADLINE_S = 60.0


class ControllerBench:
    """A registry, a scripted executor and controllers over them."""

    def __init__(self, phones: Sequence[str] = (PHONE,), executor: ScriptedExecutor | None = None) -> None:
        self.clock = HandClock()
        self.registry = MemoryRegistry(self.clock)
        self.executor = executor or ScriptedExecutor()
        self.tracker = OutboxTracker()
        for name in phones:
            self.registry.put_device(farm.phone(name))

    def submit(self, specs: Sequence[TrialSpec], sweep: str = "s", most: int | None = None) -> None:
        self.registry.submit(Sweep(f"id-{sweep}", sweep, max_failures=most), specs)

    def controller(self, owner: str = "me", timing: Timing = QUICK, pause: Callable[[], str] = str) -> Controller:
        return Controller(self.registry, self.executor, self.tracker, owner, "here", timing, pause)

    def run(self) -> None:
        """Until nothing is left to do."""
        asyncio.run(asyncio.wait_for(self.controller().run(asyncio.Event(), until_idle=True), DEADLINE_S))

    def during(self, *steps: Callable[[], bool | None], controller: Controller | None = None) -> None:
        """Run a controller and take one step after the other, again and again while it returns False; then stop."""
        asyncio.run(asyncio.wait_for(self._during(steps, controller or self.controller()), DEADLINE_S))

    async def _during(self, steps: Sequence[Callable[[], bool | None]], controller: Controller) -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(controller.run(stop))
        for step in steps:
            while step() is False:
                assert not running.done(), running.exception()
                await asyncio.sleep(0)
        stop.set()
        await running

    def states(self, sweep: str = "s") -> list[str]:
        return [t.state.value for t in self.registry.trials(f"id-{sweep}")]

    def owners(self, sweeps: Sequence[str]) -> set[str]:
        """Of attempts."""
        found = [t.spec.trial_id for sweep in sweeps for t in self.registry.trials(f"id-{sweep}")]
        return {a.owner for trial_id in found for a in self.registry.attempts(trial_id)}

    def started(self, count: int) -> Callable[[], bool]:
        return lambda: len(self.executor.orders) >= count


def fail_first(kind: FailureKind, times: int = 1) -> Callable[[AttemptOrder], FailureKind | None]:
    """The first attempts of every trial fail."""
    seen: dict[str, int] = {}

    def script(order: AttemptOrder) -> FailureKind | None:
        trial_id = str(order.job["trial_id"])
        seen[trial_id] = seen.get(trial_id, 0) + 1
        return kind if seen[trial_id] <= times else None

    return script
