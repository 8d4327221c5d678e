"""The controller: looks for news in the registry, gives trials to phones, follows attempts, records how they ended.

It keeps nothing that it could not read again: killed at any moment and started anew, it adopts the attempts that run.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from orchestrator.controller.assigning import Assigning
from orchestrator.controller.comparing import compare_new
from orchestrator.controller.delivering import Delivering
from orchestrator.controller.following import Following, outcome_of, stop
from orchestrator.controller.orders import order
from orchestrator.controller.owner import is_gone
from orchestrator.controller.progress import ProgressLog
from orchestrator.controller.recording import judge_phone, judge_phones, note_pause, record, refuse
from orchestrator.controller.timing import Timing
from orchestrator.cost_key import cost_key
from orchestrator.entities import Attempt, AttemptOutcome, Device, FarmEvent
from orchestrator.errors import ClaimLost, LeaseLost, RegistryError
from orchestrator.executor.contract import Executor
from orchestrator.registry.contract import Registry
from orchestrator.scheduling.waiting import Waiting, alone
from orchestrator.tracking.contract import Tracker

P = ParamSpec("P")
T = TypeVar("T")
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
        self._registry, self._executor, self._tracker = registry, executor, tracker
        self._owner, self._host, self._timing = owner, host, timing or Timing()
        self._pause, self._paused = pause, ""
        self._following: dict[str, Following] = {}
        self._assigning = Assigning(registry)
        self._progress = ProgressLog(self._timing.progress)
        self._seen_event = 0
        self._look_at, self._renew_at = 0.0, 0.0  # monotonic
        self._wake = asyncio.Event()
        self._freed = False  # a phone is free that was not when we last looked
        self._leaving = False

    async def run(self, stop: asyncio.Event, until_idle: bool = False) -> None:
        """Work until `stop` is set, or with `until_idle` until nothing runs and nothing that waits can start. Attempts
        that run then go on on their phones, and are anybody's to adopt. Survives a database that is away."""
        self._db = ThreadPoolExecutor(1, thread_name_prefix="registry")
        delivering = Delivering(self._tracker, self._registry, self._timing)
        delivering.start()
        try:
            while not stop.is_set():
                looked = await self._safe_turn()
                if until_idle and looked and not self._following:
                    break
                await self._rest(stop)
        finally:
            await self._leave()
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
        await self._write_progress()
        await self._renew()
        everything, events = await self._news()
        kinds = {event.kind for event in events}
        if everything or kinds & OTHERS:
            await self._take_over()
        freed, self._freed = self._freed, False
        news = everything or bool(events)
        if freed | (news and await self._call(self._assigning.take_in, events, everything)):
            await self._assign()
        if everything or kinds & COMPARED:
            while await self._call(compare_new, self._registry):
                pass
        return everything

    async def _news(self) -> tuple[bool, list[FarmEvent]]:
        """Whether it is time to look at everything, and what happened: progress, and what we did, is no news."""
        if self._look_at == 0.0:
            self._seen_event = await self._call(self._registry.last_event_id)
            await self._call(judge_phones, self._registry)
        events = await self._call(self._registry.events, self._seen_event)
        if events:
            self._seen_event = events[-1].event_id
        everything = time.monotonic() >= self._look_at
        if everything:
            self._look_at = time.monotonic() + self._timing.reconcile
        return everything, [e for e in events if e.kind != "progress"]

    # --- attempts that run already
    async def _take_over(self) -> None:
        """Adopt what runs without a living owner; stop what nobody wants any more."""
        for attempt in await self._call(self._registry.running):
            mine = self._following.get(attempt.attempt_id)
            if mine is None:
                await self._adopt(attempt)
            elif attempt.cancel_requested and mine.stopping is None:
                mine.stopping = asyncio.create_task(stop(mine.order, self._executor))

    async def _adopt(self, attempt: Attempt) -> None:
        if is_gone(attempt.owner, self._host):
            await self._call(self._registry.renew, [attempt], 0.0)
        elif not attempt.lease_expired and attempt.owner != self._owner:
            return
        try:
            adopted = await self._call(self._registry.adopt, attempt.attempt_id, self._owner, self._timing.lease)
        except ClaimLost:
            return
        log.info("attempt %s on %s is adopted from %s", attempt.attempt_id, attempt.device, attempt.owner)
        sweeps = await self._call(self._registry.sweeps_of, attempt.trial_id)
        await self._follow(adopted, sweeps[0].sweep_id if sweeps else "")

    async def _renew(self) -> None:
        if time.monotonic() < self._renew_at or not self._following:
            return
        held = [f.attempt for f in self._following.values()]
        for attempt_id in await self._call(self._registry.renew, held, self._timing.lease):
            self._drop(attempt_id)
        self._renew_at = time.monotonic() + self._timing.lease / 3

    def _drop(self, attempt_id: str) -> None:
        """Somebody else owns it: its outcome is not ours to record."""
        lost = self._following.get(attempt_id)
        if lost is None or lost.ended:  # recorded meanwhile, or refused when it is
            return
        log.warning("attempt %s on %s is no longer ours", attempt_id, lost.attempt.device)
        del self._following[attempt_id]
        if lost.task:
            lost.task.cancel()

    # --- attempts to start
    async def _is_paused(self) -> bool:
        """Says so once: as an event, and as the reason why trials wait."""
        why = await asyncio.to_thread(self._pause)
        if why != self._paused:
            log.warning("nothing is started: %s", why) if why else log.warning("trials are started again")
            await self._call(note_pause, self._registry, why)
            self._assigning.distrust()  # of its reasons
            self._paused = why
        return bool(why)

    async def _assign(self) -> None:
        if await self._is_paused():
            return
        chosen = await self._call(self._assigning.assign, list(self._following.values()))
        try:
            for trial, device in chosen:
                await self._start(trial, device)
        except BaseException:
            self._look_again()
            raise

    async def _start(self, trial: Waiting, device: Device) -> None:
        try:
            attempt = await self._call(
                self._registry.start_attempt, trial.trial_id, device.name, self._owner, self._timing.lease
            )
        except ClaimLost as error:
            log.info("%s", error)
            self._look_again()
            return
        await self._follow(attempt, trial.sweep)

    def _look_again(self) -> None:
        """At everything, at once."""
        self._assigning.distrust()
        self._look_at = min(self._look_at, time.monotonic())

    async def _follow(self, attempt: Attempt, sweep: str) -> None:
        try:
            following = await self._call(self._prepared, attempt, sweep)
        except RegistryError:
            raise
        except Exception as error:  # what another version wrote must not stop the loop, again and again
            log.exception("attempt %s cannot be ordered", attempt.attempt_id)
            await self._insist(refuse, self._registry, attempt, error)
            return
        self._following[attempt.attempt_id] = following
        following.task = asyncio.create_task(self._see_through(following))

    def _prepared(self, attempt: Attempt, sweep: str) -> Following:
        trial, device = self._registry.trial(attempt.trial_id), self._registry.device(attempt.device)
        key = cost_key(device, trial.spec.job)
        costs = self._registry.costs(device.name, key) if key else None
        return Following(trial, attempt, order(trial, attempt, device, costs), alone(trial.spec.config), sweep)

    async def _see_through(self, following: Following) -> None:
        attempt = following.attempt
        try:
            outcome = await outcome_of(following.order, self._executor, lambda p: self._progress.note(attempt, p))
            following.ended = True
            await self._record(following, outcome)
        except Exception:  # it still runs, says the registry: adopted at the next look, nothing is lost
            log.exception("attempt %s on %s could not be recorded", attempt.attempt_id, attempt.device)
            self._look_again()
        finally:
            self._ended(following)

    def _ended(self, following: Following) -> None:
        attempt_id = following.attempt.attempt_id
        self._progress.forget(attempt_id)
        if not self._leaving and self._following.get(attempt_id) is following:
            del self._following[attempt_id]
        self._freed = True
        self._wake.set()

    async def _record(self, following: Following, outcome: AttemptOutcome) -> None:
        """Keeps at it while the database does not answer: the outcome exists only here, and on the phone."""
        trial, attempt = following.trial, following.attempt
        try:
            await self._insist(record, self._registry, trial, attempt, outcome)
        except LeaseLost:  # or we recorded it, and the connection was lost before we were told
            log.warning("attempt %s on %s is no longer ours: dropped", attempt.attempt_id, attempt.device)
        if outcome.result is not None:
            await self._call(self._assigning.ended, trial, attempt.device, outcome.attempt_wall_s)
        await self._insist(judge_phone, self._registry, attempt.device)

    # --- the registry, from one thread
    async def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._db, lambda: function(*args, **kwargs))

    async def _insist(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                return await self._call(function, *args, **kwargs)
            except LeaseLost:
                raise
            except RegistryError as error:
                log.warning("the registry does not answer: %s", error)
                await asyncio.sleep(self._timing.trouble)

    async def _write_progress(self) -> None:
        if not (events := self._progress.take()):
            return
        try:
            await self._call(self._registry.add_events, events)
        except RegistryError:
            self._progress.put_back(events)
            raise

    async def _rest(self, stop: asyncio.Event) -> None:
        """Until the next look, sooner when an attempt ended or we are to stop."""
        waits = [asyncio.create_task(e.wait()) for e in (stop, self._wake)]
        await asyncio.wait(waits, timeout=self._timing.poll, return_when=asyncio.FIRST_COMPLETED)
        for task in waits:
            task.cancel()
        self._wake.clear()

    async def _leave(self) -> None:
        """Follow no longer, and let others adopt at once what runs."""
        self._leaving = True
        tasks = [t for f in self._following.values() for t in (f.task, f.stopping) if t]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self._write_progress()
            await self._call(self._registry.renew, [f.attempt for f in self._following.values()], 0.0)
        except RegistryError as error:
            log.warning("the registry does not answer: %s", error)
        self._following.clear()
        await asyncio.to_thread(self._db.shutdown)
