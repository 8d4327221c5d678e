"""The attempts that this controller follows, from their claim or adoption until their outcome is recorded."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.controller.asking import Asking
from orchestrator.controller.following import Following, outcome_of, stop
from orchestrator.controller.orders import order
from orchestrator.controller.owner import is_gone
from orchestrator.controller.progress import ProgressLog
from orchestrator.controller.recording import judge_phone, record, refuse
from orchestrator.controller.timing import Timing
from orchestrator.cost_key import cost_key
from orchestrator.entities import Attempt, AttemptOutcome, Trial
from orchestrator.errors import ClaimLost, LeaseLost, RegistryError
from orchestrator.executor.contract import Executor
from orchestrator.registry.contract import Registry
from orchestrator.scheduling.waiting import alone

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Told:
    """Whom it concerns: a trial ran to its end on a phone, in so many seconds; a phone is free; something went wrong,
    so that everything is to be looked at again."""

    ran: Callable[[Trial, str, float], None]
    freed: Callable[[], None]
    failed: Callable[[], None]


class Attempts:
    """`owner` and `host` as in Controller."""

    def __init__(
        self, registry: Registry, asking: Asking, executor: Executor, owner: str, host: str, timing: Timing, told: Told
    ) -> None:
        self._registry, self._asking, self._executor = registry, asking, executor
        self._owner, self._host, self._timing, self._told = owner, host, timing, told
        self._followed: dict[str, Following] = {}
        self._progress = ProgressLog(timing.progress)
        self._renew_at = 0.0  # monotonic
        self._leaving = False

    def followed(self) -> list[Following]:
        return list(self._followed.values())

    # --- those that run already
    async def take_over(self) -> None:
        """Adopt what runs without a living owner; stop what nobody wants any more."""
        for attempt in await self._asking.call(self._registry.running):
            mine = self._followed.get(attempt.attempt_id)
            if mine is None:
                await self._adopt(attempt)
            elif attempt.cancel_requested and mine.stopping is None:
                mine.stopping = asyncio.create_task(stop(mine.order, self._executor))

    async def _adopt(self, attempt: Attempt) -> None:
        if is_gone(attempt.owner, self._host):
            await self._asking.call(self._registry.renew, [attempt], 0.0)
        elif not attempt.lease_expired and attempt.owner != self._owner:
            return
        try:
            adopted = await self._asking.call(self._registry.adopt, attempt.attempt_id, self._owner, self._timing.lease)
        except ClaimLost:
            return
        log.info("attempt %s on %s is adopted from %s", attempt.attempt_id, attempt.device, attempt.owner)
        sweeps = await self._asking.call(self._registry.sweeps_of, attempt.trial_id)
        await self.follow(adopted, sweeps[0].sweep_id if sweeps else "")

    async def renew(self) -> None:
        """Leases, when a third of their time is over."""
        if time.monotonic() < self._renew_at or not self._followed:
            return
        held = [f.attempt for f in self._followed.values()]
        for attempt_id in await self._asking.call(self._registry.renew, held, self._timing.lease):
            self._drop(attempt_id)
        self._renew_at = time.monotonic() + self._timing.lease / 3

    def _drop(self, attempt_id: str) -> None:
        """Somebody else owns it: its outcome is not ours to record."""
        lost = self._followed.get(attempt_id)
        if lost is None or lost.ended:  # recorded meanwhile, or refused when it is
            return
        log.warning("attempt %s on %s is no longer ours", attempt_id, lost.attempt.device)
        del self._followed[attempt_id]
        if lost.task:
            lost.task.cancel()

    # --- to the end
    async def follow(self, attempt: Attempt, sweep: str) -> None:
        try:
            following = await self._asking.call(self._prepared, attempt, sweep)
        except RegistryError:
            raise
        except Exception as error:  # what another version wrote must not stop the loop, again and again
            log.exception("attempt %s cannot be ordered", attempt.attempt_id)
            await self._asking.insist(refuse, self._registry, attempt, error)
            return
        self._followed[attempt.attempt_id] = following
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
            self._told.failed()
        finally:
            self._ended(following)

    def _ended(self, following: Following) -> None:
        attempt_id = following.attempt.attempt_id
        self._progress.forget(attempt_id)
        if not self._leaving and self._followed.get(attempt_id) is following:
            del self._followed[attempt_id]
        self._told.freed()

    async def _record(self, following: Following, outcome: AttemptOutcome) -> None:
        """Keeps at it while the database does not answer: the outcome exists only here, and on the phone."""
        trial, attempt = following.trial, following.attempt
        try:
            await self._asking.insist(record, self._registry, trial, attempt, outcome)
        except LeaseLost:  # or we recorded it, and the connection was lost before we were told
            log.warning("attempt %s on %s is no longer ours: dropped", attempt.attempt_id, attempt.device)
        if outcome.result is not None:
            await self._asking.call(self._told.ran, trial, attempt.device, outcome.attempt_wall_s)
        if outcome.failure_kind is not None:
            await self._asking.insist(judge_phone, self._registry, attempt.device)

    # --- what people see meanwhile, and farewell
    async def write_progress(self) -> None:
        if not (events := self._progress.take()):
            return
        try:
            await self._asking.call(self._registry.add_events, events)
        except RegistryError:
            self._progress.put_back(events)
            raise

    async def leave(self) -> None:
        """Follow no longer, and let others adopt at once what runs."""
        self._leaving = True
        tasks = [t for f in self._followed.values() for t in (f.task, f.stopping) if t]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self.write_progress()
            await self._asking.call(self._registry.renew, [f.attempt for f in self._followed.values()], 0.0)
        except RegistryError as error:
            log.warning("the registry does not answer: %s", error)
        self._followed.clear()
