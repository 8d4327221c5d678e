"""An executor that follows a script: which attempts fail how, which wait until they are let go."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeAlias

from orchestrator.entities import AttemptOrder, AttemptOutcome, FailureKind, Progress
from orchestrator.registry.contract import Registry

Script: TypeAlias = Callable[[AttemptOrder], FailureKind | None]
"""How an attempt ends: with this failure, or (None) with a result."""


def well(_order: AttemptOrder) -> FailureKind | None:
    return None


class ScriptedExecutor:
    """`orders` in the order they came. An attempt on a phone in `held` runs until its gate is opened."""

    def __init__(self, script: Script = well, held: Iterable[str] = (), progress: Iterable[Progress] = ()) -> None:
        self._script, self._progress = script, tuple(progress)
        self.orders: list[AttemptOrder] = []
        self.stopped: list[str] = []
        self.held = set(held)
        self.running: set[str] = set()
        self.most_at_once = 0
        self._gates: dict[str, asyncio.Event] = {}

    @property
    def trials(self) -> list[str]:
        return [str(o.job["trial_id"]) for o in self.orders]

    @property
    def tries(self) -> Counter[str]:
        return Counter(self.trials)

    async def run(self, order: AttemptOrder) -> AsyncIterator[Progress | AttemptOutcome]:
        assert order.device.name not in self.running, "one attempt a phone"
        self.orders.append(order)
        self.running.add(order.device.name)
        self.most_at_once = max(self.most_at_once, len(self.running))
        try:
            for progress in self._progress:
                yield progress
            if order.device.name in self.held:
                await self._gate(order.device.name).wait()
            await asyncio.sleep(0)
        finally:
            self.running.discard(order.device.name)
        yield self._outcome(order)

    async def stop(self, order: AttemptOrder) -> None:
        self.stopped.append(order.attempt_id)
        self.release(order.device.name)

    def release(self, phone: str) -> None:
        self._gate(phone).set()

    def _gate(self, phone: str) -> asyncio.Event:
        return self._gates.setdefault(phone, asyncio.Event())

    def _outcome(self, order: AttemptOrder) -> AttemptOutcome:
        if order.attempt_id in self.stopped:
            kind: FailureKind | None = FailureKind.CANCELLED
        else:
            kind = self._script(order)
        if kind is not None:
            return AttemptOutcome(order.attempt_id, failure_kind=kind, failure_message=f"scripted {kind}")
        result = {"trial_id": order.job["trial_id"], "attempt_id": order.attempt_id, "metrics": {}, "tags": {}}
        return AttemptOutcome(order.attempt_id, result=result)


class OutboxTracker:
    """A tracker that delivers everything to a list."""

    def __init__(self) -> None:
        self.delivered: list[tuple[str, str, str | None]] = []

    def drain(self, registry: Registry, limit: int = 100) -> int:
        items = registry.outbox(limit)
        for item in items:
            self.delivered.append((item.kind, item.sweep_id, item.trial_id))
        registry.outbox_done([item.item_id for item in items])
        return len(items)

    def close(self) -> None:
        """Nothing to release."""
