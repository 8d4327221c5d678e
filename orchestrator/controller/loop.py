"""The controller: looks for news in the registry, gives trials to phones, follows attempts, records how they ended.

It keeps nothing that it could not read again: killed at any moment and started anew, it adopts the attempts that run.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from orchestrator.controller.asking import Asking
from orchestrator.controller.assigning import Assigning
from orchestrator.controller.attempts import Attempts, Told
from orchestrator.controller.comparing import compare_new
from orchestrator.controller.delivering import Delivering
from orchestrator.controller.recording import judge_phones, note_pause
from orchestrator.controller.timing import Timing
from orchestrator.entities import Device, FarmEvent
from orchestrator.errors import ClaimLost, RegistryError
from orchestrator.executor.contract import Executor
from orchestrator.registry.contract import Registry
from orchestrator.scheduling.waiting import Waiting
from orchestrator.tracking.contract import Tracker

log = logging.getLogger(__name__)
COMPARED = frozenset({"trial_done"})  # after these there may be something to compare
OTHERS = frozenset({"sweep_cancelled", "sweep_submitted", "attempt_adopted"})  # may change what is asked of attempts


class Controller:
    """`owner` names this process in leases (owner.new_owner); `host` is the farm host that it runs on; `pause` says why
    nothing may be started now, or nothing."""

    def __init__(
        self,
        registry: Registry,
        executor: Executor,
        tracker: Tracker,
        owner: str,
        host: str,
        timing: Timing | None = None,
        pause: Callable[[], str] = str,
    ) -> None:
        self._registry, self._tracker = registry, tracker
        self._owner, self._timing = owner, timing or Timing()
        self._pause, self._paused = pause, ""
        self._asking = Asking(self._timing.trouble)
        self._assigning = Assigning(registry)
        told = Told(self._assigning.ended, self._phone_freed, self._look_again)
        self._attempts = Attempts(registry, self._asking, executor, owner, host, self._timing, told)
        self._seen_event = 0
        self._look_at = 0.0  # monotonic
        self._wake = asyncio.Event()
        self._freed = False  # a phone is free that was not when we last looked
        self._uncompared = False  # there may be more to compare

    async def run(self, stop: asyncio.Event, until_idle: bool = False) -> None:
        """Work until `stop` is set, or with `until_idle` until nothing runs and nothing that waits can start. Attempts
        that run then go on on their phones, and are anybody's to adopt. Survives a database that is away."""
        delivering = Delivering(self._tracker, self._registry, self._timing)
        delivering.start()
        try:
            looked = False
            while not stop.is_set():
                looked |= await self._safe_turn()
                if until_idle and looked and not (self._attempts.followed() or self._uncompared):
                    break
                looked &= self._uncompared
                await self._rest(stop)
        finally:
            await self._attempts.leave()
            await self._asking.close()
            await asyncio.to_thread(delivering.stop)

    async def _safe_turn(self) -> bool:
        try:
            return await self._turn()
        except RegistryError as error:
            log.warning("the registry does not answer: %s", error)
            self._look_again()
            await asyncio.sleep(self._timing.trouble)
            return False

    async def _turn(self) -> bool:
        """Returns whether everything was looked at, rather than only at what is new."""
        await self._attempts.write_progress()
        await self._attempts.renew()
        everything, events = await self._news()
        kinds = {event.kind for event in events}
        if everything or kinds & OTHERS:
            await self._attempts.take_over()
        freed, self._freed = self._freed, False
        news = everything or bool(events)
        if freed | (news and await self._asking.call(self._assigning.take_in, events, everything)):
            await self._assign()
        if everything or self._uncompared or kinds & COMPARED:
            self._uncompared = bool(await self._asking.call(compare_new, self._registry))
            if self._uncompared:
                self._wake.set()  # a turn for each few: leases and phones do not wait for thousands of comparisons
        return everything

    async def _news(self) -> tuple[bool, list[FarmEvent]]:
        """Whether it is time to look at everything, and what happened: progress, and what we did, is no news."""
        if self._look_at == 0.0:
            self._seen_event = await self._asking.call(self._registry.last_event_id)
            await self._asking.call(judge_phones, self._registry)
        events = await self._asking.call(self._registry.events, self._seen_event)
        if events:
            self._seen_event = events[-1].event_id
        everything = time.monotonic() >= self._look_at
        if everything:
            self._look_at = time.monotonic() + self._timing.reconcile
        return everything, [e for e in events if e.kind != "progress"]

    async def _is_paused(self) -> bool:
        """Says so once: as an event, and as the reason why trials wait."""
        why = await asyncio.to_thread(self._pause)
        if why != self._paused:
            log.warning("nothing is started: %s", why) if why else log.warning("trials are started again")
            await self._asking.call(note_pause, self._registry, why)
            self._assigning.distrust()  # of its reasons
            self._paused = why
        return bool(why)

    async def _assign(self) -> None:
        if await self._is_paused():
            return
        chosen = await self._asking.call(self._assigning.assign, self._attempts.followed())
        try:
            for trial, device in chosen:
                await self._start(trial, device)
        except BaseException:
            self._look_again()
            raise

    async def _start(self, trial: Waiting, device: Device) -> None:
        try:
            attempt = await self._asking.call(
                self._registry.start_attempt, trial.trial_id, device.name, self._owner, self._timing.lease
            )
        except ClaimLost as error:
            log.info("%s", error)
            self._look_again()
            return
        await self._attempts.follow(attempt, trial.sweep)

    def _phone_freed(self) -> None:
        self._freed = True
        self._wake.set()

    def _look_again(self) -> None:
        """At everything, at once."""
        self._assigning.distrust()
        self._look_at = min(self._look_at, time.monotonic())

    async def _rest(self, stop: asyncio.Event) -> None:
        """Until the next look, sooner when an attempt ended or we are to stop."""
        waits = [asyncio.create_task(e.wait()) for e in (stop, self._wake)]
        await asyncio.wait(waits, timeout=self._timing.poll, return_when=asyncio.FIRST_COMPLETED)
        for task in waits:
            task.cancel()
        self._wake.clear()
