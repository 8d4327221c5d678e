"""Breaks phones at random, by a seed: every kind of fault once before any comes again."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from contextlib import suppress

from device_agent.virtual.fault_list import FAULTS
from orchestrator.errors import FarmError
from orchestrator.farm import phone_faults
from orchestrator.settings import Settings
from tests.soak.ledger import EXPLAINS, POWER_OFF, Injury, Ledger

PAUSE_S = (0.5, 3.0)  # between two faults
SHORT_S, LONG_S = (0.5, 8.0), (15.0, 75.0)  # how long a lasting fault lasts
LONG_SHARE = 0.25
NUMBERS = {"offline": (1, 20), "slow": (20, 400), "lose-ends": (1, 4), "restart-adbd": (0.2, 3), "reboot": (0.5, 6)}
NUMBERS |= {"hot": (45, 60), "low-battery": (1, 9), "faked-battery": (1, 100), "faked-thermal": (0, 6)}
NEEDS_AGENT = {"kill-agent", "vanish-agent", "oom-kill"}
AGENT_PATIENCE_S = 20.0  # to catch a phone with an agent on it


class Faulter(threading.Thread):
    def __init__(self, settings: Settings, phones: list[str], seed: int, ledger: Ledger) -> None:
        super().__init__(name="faulter", daemon=True)
        self._settings, self._phones, self._ledger = settings, phones, ledger
        self._random = random.Random(seed)
        self._bag: list[str] = []
        self._mend_at: dict[str, float] = {}  # phone → monotonic
        self._halt = threading.Event()
        self._lock = threading.Lock()

    def run(self) -> None:
        while not self._halt.wait(self._random.uniform(*PAUSE_S)):
            self._mend_due()
            whole = [phone for phone in self._phones if phone not in self._mend_at]
            if whole:
                self._hurt(self._random.choice(whole))

    def stop(self) -> None:
        """No more faults, and everything mended."""
        self._halt.set()
        self.join()
        for phone in self._phones:
            self.mend(phone)

    def mend(self, phone: str) -> None:
        with self._lock:
            self._mend_at.pop(phone, None)
            with suppress(FarmError):  # one that does not run starts without faults
                phone_faults.clear(self._settings, phone)
            self._ledger.mended(phone)

    def _mend_due(self) -> None:
        now = time.monotonic()
        for phone in [phone for phone, at in self._mend_at.items() if at <= now]:
            self.mend(phone)

    def _hurt(self, phone: str) -> None:
        fault = self._next()
        low, high = NUMBERS.get(fault, (0, 0))
        number = f"{self._random.uniform(low, high):.1f}" if high else ""
        lasts = self._random.uniform(*(LONG_S if self._random.random() < LONG_SHARE else SHORT_S))
        for victim in self._victims(fault, phone):
            with self._lock:
                if self._inflict(victim, fault, number):
                    if fault in FAULTS and FAULTS[fault].lasts:
                        self._mend_at[victim] = time.monotonic() + lasts
                    return
        self._ledger.add(Injury(phone, fault, number, time.time(), time.time(), landed=False))

    def _victims(self, fault: str, phone: str) -> list[str]:
        """An agent is killed wherever one runs."""
        if fault not in NEEDS_AGENT:
            return [phone]
        return self._random.sample(self._phones, len(self._phones))

    def _inflict(self, phone: str, fault: str, number: str) -> bool:
        """Whether it landed."""
        began = time.time()
        if fault == POWER_OFF:
            landed = self._power_off(phone)
        else:
            try:
                phone_faults.inflict(self._settings, phone, fault, number or None)
                landed = True
            except FarmError:
                landed = False  # no agent there, or the phone is not running yet
        if landed:
            until = None if fault in FAULTS and FAULTS[fault].lasts else began + float(number or 0)
            self._ledger.add(Injury(phone, fault, number, began, until))
        return landed

    def _power_off(self, phone: str) -> bool:
        try:
            os.kill(int(json.loads((self._settings.phones / phone / "phone.json").read_text())["pid"]), signal.SIGKILL)
        except (OSError, ValueError):
            return False
        return True

    def _next(self) -> str:
        if not self._bag:
            self._bag = self._random.sample(sorted(EXPLAINS), len(EXPLAINS))
        return self._bag.pop()
