"""The tracker in a thread of its own: slow, and away at times, it holds up nothing."""

from __future__ import annotations

import logging
import threading
import time

from orchestrator.controller.timing import Timing
from orchestrator.registry.contract import Registry
from orchestrator.tracking.contract import Tracker

log = logging.getLogger(__name__)


class Delivering:
    def __init__(self, tracker: Tracker, registry: Registry, timing: Timing) -> None:
        self._tracker, self._registry, self._timing = tracker, registry, timing
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main, name="tracker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Blocks until what is owed is delivered, cannot be delivered now, or the farewell is over; the rest stays in
        the outbox."""
        self._stopping.set()
        self._thread.join(self._timing.farewell)

    def _main(self) -> None:
        while not self._stopping.is_set():
            if not self._drain():
                self._stopping.wait(self._timing.tracker)
        until = time.monotonic() + self._timing.farewell
        while self._drain() and time.monotonic() < until:
            pass

    def _drain(self) -> int:
        try:
            return self._tracker.drain(self._registry)
        except Exception:  # whatever it is, the outbox keeps what is owed and sweeps go on
            log.exception("the tracker failed")
            return 0
