"""The kernel's battery gauge (/sys/class/power_supply/battery), whose unit and sign each vendor chooses.

The kernel's rule is µA, negative while discharging. Not all keep it, so a phone's own unit is found once, while it runs
on battery, by comparing the current with what the charge counter lost; it is never guessed from one sample.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from device_agent.telemetry.battery import volts
from device_agent.telemetry.reading import Missing, Reading, node, number

_FOLDER = "/sys/class/power_supply/battery"
_UNITS_A = (1e-6, 1e-3)  # µA and mA
_LONGEST_MISMATCH = 5.0  # ratio of counter to current that still tells the units, a thousand apart, from one another
_LEAST_UAH = 500.0  # counters have steps


@dataclass(frozen=True)
class GaugeSample:
    at_s: float
    current: Reading  # as the driver says it
    voltage_v: Reading
    counter_uah: Reading
    status: str | Missing  # Discharging, Charging, Full…


@dataclass(frozen=True)
class GaugeUnit:
    ampere: float  # one count of current_now
    discharge_sign: int  # of current_now while discharging

    def discharge_a(self, current: Reading) -> Reading:
        return current if isinstance(current, Missing) else self.discharge_sign * current * self.ampere


def sample(at_s: float) -> GaugeSample:
    """Now; `at_s` is the caller's clock."""
    return GaugeSample(
        at_s,
        number(node(f"{_FOLDER}/current_now"), (-1e9, 1e9)),
        volts(node(f"{_FOLDER}/voltage_now")),
        number(node(f"{_FOLDER}/charge_counter"), (1, 1e9)),
        node(f"{_FOLDER}/status"),
    )


def gauge_unit(samples: Sequence[GaugeSample]) -> GaugeUnit | Missing:
    """From samples in the order of time, all of them on battery. Missing with the reason when they do not tell."""
    for taken in samples:
        for value in (taken.current, taken.counter_uah, taken.status):
            if isinstance(value, Missing):
                return value
        if taken.status != "Discharging":
            return Missing(f"status is {taken.status}: on battery only")
    if len(samples) < 2:
        return Missing("one sample tells nothing")
    used_uah = _value(samples[0].counter_uah) - _value(samples[-1].counter_uah)
    if used_uah < _LEAST_UAH:
        return Missing(f"the charge counter lost {used_uah:g} µAh: too little to tell")
    counts = sum(  # current · time, trapezoids
        (_value(a.current) + _value(b.current)) / 2 * (b.at_s - a.at_s) for a, b in itertools.pairwise(samples)
    )
    if not counts:
        return Missing("current_now is 0 while the charge counter falls")
    ampere = used_uah * 3.6e-3 / abs(counts)
    for unit in _UNITS_A:
        if 1 / _LONGEST_MISMATCH < ampere / unit < _LONGEST_MISMATCH:
            return GaugeUnit(unit, 1 if counts > 0 else -1)
    return Missing(f"one count of current_now would be {ampere:.2g} A")


def _value(reading: Reading) -> float:
    assert not isinstance(reading, Missing)
    return reading
