"""A farm in this process, with the real controller and agents that answer at once: for tests of the command line."""

from __future__ import annotations

import logging
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator import settings, wiring
from orchestrator.entities import AttemptOrder, AttemptOutcome, FailureKind, Progress
from orchestrator.executor.host_attempts import RunAttempt
from orchestrator.registry.contract import Registry
from tests.fakes import trials
from tests.fakes.farm import phone
from tests.fakes.models import FakeModels


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
        items = registry.outbox(100)
        registry.outbox_done([item.item_id for item in items])
        return len(items)

    def close(self) -> None:
        """Nothing is open."""


def farm_in_this_process(monkeypatch: pytest.MonkeyPatch, folder: Path, run: RunAttempt) -> None:
    """Commands given in `folder` find phones a and b there, whose attempts are `run`."""
    monkeypatch.setenv("LEVER_HOME", str(folder / "home"))
    monkeypatch.delenv("LEVER_REGISTRY_URL", raising=False)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(wiring, "attempt_runner", lambda _settings: run)
    monkeypatch.setattr(wiring, "tracker", lambda _settings: SilentTracker())
    monkeypatch.setattr(wiring, "model_store", lambda _settings: FakeModels(smollm2=("t", "d")))
    with closing(wiring.open_registry(settings.load())) as registry:
        registry.put_device(phone("a"))
        registry.put_device(phone("b"))


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agents]:
    agents = Agents()
    farm_in_this_process(monkeypatch, tmp_path, agents.run)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield agents
    agents.released.set()
    root.handlers[:], root.level = handlers, level
