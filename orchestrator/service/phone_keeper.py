"""Keeps the farm's virtual phones running, in a thread of its own: starting one may take its time."""

from __future__ import annotations

import logging
import threading
import time

from orchestrator.errors import LeverError
from orchestrator.farm import virtual_phones
from orchestrator.service.backoff import BackOff
from orchestrator.settings import Settings

TICK_S = 2.0
log = logging.getLogger("supervisor")


class PhoneKeeper(threading.Thread):
    """Not a daemon: a phone that is just being started is let come up, so that whoever stops phones finds it."""

    def __init__(self, settings: Settings, stop: threading.Event) -> None:
        super().__init__(name="phones")
        self._settings, self._stop_event = settings, stop
        self._back_offs: dict[str, BackOff] = {}
        self.errors: dict[str, str] = {}  # by phone; replaced as a whole, so that other threads may read it

    def run(self) -> None:
        while not self._stop_event.is_set():
            for name in virtual_phones.names(self._settings):
                if not self._stop_event.is_set():
                    self._tend(name, time.monotonic())
            self._stop_event.wait(TICK_S)

    def _tend(self, name: str, now: float) -> None:
        back_off = self._back_offs.setdefault(name, BackOff())
        if not back_off.ready(now):
            return
        try:
            virtual_phones.ensure_running(self._settings, name)
        except (LeverError, OSError) as error:
            if name in virtual_phones.names(self._settings):  # else it was just retired
                back_off.failed(now)
                self.errors = self.errors | {name: str(error)}
                log.warning("%s", error)
            return
        self._back_offs[name] = BackOff()
        self.errors = {other: text for other, text in self.errors.items() if other != name}
