"""Events, outbox and tracking run ids of the in-memory registry."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from orchestrator.entities import FarmEvent
from orchestrator.registry.contract import OutboxItem, Registry


class MemoryLog(Registry):
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._links: dict[str, dict[str, None]] = {}  # sweep → its trials, in order
        self._events: list[FarmEvent] = []
        self._outbox: dict[int, OutboxItem] = {}
        self._next_item = 1
        self._run_ids: dict[tuple[str, str | None], str] = {}

    @abstractmethod
    def _now(self) -> datetime: ...

    def add_events(self, events: Sequence[FarmEvent]) -> None:
        for event in events:
            self._append(event)

    def _append(self, event: FarmEvent) -> int:
        with self._lock:
            self._events.append(replace(event, event_id=len(self._events) + 1, at=self._now()))
            return len(self._events)

    def events(self, after_id: int = 0, sweep_id: str | None = None, limit: int = 1000) -> list[FarmEvent]:
        with self._lock:
            mine = self._links.get(sweep_id or "", {})
            later = self._events[after_id:]
            if sweep_id is not None:
                later = [e for e in later if e.sweep_id == sweep_id or e.trial_id in mine]
            return later[:limit]

    def last_event_id(self) -> int:
        with self._lock:
            return len(self._events)

    def _owe(self, kind: str, sweep_id: str, trial_id: str | None, payload: dict[str, Any]) -> None:
        # Never merged with an item that is still owed: the tracker may be writing that one out right now.
        self._outbox[self._next_item] = OutboxItem(self._next_item, kind, sweep_id, trial_id, payload)
        self._next_item += 1

    def outbox(self, limit: int) -> list[OutboxItem]:
        with self._lock:
            return list(self._outbox.values())[:limit]

    def outbox_done(self, item_ids: Sequence[int]) -> None:
        with self._lock:
            for item_id in item_ids:
                self._outbox.pop(item_id, None)

    def tracking_run_id(self, sweep_id: str, trial_id: str | None) -> str | None:
        with self._lock:
            return self._run_ids.get((sweep_id, trial_id))

    def set_tracking_run_id(self, sweep_id: str, trial_id: str | None, run_id: str) -> None:
        with self._lock:
            self._run_ids[sweep_id, trial_id] = run_id
