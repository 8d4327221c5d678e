"""What every registry backend promises; `tests/contracts/` holds all of them to it.

Every method is one transaction: it happens whole or not at all, and has happened durably when it returns. Times are the
database's own clock. Methods are blocking and safe to call from several threads and processes at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.entities import (
    Attempt,
    AttemptOutcome,
    Device,
    DeviceState,
    FarmEvent,
    Sweep,
    Trial,
    TrialSpec,
    TrialState,
)


@dataclass(frozen=True)
class Submission:
    """What a submit found: trials that will run now, and trials that were done before."""

    sweep: Sweep
    queued: tuple[str, ...]
    reused: tuple[str, ...]
    in_progress: tuple[str, ...]
    event_id: int = 0  # of the sweep_submitted event: follow `events(after_id=…)` from here


@dataclass(frozen=True)
class OutboxItem:
    """Something the tracker still owes to MLflow; stays until `outbox_done`."""

    item_id: int
    kind: str  # trial | sweep
    sweep_id: str
    trial_id: str | None
    payload: dict[str, Any]


@dataclass(frozen=True)
class Queued:
    """A waiting trial, without a result and with an empty `spec.job`."""

    number: int  # grows with submission
    sweep_id: str  # the oldest sweep that wants it
    trial: Trial


class Registry(ABC):
    """Unknown trial, sweep and phone names raise UnknownName; a database that does not answer raises RegistryError."""

    # --- phones
    @abstractmethod
    def put_device(self, device: Device) -> None:
        """Insert or replace by name; appends a device_state event when the state changes. BUSY is never stored: a
        ready phone reads as busy while an attempt holds its lease, and writing BUSY means READY."""

    @abstractmethod
    def device(self, name: str) -> Device:
        """Raises UnknownName with the names that exist."""

    @abstractmethod
    def devices(self) -> list[Device]:
        """All, by name, retired ones too."""

    @abstractmethod
    def set_device_state(
        self, name: str, state: DeviceState, reason: str = "", only_from: Collection[DeviceState] | None = None
    ) -> bool:
        """Also appends a device_state event; a no-op when nothing changes. With `only_from` nothing happens, and False
        is returned, unless the phone is in one of these states: what somebody decided meanwhile stays."""

    @abstractmethod
    def device_history(self, name: str, limit: int) -> list[FarmEvent]:
        """The phone's latest device_state events, newest first. Cost does not grow with other events."""

    @abstractmethod
    def reserve(self, device: str, owner: str, ttl_s: float) -> Attempt:
        """Hold a ready phone for something that is no trial: it reads as busy and nothing starts there until `release`,
        or until the lease, which `renew` extends, runs out. The attempt returned belongs to no trial and is listed
        nowhere. Raises ClaimLost if the phone is not ready or is leased, or a virtual phone's host is at work."""

    @abstractmethod
    def release(self, reservation: Attempt) -> None:
        """Let the phone go; nothing happens if it was lost meanwhile."""

    @abstractmethod
    def put_costs(self, device: str, key: str, costs: dict[str, Any]) -> None:
        """Keep what passes cost on the phone (protocol.CostCalibration as JSON), in place of what the key had."""

    @abstractmethod
    def costs(self, device: str, key: str) -> dict[str, Any] | None:
        """None when it was never calibrated under this key."""

    # --- sweeps and trials
    @abstractmethod
    def submit(self, sweep: Sweep, trials: Sequence[TrialSpec], rerun: bool = False) -> Submission:
        """Create or grow the sweep (found by name, else by id) and link its trials in order. A trial id is global: one
        that is done is reused (and put in the outbox for this sweep), one waiting or running is joined, one failed or
        cancelled waits again with the new spec and its failure count reset. Puts the sweep itself in the outbox.
        `rerun`: done trials wait again too; what they had measured is in a trial_rerun event, and their results stay
        stored until new ones take their place."""

    @abstractmethod
    def sweep(self, name_or_id: str) -> Sweep:
        """Raises UnknownName, suggesting close names."""

    @abstractmethod
    def sweeps(self) -> list[Sweep]:
        """Newest first."""

    @abstractmethod
    def unfinished(self) -> list[Sweep]:
        """Sweeps with trials that wait or run, oldest first."""

    @abstractmethod
    def trials(self, sweep_id: str) -> list[Trial]:
        """In the order submitted."""

    @abstractmethod
    def trial(self, trial_id: str) -> Trial: ...

    @abstractmethod
    def counts(self, sweep_id: str) -> dict[TrialState, int]: ...

    @abstractmethod
    def wanted_packs(self) -> set[str]:
        """Hashes of the packs that trials which wait or run need, on whatever phone."""

    @abstractmethod
    def queue(self, trial_ids: Sequence[str] | None = None, sweep_id: str | None = None) -> list[Queued]:
        """All that waits, oldest first; of these ids, or of what this sweep links. Cost does not grow with finished
        trials."""

    @abstractmethod
    def queue_length(self) -> int:
        """How many trials wait."""

    @abstractmethod
    def lasted(self, limit: int) -> list[tuple[dict[str, str], str, float]]:
        """(labels, phone, wall seconds) of the trials that were done last, oldest first: how long such trials take."""

    @abstractmethod
    def set_waiting_reason(self, reasons: dict[str, str]) -> None:
        """Why trials wait, by trial id; writes only what changed."""

    @abstractmethod
    def cancel(self, sweep_id: str) -> list[Attempt]:
        """Waiting trials of this sweep (and of no other sweep that still wants them) become cancelled; running ones get
        `cancel_requested` and are returned. Whoever owns them stops them. Twice is the same as once."""

    @abstractmethod
    def sweeps_of(self, trial_id: str) -> list[Sweep]:
        """Sweeps that link this trial, oldest first."""

    @abstractmethod
    def baselines(self, trial: Trial) -> list[Trial]:
        """Done autoregressive trials, on the phone that this one ran on, which it is compared with: those of its label
        `baseline_key`, and the plainest of its `reference_key` (resident before streamed, then by repeat and id). Cost
        does not grow with what finished."""

    @abstractmethod
    def compare_again(self, baseline: Trial) -> int:
        """Done trials that this new baseline may complete become underived: those of its `baseline_key`, and of its
        `reference_key` if it is the plainest there is. Returns how many."""

    @abstractmethod
    def underived(self, limit: int) -> list[Trial]:
        """Done trials for which set_derived was not called yet, or not since compare_again, oldest first."""

    # --- attempts and leases
    @abstractmethod
    def start_attempt(self, trial_id: str, device: str, owner: str, ttl_s: float) -> Attempt:
        """waiting → running, lease on the phone, attempt row and event. Raises ClaimLost if the trial is not waiting
        or bound to another phone, the phone is not ready or leased, or it is a virtual phone on whose host another one
        is at work and either of the two wants the host for itself (`schedule.exclusive_host`). If the phone's lease has
        expired its attempt is ended as host_lost and its trial waits again, uncharged."""

    @abstractmethod
    def renew(self, attempts: Sequence[Attempt], ttl_s: float) -> list[str]:
        """Extend leases; returns ids of attempts whose lease is no longer ours (by token)."""

    @abstractmethod
    def running(self) -> list[Attempt]:
        """Attempts in state running, whoever owns them."""

    @abstractmethod
    def adopt(self, attempt_id: str, owner: str, ttl_s: float) -> Attempt:
        """Take over a running attempt after a restart: new token; the old owner's writes are refused from now on.
        Raises ClaimLost if it is not running any more, or if another owner's lease has not expired."""

    @abstractmethod
    def finish_attempt(self, attempt: Attempt, outcome: AttemptOutcome, next_state: TrialState, charged: bool) -> None:
        """Record the outcome, end the lease, move the trial to `next_state` (done, failed, waiting, cancelled), append
        events and, for done and failed, an outbox item for each of its sweeps. `charged`: the failure counts against
        the trial. A trial whose cancellation was requested does not wait again, one that was wanted again meanwhile is
        not cancelled. A sweep's last trial also appends sweep_finished and puts the sweep in the outbox; a failed trial
        that makes `max_failures` of a sweep cancels that sweep.
        Raises LeaseLost if the token is stale: nothing is written then."""

    @abstractmethod
    def attempts(self, trial_id: str) -> list[Attempt]:
        """All, in order."""

    @abstractmethod
    def recent_attempts(self, device: str, limit: int) -> list[Attempt]:
        """Ended attempts on this phone, newest first: what quarantine is decided by."""

    @abstractmethod
    def rounds_jsonl(self, trial_id: str) -> str:
        """The trace of the trial's successful attempt; empty when there is none."""

    @abstractmethod
    def nodes_packed(self, trial_id: str) -> str:
        """The verified nodes of the trial's successful attempt, as AttemptOutcome has them; empty without any."""

    @abstractmethod
    def set_derived(self, trial_id: str, metrics: dict[str, float], tags: dict[str, str]) -> None:
        """Merge metrics and tags known only later (exactness against a reference trial, speed-up) into a done trial's
        result, and put it in the outbox of each of its sweeps when anything changed. Raises RegistryError if it is not
        done."""

    # --- events
    @abstractmethod
    def add_events(self, events: Sequence[FarmEvent]) -> None: ...

    def add_event(self, event: FarmEvent) -> None:
        self.add_events([event])

    @abstractmethod
    def events(self, after_id: int = 0, sweep_id: str | None = None, limit: int = 1000) -> list[FarmEvent]:
        """In order; with `sweep_id` those of the sweep, of its trials and of their attempts."""

    @abstractmethod
    def last_event_id(self) -> int:
        """0 when nothing happened yet."""

    # --- outbox for the tracker
    @abstractmethod
    def outbox(self, limit: int) -> list[OutboxItem]: ...

    @abstractmethod
    def outbox_done(self, item_ids: Sequence[int]) -> None:
        """These are delivered; twice is the same as once."""

    @abstractmethod
    def tracking_run_id(self, sweep_id: str, trial_id: str | None) -> str | None:
        """MLflow run id of a sweep's trial (None: of the sweep itself)."""

    @abstractmethod
    def set_tracking_run_id(self, sweep_id: str, trial_id: str | None, run_id: str) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Release connections."""
