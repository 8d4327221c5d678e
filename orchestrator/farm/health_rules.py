"""What a phone's answers, and its silence, make of its state. Pure.

Presence has hysteresis: one lost answer says nothing, and neither does one answer of a phone that was away. Heat and
battery have it too: a phone that just stopped being too hot would be too hot again at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.entities import DeviceState
from orchestrator.farm.sensors import Vitals

MISSES, ANSWERS = 3, 2  # in a row: away, and back
HOT_C, COOL_C = 45.0, 40.0  # of the battery
HOT_STATUS, COOL_STATUS = 3, 1  # Android's thermal status: severe, light
LOW_PERCENT, ENOUGH_PERCENT = 15, 25
JUDGED = (
    DeviceState.READY,
    DeviceState.COOLING,
    DeviceState.LOW_BATTERY,
    DeviceState.OFFLINE,
    DeviceState.UNAUTHORIZED,
)  # of the others somebody else decides: whoever runs trials (busy), the retry policy, people


@dataclass(frozen=True)
class Sighting:
    """One look at a phone. `problem` is empty when it answered; a `clear` problem is an answer too, and a no."""

    problem: str = ""
    unauthorized: bool = False
    clear: bool = False
    vitals: Vitals | None = None  # None: not asked this time


@dataclass(frozen=True)
class Streak:
    misses: int = 0
    answers: int = 0

    def after(self, sighting: Sighting) -> Streak:
        return Streak(self.misses + 1, 0) if sighting.problem else Streak(0, self.answers + 1)


def judge(state: DeviceState, streak: Streak, sighting: Sighting) -> tuple[DeviceState, str]:
    """The state that follows, with its reason; `streak` counts the sighting in. The same state means no news."""
    if sighting.problem:
        return _absent(state, streak, sighting)
    if state is DeviceState.OFFLINE and streak.answers < ANSWERS:
        return state, ""
    if sighting.vitals is None:
        unwell = state in (DeviceState.COOLING, DeviceState.LOW_BATTERY)
        return (state if unwell else DeviceState.READY), ""
    return _condition(state, sighting.vitals)


def _absent(state: DeviceState, streak: Streak, sighting: Sighting) -> tuple[DeviceState, str]:
    if sighting.unauthorized:
        return DeviceState.UNAUTHORIZED, sighting.problem
    if sighting.clear or streak.misses >= MISSES:
        return DeviceState.OFFLINE, sighting.problem
    return state, ""


def _condition(state: DeviceState, vitals: Vitals) -> tuple[DeviceState, str]:
    cooling, low = state is DeviceState.COOLING, state is DeviceState.LOW_BATTERY
    if reason := _heat(vitals, COOL_C if cooling else HOT_C, COOL_STATUS + 1 if cooling else HOT_STATUS):
        return DeviceState.COOLING, reason
    percent = None if vitals.battery_faked or vitals.charging else vitals.battery_percent
    if percent is not None and percent < (ENOUGH_PERCENT if low else LOW_PERCENT):
        return DeviceState.LOW_BATTERY, f"battery {percent} %, not charging; goes on at {ENOUGH_PERCENT} %"
    return DeviceState.READY, ""


def _heat(vitals: Vitals, least_c: float, least_status: int) -> str:
    """Empty: cool enough. Values that somebody faked say nothing."""
    said = []
    if vitals.battery_c is not None and not vitals.battery_faked and vitals.battery_c >= least_c:
        said.append(f"battery {vitals.battery_c:g} °C; goes on below {COOL_C:g} °C")
    if vitals.thermal_status is not None and not vitals.thermal_faked and vitals.thermal_status >= least_status:
        said.append(f"thermal status {vitals.thermal_status}; goes on at {COOL_STATUS}")
    return ", ".join(said)
