import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from orchestrator.entities import AttemptOrder, AttemptOutcome, Device, FailureKind, Progress
from orchestrator.errors import PhoneUnreachable
from orchestrator.executor.host_attempts import HostAttempts, Report

ORDER = AttemptOrder("a1", Device("p1", "tcp:127.0.0.1:1", "virtual", "desk", "S1", "/root"), {}, 60.0)
DONE = AttemptOutcome("a1", result={"ok": True})
STEP_S = 10.0


class ScriptedPhone:
    """Runs an attempt in its thread until the test lets it end."""

    def __init__(self) -> None:
        self.report: Report | None = None
        self.started, self.finish = threading.Event(), threading.Event()
        self.runs = 0
        self.stopped: list[str] = []
        self.error: Exception | None = None

    def run(self, order: AttemptOrder, report: Report, cancelled: threading.Event) -> AttemptOutcome:
        self.runs += 1
        self.report = report
        report(Progress(order.attempt_id, "agent_event", {"kind": "started"}))
        self.started.set()
        while not self.finish.wait(0.005):
            if cancelled.is_set():
                return AttemptOutcome(order.attempt_id, failure_kind=FailureKind.CANCELLED)
        if self.error:
            raise self.error
        return DONE

    def stop(self, order: AttemptOrder) -> None:
        if self.error:
            raise self.error
        self.stopped.append(order.attempt_id)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, STEP_S))


def test_progress_then_outcome() -> None:
    async def test() -> None:
        phone = ScriptedPhone()
        phone.finish.set()
        items = [item async for item in HostAttempts(phone.run, phone.stop).run(ORDER)]
        assert items == [Progress("a1", "agent_event", {"kind": "started"}), DONE]

    run(test())


def test_progress_of_every_round_does_not_cross_hosts() -> None:
    async def test() -> None:
        phone = ScriptedPhone()
        running = HostAttempts(phone.run, phone.stop).run(ORDER)
        await anext(running)
        assert phone.report
        for tokens in range(50):
            phone.report(Progress("a1", "agent_event", {"kind": "progress", "data": {"tokens": tokens}}))
        phone.finish.set()
        items = [item async for item in running]
        assert items == [Progress("a1", "agent_event", {"kind": "progress", "data": {"tokens": 0}}), DONE]

    run(test())


def test_a_second_caller_takes_over_and_nothing_is_started_twice() -> None:
    async def test() -> None:
        phone = ScriptedPhone()
        attempts = HostAttempts(phone.run, phone.stop)
        first = attempts.run(ORDER)
        assert isinstance(await anext(first), Progress)
        second = asyncio.ensure_future(anext(attempts.run(ORDER)))
        assert [item async for item in first] == []  # told that it is over for it
        phone.finish.set()
        assert await second == DONE
        assert phone.runs == 1

    run(test())


def test_an_outcome_waits_for_a_caller_that_died_before_it_came() -> None:
    async def test() -> None:
        phone = ScriptedPhone()
        attempts = HostAttempts(phone.run, phone.stop)
        abandoned = attempts.run(ORDER)
        await anext(abandoned)
        phone.finish.set()
        assert await anext(abandoned) == DONE
        assert [item async for item in attempts.run(ORDER)] == [DONE]
        assert phone.runs == 1

    run(test())


def test_stop_ends_what_is_followed_and_what_is_not() -> None:
    async def test() -> None:
        phone = ScriptedPhone()
        attempts = HostAttempts(phone.run, phone.stop)
        running = attempts.run(ORDER)
        await anext(running)
        await attempts.stop(ORDER)
        outcome = await anext(running)
        assert isinstance(outcome, AttemptOutcome)
        assert outcome.failure_kind == FailureKind.CANCELLED
        assert phone.stopped == []
        await HostAttempts(phone.run, phone.stop).stop(ORDER)
        assert phone.stopped == ["a1"]

    run(test())


def test_an_exception_is_an_outcome_that_names_it() -> None:
    async def test() -> None:
        phone = ScriptedPhone()
        phone.error = PhoneUnreachable("phone p1 burnt down")
        phone.finish.set()
        *_, outcome = [item async for item in HostAttempts(phone.run, phone.stop).run(ORDER)]
        assert isinstance(outcome, AttemptOutcome)
        assert outcome.failure_kind == FailureKind.HOST_LOST
        assert outcome.failure_message == "PhoneUnreachable: phone p1 burnt down"

    run(test())
