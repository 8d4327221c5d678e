"""The registry in this process's memory: the twin that tests and the contract suite compare the databases with."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from orchestrator.entities import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    Device,
    DeviceState,
    FailureKind,
    FarmEvent,
    TrialState,
)
from orchestrator.errors import ClaimLost, LeaseLost, RegistryError
from orchestrator.registry import rules
from orchestrator.registry.memory_phones import Lease
from orchestrator.registry.memory_sweeps import MemorySweeps
from orchestrator.scheduling import waiting


class MemoryRegistry(MemorySweeps):
    """`clock` gives unix seconds; everything is lost with the process."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._rounds: dict[str, str] = {}
        self._nodes: dict[str, str] = {}

    def start_attempt(self, trial_id: str, device: str, owner: str, ttl_s: float) -> Attempt:
        with self._lock:
            trial = self.trial(trial_id)
            if trial.state is not TrialState.WAITING or trial.spec.device not in (None, device):
                raise ClaimLost(f"trial {trial_id} is {trial.state}, or not for {device}")
            alone = waiting.alone(trial.spec.config)
            self._free(device, alone)
            attempt_id = rules.new_attempt_id(trial_id, trial.attempts + 1)
            number = trial.attempts + 1
            attempt = self._lease(Attempt(attempt_id, trial_id, device, 0, number=number), owner, ttl_s, alone)
            attempt = self._attempts[attempt_id] = replace(attempt, started_at=self._now())
            self._trials[trial_id] = replace(
                trial, state=TrialState.RUNNING, attempts=number, device=device, attempt_id=attempt_id, reason=""
            )
            self._attempt_event("attempt_started", attempt)
            return attempt

    def reserve(self, device: str, owner: str, ttl_s: float) -> Attempt:
        with self._lock:
            self._free(device, alone=True)
            return self._lease(rules.new_reservation(device), owner, ttl_s, alone=True)

    def release(self, reservation: Attempt) -> None:
        with self._lock:
            if self._holds(reservation):
                self._leases[reservation.device].attempt_id = None

    def _free(self, device: str, alone: bool) -> None:
        if (phone := self._stored_device(device)).state is not DeviceState.READY:
            raise ClaimLost(f"phone {device} is {phone.state}")
        if other := self._in_the_way(phone, alone):
            raise ClaimLost(f"phone {other} is at work on host {phone.host}, and timed runs there go one at a time")
        lease = self._leases[device]
        if lease.attempt_id is None:
            return
        if not lease.expired(self._clock()):
            raise ClaimLost(f"phone {device} is leased to attempt {lease.attempt_id}")
        if rules.is_reservation(lease.attempt_id):
            lease.attempt_id = None
            return
        lost = AttemptOutcome(
            lease.attempt_id, failure_kind=FailureKind.HOST_LOST, failure_message="its lease expired and was taken over"
        )
        self._finish(self._attempts[lease.attempt_id], lost, TrialState.WAITING, charged=False)

    def _in_the_way(self, phone: Device, alone: bool) -> str | None:
        """Another phone that shares the host's cores and disk (virtual ones do) and is at work, if that matters."""
        shares = [d.name for d in self._devices.values() if d.simulated and d.host == phone.host and d != phone]
        held = [name for name in shares if self._leases[name].held(self._clock())] if phone.simulated else []
        return next((name for name in held if alone or self._leases[name].exclusive), None)

    def _lease(self, attempt: Attempt, owner: str, ttl_s: float, alone: bool) -> Attempt:
        lease = self._leases[attempt.device]
        lease.token += 1
        lease.attempt_id, lease.owner, lease.exclusive = attempt.attempt_id, owner, alone
        lease.prolong(self._clock(), ttl_s)
        return replace(attempt, token=lease.token, owner=owner)

    def _attempt_event(self, kind: str, attempt: Attempt) -> None:
        self._append(rules.attempt_event(kind, attempt, {"number": attempt.number, "owner": attempt.owner}))

    def _holds(self, attempt: Attempt) -> bool:
        lease = self._leases.get(attempt.device, Lease())
        return (lease.attempt_id, lease.token) == (attempt.attempt_id, attempt.token)

    def renew(self, attempts: Sequence[Attempt], ttl_s: float) -> list[str]:
        with self._lock:
            held = [a for a in attempts if self._holds(a)]
            for attempt in held:
                self._leases[attempt.device].prolong(self._clock(), ttl_s)
            return [a.attempt_id for a in attempts if a not in held]

    def running(self) -> list[Attempt]:
        with self._lock:
            now = self._clock()
            held = [(self._attempts.get(x.attempt_id or ""), x.expired(now)) for x in self._leases.values()]
            return [replace(attempt, lease_expired=expired) for attempt, expired in held if attempt]

    def adopt(self, attempt_id: str, owner: str, ttl_s: float) -> Attempt:
        with self._lock:
            known = self._attempts.get(attempt_id)
            if known is None or known.state is not AttemptState.RUNNING:
                raise ClaimLost(f"attempt {attempt_id} is not running")
            lease = self._leases[known.device]
            if lease.owner != owner and not lease.expired(self._clock()):
                raise ClaimLost(f"attempt {attempt_id} belongs to {lease.owner}")
            attempt = self._attempts[attempt_id] = self._lease(known, owner, ttl_s, lease.exclusive)
            self._attempt_event("attempt_adopted", attempt)
            return attempt

    def finish_attempt(self, attempt: Attempt, outcome: AttemptOutcome, next_state: TrialState, charged: bool) -> None:
        with self._lock:
            if not self._holds(attempt):
                raise LeaseLost(f"attempt {attempt.attempt_id} on {attempt.device} is no longer ours")
            self._finish(self._attempts[attempt.attempt_id], outcome, next_state, charged)

    def _finish(self, attempt: Attempt, outcome: AttemptOutcome, wish: TrialState, charged: bool) -> None:
        state = rules.settled(wish, attempt.cancel_requested)
        kind = outcome.failure_kind.value if outcome.failure_kind else None
        message = outcome.failure_message or None
        self._attempts[attempt.attempt_id] = replace(
            attempt,
            state=rules.attempt_state(outcome),
            ended_at=self._now(),
            failure_kind=kind,
            failure_message=message,
            log_tail=outcome.log_tail,
            charged=charged,
        )
        self._ended.append(attempt.attempt_id)
        lease = self._leases[attempt.device]
        lease.attempt_id, lease.owner = None, ""
        trial = self._trials[attempt.trial_id]
        self._trials[attempt.trial_id] = replace(
            trial,
            state=state,
            charged_failures=trial.charged_failures + charged,
            result=outcome.result if state is TrialState.DONE else None,
            failure_kind=kind,
            failure_message=message,
            attempt_wall_s=outcome.attempt_wall_s,
        )
        self.add_events(rules.finish_events(attempt, outcome, state, charged))
        if state not in rules.OPEN:
            self._settle(attempt, outcome, state)

    def _settle(self, attempt: Attempt, outcome: AttemptOutcome, state: TrialState) -> None:
        self._close(attempt.trial_id, state)
        if state is TrialState.DONE:
            self._rounds[attempt.trial_id] = outcome.rounds_jsonl
            self._nodes[attempt.trial_id] = outcome.nodes_packed
            self._underived.add(attempt.trial_id)
        for sweep in self.sweeps_of(attempt.trial_id):
            if state is not TrialState.CANCELLED:
                self._owe("trial", sweep.sweep_id, attempt.trial_id, {"state": state.value})
            self._finish_sweep(sweep.sweep_id)
            if state is TrialState.FAILED:
                self._count_failures(sweep)

    def attempts(self, trial_id: str) -> list[Attempt]:
        with self._lock:
            return [a for a in self._attempts.values() if a.trial_id == trial_id]

    def recent_attempts(self, device: str, limit: int) -> list[Attempt]:
        with self._lock:
            since = self._ended[self._trusted_since.get(device, 0) :]
            mine = (self._attempts[a] for a in reversed(since) if self._attempts[a].device == device)
            return list(itertools.islice(mine, limit))

    def rounds_jsonl(self, trial_id: str) -> str:
        with self._lock:
            return self._rounds.get(trial_id, "")

    def nodes_packed(self, trial_id: str) -> str:
        with self._lock:
            return self._nodes.get(trial_id, "")

    def set_derived(self, trial_id: str, metrics: dict[str, float], tags: dict[str, str]) -> None:
        with self._lock:
            trial = self.trial(trial_id)
            if trial.state is not TrialState.DONE or trial.result is None:
                raise RegistryError(f"trial {trial_id} is {trial.state}: only a done trial has a result to add to")
            self._underived.discard(trial_id)
            if (merged := rules.with_derived(trial.result, metrics, tags)) is None:
                return
            self._trials[trial_id] = replace(trial, result=merged)
            self._append(FarmEvent("trial_derived", trial_id=trial_id, data={"tags": tags}))
            for sweep in self.sweeps_of(trial_id):
                self._owe("trial", sweep.sweep_id, trial_id, {"state": "done"})

    def close(self) -> None:
        """Nothing to release."""
