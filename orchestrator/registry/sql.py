"""The registry on a database. Every method is one transaction over the functions of the neighbouring files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
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
from orchestrator.registry import attempts as attempt_table
from orchestrator.registry import comparisons as comparison_table
from orchestrator.registry import devices as device_table
from orchestrator.registry import events as event_table
from orchestrator.registry import queue_table, rows
from orchestrator.registry import sweeps as sweep_table
from orchestrator.registry import trials as trial_table
from orchestrator.registry.contract import OutboxItem, Queued, Registry, Submission
from orchestrator.registry.database import Database
from orchestrator.registry.migrations import migrate


def open_registry(url: str) -> Registry:
    """Open the registry at a SQLAlchemy URL, made or upgraded if need be. Raises RegistryError or ConfigError."""
    database = Database(url)
    try:
        if database.sqlite_path:
            with database.errors():
                Path(database.sqlite_path).parent.mkdir(parents=True, exist_ok=True)
        migrate(database)
    except BaseException:
        database.close()
        raise
    return SqlRegistry(database)


def is_missing(url: str) -> bool:
    """Whether the URL names a file that does not exist yet. Raises ConfigError."""
    database = Database(url)
    database.close()
    return database.sqlite_path is not None and not database.sqlite_path.exists()


class SqlRegistry(Registry):
    def __init__(self, database: Database) -> None:
        self._db = database

    # --- phones
    def put_device(self, device: Device) -> None:
        with self._db.write() as session:
            device_table.put(session, device)

    def device(self, name: str) -> Device:
        with self._db.read() as session:
            return device_table.one(session, name)

    def devices(self) -> list[Device]:
        with self._db.read() as session:
            return device_table.every(session)

    def set_device_state(
        self, name: str, state: DeviceState, reason: str = "", only_from: Collection[DeviceState] | None = None
    ) -> bool:
        with self._db.write() as session:
            return device_table.set_state(session, name, state, reason, only_from)

    def device_history(self, name: str, limit: int) -> list[FarmEvent]:
        with self._db.read() as session:
            device_table.stored(session, name)
            return event_table.of_device(session, name, limit)

    def reserve(self, device: str, owner: str, ttl_s: float) -> Attempt:
        with self._db.write() as session:
            return attempt_table.reserve(session, device, owner, ttl_s)

    def release(self, reservation: Attempt) -> None:
        with self._db.write() as session:
            attempt_table.release(session, reservation)

    def put_costs(self, device: str, key: str, costs: dict[str, Any]) -> None:
        with self._db.write() as session:
            device_table.put_costs(session, device, key, costs)

    def costs(self, device: str, key: str) -> dict[str, Any] | None:
        with self._db.read() as session:
            return device_table.costs(session, device, key)

    # --- sweeps and trials
    def submit(self, sweep: Sweep, trials: Sequence[TrialSpec], rerun: bool = False) -> Submission:
        with self._db.write() as session:
            return trial_table.submit(session, sweep, trials, rerun)

    def sweep(self, name_or_id: str) -> Sweep:
        with self._db.read() as session:
            return rows.sweep(sweep_table.find(session, name_or_id))

    def sweeps(self) -> list[Sweep]:
        with self._db.read() as session:
            return sweep_table.every(session)

    def unfinished(self) -> list[Sweep]:
        with self._db.read() as session:
            return sweep_table.unfinished(session)

    def sweeps_of(self, trial_id: str) -> list[Sweep]:
        with self._db.read() as session:
            return [rows.sweep(s) for s in sweep_table.linking(session, trial_id)]

    def trials(self, sweep_id: str) -> list[Trial]:
        with self._db.read() as session:
            return trial_table.of_sweep(session, sweep_table.find(session, sweep_id).sweep_id)

    def trial(self, trial_id: str) -> Trial:
        with self._db.read() as session:
            return trial_table.one(session, trial_id)

    def counts(self, sweep_id: str) -> dict[TrialState, int]:
        with self._db.read() as session:
            return sweep_table.counts(session, sweep_table.find(session, sweep_id).sweep_id)

    def wanted_packs(self) -> set[str]:
        with self._db.read() as session:
            return trial_table.wanted_packs(session)

    def queue(self, trial_ids: Sequence[str] | None = None, sweep_id: str | None = None) -> list[Queued]:
        with self._db.read() as session:
            return queue_table.queued(session, trial_ids, sweep_id)

    def queue_length(self) -> int:
        with self._db.read() as session:
            return queue_table.length(session)

    def lasted(self, limit: int) -> list[tuple[dict[str, str], str, float]]:
        with self._db.read() as session:
            return queue_table.lasted(session, limit)

    def set_waiting_reason(self, reasons: dict[str, str]) -> None:
        with self._db.read() as session:
            changed = trial_table.stale_reasons(session, reasons)
        if changed:
            with self._db.write() as session:
                trial_table.set_reasons(session, changed)

    def cancel(self, sweep_id: str) -> list[Attempt]:
        with self._db.write() as session:
            return sweep_table.cancel(session, sweep_table.find(session, sweep_id))

    def baselines(self, trial: Trial) -> list[Trial]:
        with self._db.read() as session:
            return comparison_table.baselines(session, trial)

    def compare_again(self, baseline: Trial) -> int:
        with self._db.write() as session:
            return comparison_table.compare_again(session, baseline)

    def underived(self, limit: int) -> list[Trial]:
        with self._db.read() as session:
            return comparison_table.underived(session, limit)

    # --- attempts and leases
    def start_attempt(self, trial_id: str, device: str, owner: str, ttl_s: float) -> Attempt:
        with self._db.write() as session:
            return attempt_table.start(session, trial_id, device, owner, ttl_s)

    def renew(self, attempts: Sequence[Attempt], ttl_s: float) -> list[str]:
        with self._db.write() as session:
            return attempt_table.renew(session, attempts, ttl_s)

    def running(self) -> list[Attempt]:
        with self._db.read() as session:
            return attempt_table.running(session)

    def adopt(self, attempt_id: str, owner: str, ttl_s: float) -> Attempt:
        with self._db.write() as session:
            return attempt_table.adopt(session, attempt_id, owner, ttl_s)

    def finish_attempt(self, attempt: Attempt, outcome: AttemptOutcome, next_state: TrialState, charged: bool) -> None:
        with self._db.write() as session:
            attempt_table.finish(session, attempt, outcome, next_state, charged)

    def attempts(self, trial_id: str) -> list[Attempt]:
        with self._db.read() as session:
            return attempt_table.of_trial(session, trial_id)

    def recent_attempts(self, device: str, limit: int) -> list[Attempt]:
        with self._db.read() as session:
            return attempt_table.recent(session, device, limit)

    def rounds_jsonl(self, trial_id: str) -> str:
        with self._db.read() as session:
            return trial_table.rounds(session, trial_id)

    def nodes_packed(self, trial_id: str) -> str:
        with self._db.read() as session:
            return trial_table.nodes(session, trial_id)

    def set_derived(self, trial_id: str, metrics: dict[str, float], tags: dict[str, str]) -> None:
        with self._db.write() as session:
            comparison_table.set_derived(session, trial_id, metrics, tags)

    # --- events
    def add_events(self, events: Sequence[FarmEvent]) -> None:
        with self._db.write() as session:
            event_table.append(session, events)

    def events(self, after_id: int = 0, sweep_id: str | None = None, limit: int = 1000) -> list[FarmEvent]:
        with self._db.read() as session:
            return event_table.after(session, after_id, sweep_id, limit)

    def last_event_id(self) -> int:
        with self._db.read() as session:
            return event_table.last_id(session)

    # --- outbox for the tracker
    def outbox(self, limit: int) -> list[OutboxItem]:
        with self._db.read() as session:
            return event_table.owed(session, limit)

    def outbox_done(self, item_ids: Sequence[int]) -> None:
        with self._db.write() as session:
            event_table.settle(session, item_ids)

    def tracking_run_id(self, sweep_id: str, trial_id: str | None) -> str | None:
        with self._db.read() as session:
            return event_table.run_id(session, sweep_id, trial_id)

    def set_tracking_run_id(self, sweep_id: str, trial_id: str | None, run_id: str) -> None:
        with self._db.write() as session:
            event_table.set_run_id(session, sweep_id, trial_id, run_id)

    def close(self) -> None:
        self._db.close()
