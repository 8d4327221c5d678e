"""Attempts in this process: one thread each, for a farm without a service."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from orchestrator.entities import AttemptOrder, AttemptOutcome, Progress
from orchestrator.executor.host_attempts import RunAttempt

Item: TypeAlias = Progress | AttemptOutcome | BaseException


class InlineExecutor:
    """Executor over a blocking `run_attempt(order, report, cancelled)`. Threads are daemons: when this process leaves,
    the attempts go on on their phones and the next controller re-attaches to them."""

    def __init__(self, run_attempt: RunAttempt) -> None:
        self._run_attempt = run_attempt
        self._cancelled: dict[str, threading.Event] = {}

    async def run(self, order: AttemptOrder) -> AsyncIterator[Progress | AttemptOutcome]:
        loop, items = asyncio.get_running_loop(), asyncio.Queue[Item]()
        cancelled = self._cancelled[order.attempt_id] = threading.Event()

        def put(item: Item) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(items.put_nowait, item)

        threading.Thread(target=self._work, args=(order, put, cancelled), name=order.attempt_id, daemon=True).start()
        try:
            while not isinstance(item := await items.get(), AttemptOutcome):
                if isinstance(item, BaseException):
                    raise item
                yield item
            yield item
        finally:
            self._cancelled.pop(order.attempt_id, None)

    def _work(self, order: AttemptOrder, put: Callable[[Item], None], cancelled: threading.Event) -> None:
        try:
            put(self._run_attempt(order, put, cancelled))
        except BaseException as error:  # noqa: BLE001  # raised where the attempt is followed
            put(error)

    async def stop(self, order: AttemptOrder) -> None:
        """The attempt's thread stops it on the phone; its outcome comes as always."""
        if cancelled := self._cancelled.get(order.attempt_id):
            cancelled.set()
