"""The attempts that one farm host follows, one thread each; a caller that comes back finds its attempt again."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from orchestrator.entities import AttemptOrder, AttemptOutcome, FailureKind, Progress
from orchestrator.executor.thinning import Thinning

Report: TypeAlias = Callable[[Progress], None]
RunAttempt: TypeAlias = Callable[[AttemptOrder, Report, threading.Event], AttemptOutcome]
"""(order, report, cancelled) → outcome; blocking. Starts the attempt on its phone or re-attaches to it."""

StopAttempt: TypeAlias = Callable[[AttemptOrder], None]
"""Blocking; ends an attempt on its phone that nobody here follows. Raises PhoneError."""

MOST_THREADS = 256  # phones on one host's USB hubs; threads are made when needed
KEPT_OUTCOMES = 64  # for callers that died before they got theirs


class HostAttempts:
    """Lives in one event loop."""

    def __init__(self, run_attempt: RunAttempt, stop_attempt: StopAttempt) -> None:
        self._run_attempt, self._stop_attempt = run_attempt, stop_attempt
        self._followed: dict[str, _Followed] = {}
        self._outcomes: OrderedDict[str, AttemptOutcome] = OrderedDict()
        self._thinning = Thinning()
        self._threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="attempt")

    async def run(self, order: AttemptOrder) -> AsyncIterator[Progress | AttemptOutcome]:
        """Progress from now on and the outcome. A second caller for the same attempt takes over; the first one's
        iteration ends without an outcome."""
        if (outcome := self._outcomes.get(order.attempt_id)) is not None:
            yield outcome
            return
        followed = self._followed.get(order.attempt_id) or self._follow(order)
        queue = followed.take_over()
        while (item := await queue.get()) is not None:
            yield item

    async def stop(self, order: AttemptOrder) -> None:
        """End the attempt on its phone. Raises PhoneError when nobody follows it and the phone does not answer."""
        if followed := self._followed.get(order.attempt_id):
            followed.cancelled.set()
            await asyncio.wait([followed.done])
        elif order.attempt_id not in self._outcomes:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._stop_attempt, order)

    def _follow(self, order: AttemptOrder) -> _Followed:
        followed = self._followed[order.attempt_id] = _Followed(self._thinning)
        followed.done = asyncio.get_running_loop().run_in_executor(self._threads, self._work, order, followed)
        followed.done.add_done_callback(lambda done: self._finished(order, followed, done))
        return followed

    def _work(self, order: AttemptOrder, followed: _Followed) -> AttemptOutcome:
        return self._run_attempt(order, followed.report, followed.cancelled)

    def _finished(self, order: AttemptOrder, followed: _Followed, done: asyncio.Future[AttemptOutcome]) -> None:
        error = done.exception()
        outcome = done.result() if error is None else _broken(order, error)
        self._outcomes[order.attempt_id] = outcome
        if len(self._outcomes) > KEPT_OUTCOMES:
            self._outcomes.popitem(last=False)
        del self._followed[order.attempt_id]
        self._thinning.forget(order.attempt_id)
        followed.put(outcome)
        followed.put(None)


class _Followed:
    """One attempt's thread and whoever listens to it now."""

    done: asyncio.Future[AttemptOutcome]

    def __init__(self, thinning: Thinning) -> None:
        self.cancelled = threading.Event()
        self._thinning = thinning
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Progress | AttemptOutcome | None] = asyncio.Queue()
        self._taken = False

    def take_over(self) -> asyncio.Queue[Progress | AttemptOutcome | None]:
        """The queue that gets everything from now on; the listener before is told that it is over for it."""
        if self._taken:
            self._queue.put_nowait(None)
            self._queue = asyncio.Queue()
        self._taken = True
        return self._queue

    def report(self, progress: Progress) -> None:
        """Called from the attempt's thread."""
        self._loop.call_soon_threadsafe(self._tell, progress)

    def _tell(self, progress: Progress) -> None:
        if self._thinning.passes(progress):
            self.put(progress)

    def put(self, item: Progress | AttemptOutcome | None) -> None:
        self._queue.put_nowait(item)


def _broken(order: AttemptOrder, error: BaseException) -> AttemptOutcome:
    """An attempt's failures are outcomes; an exception is a fault of this host's."""
    return AttemptOutcome(
        order.attempt_id, failure_kind=FailureKind.HOST_LOST, failure_message=f"{type(error).__name__}: {error}"
    )
