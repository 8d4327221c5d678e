"""Attempts through a worker on the phone's own host. Ray stays outside: whoever wires this gives it a way to a host."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from device_agent.protocol import from_json, to_json
from orchestrator.entities import AttemptOrder, AttemptOutcome, FailureKind, Progress

PATIENCE_S = 60.0  # a host that stays away longer gives the attempt up; the phone may still finish it
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 5.0


class HostLost(Exception):
    """The worker or its whole host is gone, or was never there; the attempt may go on on its phone."""


class HostHandle(Protocol):
    """A host's worker. Orders and items are JSON-ready, so that hosts need not run the very same code."""

    def run(self, order: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Items as `encode` makes them; asked again for the same attempt it goes on with it. Raises HostLost."""
        ...

    async def stop(self, order: dict[str, Any]) -> None:
        """Raises HostLost."""
        ...


class RemoteExecutor:
    """Executor (executor/contract.py) over host workers; a lost worker is asked again, so nothing is rerun."""

    def __init__(self, host: Callable[[str], HostHandle], patience_s: float = PATIENCE_S) -> None:
        self._host = host
        self._patience_s = patience_s

    async def run(self, order: AttemptOrder) -> AsyncIterator[Progress | AttemptOutcome]:
        losses, wait_s, last_sign = 0, FIRST_WAIT_S, time.monotonic()
        while True:
            try:
                async for data in self._host(order.device.host).run(to_json(order)):
                    item = decode(data)
                    wait_s, last_sign = FIRST_WAIT_S, time.monotonic()
                    yield item
                    if isinstance(item, AttemptOutcome):
                        return
                reason = f"the worker on {order.device.host} ended without an outcome"
            except HostLost as error:
                reason = str(error)
            losses += 1
            if time.monotonic() - last_sign > self._patience_s:
                yield _given_up(order, reason)
                return
            yield Progress(order.attempt_id, "connection_lost", {"host": order.device.host, "reason": reason})
            await asyncio.sleep(wait_s)
            wait_s = min(LONGEST_WAIT_S, wait_s * 2)

    async def stop(self, order: AttemptOrder) -> None:
        try:
            await self._host(order.device.host).stop(to_json(order))
        except HostLost:
            return  # nobody there to stop it; the lease ends and the phone is swept at its next attempt


def encode(item: Progress | AttemptOutcome) -> dict[str, Any]:
    """JSON-ready, with its type's name."""
    return {"type": type(item).__name__, "value": to_json(item)}


def decode(data: dict[str, Any]) -> Progress | AttemptOutcome:
    """Raises WireError for what `encode` did not make."""
    kinds: dict[str, type[Progress | AttemptOutcome]] = {"Progress": Progress, "AttemptOutcome": AttemptOutcome}
    return from_json(kinds[data["type"]], data["value"])


def _given_up(order: AttemptOrder, reason: str) -> AttemptOutcome:
    return AttemptOutcome(
        order.attempt_id,
        failure_kind=FailureKind.HOST_LOST,
        failure_message=f"farm host {order.device.host} with phone {order.device.name} did not come back: {reason}",
    )
