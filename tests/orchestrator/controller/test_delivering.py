"""The tracker's thread: nothing that the tracker does reaches the sweep."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.controller.delivering import Delivering
from orchestrator.controller.timing import Timing
from orchestrator.registry.contract import Registry
from orchestrator.registry.memory import MemoryRegistry
from tests.fakes import farm
from tests.fakes.executor import OutboxTracker

NEVER = Timing(tracker=1e6, farewell=30.0)


class Troubled(OutboxTracker):
    """Breaks the first time; one item at a time afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def drain(self, registry: Registry, limit: int = 100) -> int:
        if not self.asked.is_set():
            self.asked.set()
            raise ZeroDivisionError("a bug")
        return super().drain(registry, 1)


@contextmanager
def delivering(tracker: OutboxTracker, registry: Registry, timing: Timing) -> Iterator[None]:
    made = Delivering(tracker, registry, timing)
    made.start()
    yield
    made.stop()


def test_what_is_owed_is_delivered_before_leaving() -> None:
    registry, tracker = MemoryRegistry(), Troubled()
    registry.put_device(farm.phone())
    with delivering(tracker, registry, NEVER):
        assert tracker.asked.wait(30)
        farm.submit(registry, "t1", "t2")
        farm.finish(registry, "t1")
    assert registry.outbox(9) == []
    assert tracker.delivered == [("sweep", "id-s", None), ("trial", "id-s", "t1")]


def test_a_tracker_that_never_gets_done_is_left_behind() -> None:
    registry, tracker = MemoryRegistry(), OutboxTracker()
    let_go = threading.Event()

    class Stuck(OutboxTracker):
        def drain(self, _registry: Registry, limit: int = 100) -> int:
            let_go.wait(30)
            return 0

    farm.submit(registry, "t1")
    with delivering(Stuck(), registry, dataclasses.replace(NEVER, farewell=0.01)):
        pass
    assert len(registry.outbox(9)) == 1
    let_go.set()
    with delivering(tracker, registry, NEVER):
        pass
    assert registry.outbox(9) == []
