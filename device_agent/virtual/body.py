"""Power drawn and heat kept by a phone: arithmetic by its profile's stated model, integrated whenever somebody looks.

Between two looks the mean power of the interval counts. Temperature is one thermal mass (a first-order lag): it goes to
`ambient_c + heat_c_per_w · W` with the time constant `heat_tau_s`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from device_agent.virtual.processes import Usage
from device_agent.virtual.profile import Profile

_SHORTEST_S = 0.2  # CPU time has ticks of 10 ms
# of `dumpsys thermalservice` (Android's Temperature.java), and how far above throttle_c each begins
NONE, LIGHT, MODERATE, SEVERE, CRITICAL = range(5)
_ABOVE_C = {LIGHT: 0.0, MODERATE: 3.0, SEVERE: 6.0, CRITICAL: 12.0}
_SLOWEST = 0.4  # share of the clock that throttling leaves
_SLOWEST_AT_C = 15.0  # above throttle_c


class Body:
    def __init__(
        self, profile: Profile, usage: Callable[[], Usage], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._profile, self._usage, self._clock = profile, usage, clock
        self._switched_on = self._looked_at = clock()
        self._celsius = profile.ambient_c + profile.heat_c_per_w * profile.idle_w
        self.used_j = 0.0  # since it was switched on
        self.watts = profile.idle_w
        self.pinned_c: float | None = None  # a fault: so hot, whatever it does

    @property
    def celsius(self) -> float:
        return self._celsius if self.pinned_c is None else self.pinned_c

    def look(self) -> None:
        """Bring everything up to now."""
        now = self._clock()
        elapsed = now - self._looked_at
        if elapsed < _SHORTEST_S:
            return
        used_j = self._joules(now)
        self.watts = (used_j - self.used_j) / elapsed
        goal = self._profile.ambient_c + self._profile.heat_c_per_w * self.watts
        self._celsius = goal + (self._celsius - goal) * math.exp(-elapsed / self._profile.heat_tau_s)
        self.used_j, self._looked_at = used_j, now

    def thermal_status(self) -> int:
        above = self.celsius - self._profile.throttle_c
        return max((status for status, least in _ABOVE_C.items() if above >= least), default=NONE)

    def clock_share(self) -> float:
        """What throttling leaves of the clock: 1 up to throttle_c, then less with every degree."""
        above = max(0.0, self.celsius - self._profile.throttle_c)
        return max(_SLOWEST, 1 - (1 - _SLOWEST) * above / _SLOWEST_AT_C)

    def _joules(self, now: float) -> float:
        power, usage = self._profile.power, self._usage()
        idle_j = power.idle_w * (now - self._switched_on)
        return idle_j + power.cpu_w_per_core * usage.cpu_s + power.flash_j_per_gb * usage.read_bytes / 1e9
