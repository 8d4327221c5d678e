from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from orchestrator.entities import AttemptOrder, AttemptOutcome, FailureKind, Progress
from orchestrator.executor.inline import InlineExecutor
from tests.fakes import farm

ORDER = AttemptOrder("a1", farm.phone(), {}, 60.0)
DONE = AttemptOutcome("a1", result={})


async def items_of(executor: InlineExecutor) -> list[Progress | AttemptOutcome]:
    return [item async for item in executor.run(ORDER)]


def test_reports_and_outcome_come_in_order() -> None:
    def run(order: AttemptOrder, report: Callable[[Progress], None], _cancelled: threading.Event) -> AttemptOutcome:
        for i in range(3):
            report(Progress(order.attempt_id, "agent_event", {"i": i}))
        return DONE

    items = asyncio.run(items_of(InlineExecutor(run)))
    assert items == [*(Progress("a1", "agent_event", {"i": i}) for i in range(3)), DONE]


def test_stop_reaches_the_attempts_thread() -> None:
    def run(_order: AttemptOrder, _report: object, cancelled: threading.Event) -> AttemptOutcome:
        assert cancelled.wait(30)
        return AttemptOutcome("a1", failure_kind=FailureKind.CANCELLED)

    async def stopped() -> AttemptOutcome:
        executor = InlineExecutor(run)
        following = asyncio.create_task(items_of(executor))
        await asyncio.sleep(0)
        await executor.stop(ORDER)
        (outcome,) = await following
        assert isinstance(outcome, AttemptOutcome)
        await executor.stop(ORDER)  # nobody follows it any more: nothing to do
        return outcome

    assert asyncio.run(stopped()).failure_kind is FailureKind.CANCELLED


def test_a_broken_runner_is_heard_of() -> None:
    def run(*_args: object) -> AttemptOutcome:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        asyncio.run(items_of(InlineExecutor(run)))


def test_a_thread_that_outlives_its_listener_does_no_harm() -> None:
    let_go, ended = threading.Event(), threading.Event()

    def run(order: AttemptOrder, report: Callable[[Progress], None], _cancelled: threading.Event) -> AttemptOutcome:
        assert let_go.wait(30)
        report(Progress(order.attempt_id, "agent_event"))
        ended.set()
        return DONE

    async def leave() -> None:
        following = asyncio.create_task(items_of(InlineExecutor(run)))
        await asyncio.sleep(0)
        following.cancel()

    asyncio.run(leave())
    let_go.set()
    assert ended.wait(30)
