"""One attempt that runs: follow its executor to the outcome."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.entities import Attempt, AttemptOrder, AttemptOutcome, FailureKind, Progress, Trial
from orchestrator.errors import LeverError
from orchestrator.executor.contract import Executor

log = logging.getLogger(__name__)


@dataclass
class Following:
    """`task` follows the executor and records the outcome; `stopping` is set once the phone was told to stop."""

    trial: Trial
    attempt: Attempt
    order: AttemptOrder
    alone: bool  # it wants the phone's host for itself
    sweep: str  # on whose account it runs
    task: asyncio.Task[None] | None = None
    stopping: asyncio.Task[None] | None = None
    ended: bool = False  # its outcome is known and being recorded


async def outcome_of(order: AttemptOrder, executor: Executor, note: Callable[[Progress], None]) -> AttemptOutcome:
    """The attempt's outcome; an executor that breaks or ends without one is the host's fault."""
    try:
        async for item in executor.run(order):
            if isinstance(item, AttemptOutcome):
                return item
            note(item)
    except Exception as error:  # an executor's bug costs one attempt, never the loop
        log.exception("attempt %s: its executor broke", order.attempt_id)
        return _lost(order, f"the executor broke: {type(error).__name__}: {error}")
    return _lost(order, "the executor ended without an outcome")


async def stop(order: AttemptOrder, executor: Executor) -> None:
    try:
        await executor.stop(order)
    except LeverError as error:  # it ends by itself or at its deadline; the outcome is recorded as always
        log.warning("attempt %s on %s could not be stopped: %s", order.attempt_id, order.device.name, error)


def _lost(order: AttemptOrder, message: str) -> AttemptOutcome:
    return AttemptOutcome(order.attempt_id, failure_kind=FailureKind.HOST_LOST, failure_message=message)
