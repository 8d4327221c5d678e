"""The registry in this process's memory: the twin that tests and the contract suite compare the databases with."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from orchestrator.entities import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    Device,
    DeviceState,
    FailureKind,
    FarmEvent,
    Sweep,
    Trial,
    TrialSpec,
    TrialState,
)
from orchestrator.errors import ClaimLost, LeaseLost, RegistryError
from orchestrator.registry import rules
from orchestrator.registry.contract import Submission
from orchestrator.registry.memory_log import MemoryLog


@dataclass
class _Lease:
    token: int = 0
    attempt_id: str | None = None
    owner: str = ""
    until: float = 0.0


class MemoryRegistry(MemoryLog):
    """`clock` gives unix seconds; everything is lost with the process."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._lock = threading.RLock()
        self._clock = clock
        self._devices: dict[str, Device] = {}
        self._trusted_since: dict[str, int] = {}  # device → how many attempts had ended when it left quarantine
        self._leases: dict[str, _Lease] = {}
        self._sweeps: dict[str, Sweep] = {}
        self._links: dict[str, dict[str, None]] = {}
        self._unwanted: set[str] = set()  # cancelled sweeps
        self._trials: dict[str, Trial] = {}
        self._order: dict[str, int] = {}
        self._open: set[str] = set()
        self._attempts: dict[str, Attempt] = {}
        self._ended: list[str] = []
        self._rounds: dict[str, str] = {}
        self._underived: set[str] = set()
        super().__init__()

    # --- phones
    def put_device(self, device: Device) -> None:
        with self._lock:
            known = self._devices.get(device.name)
            self._devices[device.name] = replace(device, state=rules.stored(device.state))
            self._leases.setdefault(device.name, _Lease())
            self._note_state(known, self._devices[device.name])

    def set_device_state(self, name: str, state: DeviceState, reason: str = "") -> None:
        with self._lock:
            known = self._stored_device(name)
            self._devices[name] = replace(known, state=rules.stored(state), state_reason=reason)
            self._note_state(known, self._devices[name])

    def _note_state(self, before: Device | None, now: Device) -> None:
        if before is None or (before.state, before.state_reason) != (now.state, now.state_reason):
            self.add_event(rules.device_event(now.name, now.state, now.state_reason))
        if before is not None and before.state is DeviceState.QUARANTINED and now.state is not before.state:
            self._trusted_since[now.name] = len(self._ended)

    def _stored_device(self, name: str) -> Device:
        if name not in self._devices:
            raise rules.unknown("phone", name, self._devices, "Register it: lever phones register …")
        return self._devices[name]

    def device(self, name: str) -> Device:
        with self._lock:
            device = self._stored_device(name)
            leased = self._leases[name].attempt_id is not None
            return replace(device, state=rules.shown(device.state, leased))

    def devices(self) -> list[Device]:
        with self._lock:
            return [self.device(name) for name in sorted(self._devices)]

    # --- sweeps and trials
    def submit(self, sweep: Sweep, trials: Sequence[TrialSpec]) -> Submission:
        with self._lock:
            mine = self._grow(sweep)
            groups: dict[str, list[str]] = {"queued": [], "reused": [], "in_progress": []}
            for spec in {t.trial_id: t for t in trials}.values():
                groups[self._link(mine.sweep_id, spec)].append(spec.trial_id)
            event_id = self._append(
                FarmEvent(
                    "sweep_submitted",
                    sweep_id=mine.sweep_id,
                    data={"name": mine.name, **{k: len(v) for k, v in groups.items()}},
                )
            )
            self._owe("sweep", mine.sweep_id, None, {"event": "submitted"})
            self._finish_sweep(mine.sweep_id)
            return Submission(mine, event_id=event_id, **{k: tuple(v) for k, v in groups.items()})

    def _grow(self, sweep: Sweep) -> Sweep:
        known = next((s for s in self._sweeps.values() if s.name == sweep.name), self._sweeps.get(sweep.sweep_id))
        grown = replace(known, record=sweep.record) if known else replace(sweep, created_at=self._now())
        self._sweeps[grown.sweep_id] = grown
        self._links.setdefault(grown.sweep_id, {})
        self._unwanted.discard(grown.sweep_id)
        return grown

    def _link(self, sweep_id: str, spec: TrialSpec) -> str:
        """Returns the group of Submission that the trial belongs to."""
        new_link = spec.trial_id not in self._links[sweep_id]
        self._links[sweep_id][spec.trial_id] = None
        known = self._trials.get(spec.trial_id)
        if known is None or known.state in (TrialState.FAILED, TrialState.CANCELLED):
            self._enqueue(spec, known)
            return "queued"
        if known.state is TrialState.DONE:
            if new_link:
                self._owe("trial", sweep_id, spec.trial_id, {"state": "done"})
            return "reused"
        if known.state is TrialState.RUNNING and known.attempt_id:
            self._attempts[known.attempt_id] = replace(self._attempts[known.attempt_id], cancel_requested=False)
        return "in_progress"

    def _enqueue(self, spec: TrialSpec, known: Trial | None) -> None:
        attempts = known.attempts if known else 0
        self._order.setdefault(spec.trial_id, len(self._order))
        self._open.add(spec.trial_id)
        self._trials[spec.trial_id] = Trial(spec, TrialState.WAITING, attempts, 0, None, earlier_attempts=attempts)

    def sweep(self, name_or_id: str) -> Sweep:
        with self._lock:
            for sweep in self._sweeps.values():
                if name_or_id in (sweep.name, sweep.sweep_id):
                    return sweep
            names = [s.name for s in self._sweeps.values()]
            raise rules.unknown("sweep", name_or_id, names, "List them: lever results")

    def sweeps(self) -> list[Sweep]:
        with self._lock:
            return list(reversed(self._sweeps.values()))

    def sweeps_of(self, trial_id: str) -> list[Sweep]:
        with self._lock:
            return [s for s in self._sweeps.values() if trial_id in self._links[s.sweep_id]]

    def trials(self, sweep_id: str) -> list[Trial]:
        with self._lock:
            return [self._trials[t] for t in self._links[self.sweep(sweep_id).sweep_id]]

    def trial(self, trial_id: str) -> Trial:
        with self._lock:
            if trial_id not in self._trials:
                raise rules.unknown("trial", trial_id, self._trials)
            return self._trials[trial_id]

    def counts(self, sweep_id: str) -> dict[TrialState, int]:
        return dict(Counter(t.state for t in self.trials(sweep_id)))

    def waiting(self, limit: int, devices: Sequence[str] | None = None) -> list[Trial]:
        with self._lock:
            queue = [self._trials[t] for t in sorted(self._open, key=self._order.__getitem__)]
            queue = [t for t in queue if t.state is TrialState.WAITING]
            if devices is not None:
                queue = _first_per_device(queue, limit, devices)
            light = [replace(t, spec=replace(t.spec, job={}), result=None) for t in queue]
            return light if devices is not None else light[:limit]

    def set_waiting_reason(self, reasons: dict[str, str]) -> None:
        with self._lock:
            for trial_id, reason in reasons.items():
                if (known := self._trials.get(trial_id)) and known.state is TrialState.WAITING:
                    self._trials[trial_id] = replace(known, reason=reason)

    def cancel(self, sweep_id: str) -> list[Attempt]:
        with self._lock:
            mine = self.sweep(sweep_id).sweep_id
            first = mine not in self._unwanted
            self._unwanted.add(mine)
            stop = []
            unwanted = [self._trials[t] for t in self._links[mine] if t in self._open and not self._wanted(t)]
            for trial in unwanted:
                if trial.state is TrialState.RUNNING and trial.attempt_id:
                    stop.append(replace(self._attempts[trial.attempt_id], cancel_requested=True))
                    self._attempts[trial.attempt_id] = stop[-1]
                else:
                    self._close(trial.spec.trial_id, TrialState.CANCELLED)
            if first:
                data = {"waiting": len(unwanted) - len(stop), "running": len(stop)}
                self._append(FarmEvent("sweep_cancelled", sweep_id=mine, data=data))
                self._finish_sweep(mine)
            return stop

    def _wanted(self, trial_id: str) -> bool:
        return any(trial_id in links and s not in self._unwanted for s, links in self._links.items())

    def _close(self, trial_id: str, state: TrialState) -> None:
        self._trials[trial_id] = replace(self._trials[trial_id], state=state, reason="")
        self._open.discard(trial_id)

    def _finish_sweep(self, sweep_id: str) -> None:
        if not self._open.intersection(self._links[sweep_id]):
            self._append(FarmEvent("sweep_finished", sweep_id=sweep_id))
            self._owe("sweep", sweep_id, None, {"event": "finished"})

    def related(self, reference_key: str, strategy: str | None = None) -> list[Trial]:
        with self._lock:
            done = [t for t in self._trials.values() if t.state is TrialState.DONE]
            found = [t for t in done if t.spec.labels.get("reference_key") == reference_key]
            return [t for t in found if strategy is None or t.spec.labels.get("strategy") == strategy]

    def underived(self, limit: int) -> list[Trial]:
        with self._lock:
            return [self._trials[t] for t in sorted(self._underived, key=self._order.__getitem__)[:limit]]

    # --- attempts and leases
    def start_attempt(self, trial_id: str, device: str, owner: str, ttl_s: float) -> Attempt:
        with self._lock:
            trial, phone = self.trial(trial_id), self._stored_device(device)
            if trial.state is not TrialState.WAITING or trial.spec.device not in (None, device):
                raise ClaimLost(f"trial {trial_id} is {trial.state}, or not for {device}")
            if phone.state is not DeviceState.READY:
                raise ClaimLost(f"phone {device} is {phone.state}")
            self._free(device)
            attempt_id = rules.new_attempt_id(trial_id, trial.attempts + 1)
            number = trial.attempts + 1
            attempt = self._lease(Attempt(attempt_id, trial_id, device, 0, number=number), owner, ttl_s)
            attempt = self._attempts[attempt_id] = replace(attempt, started_at=self._now())
            self._trials[trial_id] = replace(
                trial, state=TrialState.RUNNING, attempts=number, device=device, attempt_id=attempt_id, reason=""
            )
            self._attempt_event("attempt_started", attempt)
            return attempt

    def _free(self, device: str) -> None:
        lease = self._leases[device]
        if lease.attempt_id is None:
            return
        if lease.until > self._clock():
            raise ClaimLost(f"phone {device} is leased to attempt {lease.attempt_id}")
        lost = AttemptOutcome(
            lease.attempt_id, failure_kind=FailureKind.HOST_LOST, failure_message="its lease expired and was taken over"
        )
        self._finish(self._attempts[lease.attempt_id], lost, TrialState.WAITING, charged=False)

    def _lease(self, attempt: Attempt, owner: str, ttl_s: float) -> Attempt:
        lease = self._leases[attempt.device]
        lease.token += 1
        lease.attempt_id, lease.owner, lease.until = attempt.attempt_id, owner, self._clock() + ttl_s
        return replace(attempt, token=lease.token, owner=owner)

    def _attempt_event(self, kind: str, attempt: Attempt) -> None:
        self._append(rules.attempt_event(kind, attempt, {"number": attempt.number, "owner": attempt.owner}))

    def _holds(self, attempt: Attempt) -> bool:
        lease = self._leases.get(attempt.device, _Lease())
        return (lease.attempt_id, lease.token) == (attempt.attempt_id, attempt.token)

    def renew(self, attempts: Sequence[Attempt], ttl_s: float) -> list[str]:
        with self._lock:
            held = [a for a in attempts if self._holds(a)]
            for attempt in held:
                self._leases[attempt.device].until = self._clock() + ttl_s
            return [a.attempt_id for a in attempts if a not in held]

    def running(self) -> list[Attempt]:
        with self._lock:
            now = self._clock()
            held = [lease for lease in self._leases.values() if lease.attempt_id]
            return [replace(self._attempts[x.attempt_id or ""], lease_expired=x.until <= now) for x in held]

    def adopt(self, attempt_id: str, owner: str, ttl_s: float) -> Attempt:
        with self._lock:
            known = self._attempts.get(attempt_id)
            if known is None or known.state is not AttemptState.RUNNING:
                raise ClaimLost(f"attempt {attempt_id} is not running")
            lease = self._leases[known.device]
            if lease.owner != owner and lease.until > self._clock():
                raise ClaimLost(f"attempt {attempt_id} belongs to {lease.owner}")
            attempt = self._attempts[attempt_id] = self._lease(known, owner, ttl_s)
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
            self._underived.add(attempt.trial_id)
        for sweep in self.sweeps_of(attempt.trial_id):
            if state is not TrialState.CANCELLED:
                self._owe("trial", sweep.sweep_id, attempt.trial_id, {"state": state.value})
            self._finish_sweep(sweep.sweep_id)

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

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    def close(self) -> None:
        """Nothing to release."""


def _first_per_device(queue: Iterable[Trial], limit: int, devices: Sequence[str]) -> list[Trial]:
    seen: Counter[str] = Counter()
    chosen = []
    for trial in queue:
        mine = rules.queue_of(trial.spec)
        if (trial.spec.device is None or trial.spec.device in devices) and seen[mine] < limit:
            seen[mine] += 1
            chosen.append(trial)
    return chosen
