"""Sensors as phones tell them; captured texts, and a phone that tells nothing."""

from __future__ import annotations

from orchestrator.farm.adb.contract import ShellResult
from orchestrator.farm.sensors import Vitals, as_facts, read_vitals, summary
from tests.fakes.bench import Bench

PIXEL = """Current Battery Service state:
  AC powered: false
  USB powered: true
  Wireless powered: false
  status: 2
  present: true
  level: 64
  scale: 100
  voltage: 4071
  temperature: 312
  technology: Li-ion
>
IsStatusOverride: false
Thermal Status: 2
>
-412000
>
4071000
"""
FAKED = "Current Battery Service state:\n  (UPDATES STOPPED -- use 'reset' to restart)\n  level: 100\n  status: 3\n"


class Says:
    """A transport that answers one text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def shell(self, command: str, timeout_s: float) -> ShellResult:
        return ShellResult(0, self._text)


def vitals(text: str) -> Vitals:
    return read_vitals(Says(text))  # type: ignore[arg-type]


def test_a_phone_that_charges() -> None:
    assert vitals(PIXEL) == Vitals(64, 31.2, True, False, 2, False, -412000, 4071000)
    assert summary(vitals(PIXEL)).startswith(
        "battery 64 %, 31.2 °C, plugged in or charging; thermal status 2; current r"
    )


def test_faked_and_denied_values_are_called_so() -> None:
    found = vitals(FAKED + ">\nIsStatusOverride: true\nThermal Status: 0\n>\n>\n")
    assert (found.battery_faked, found.thermal_faked, found.current) == (True, True, None)
    assert "(FAKED)" in summary(found)
    assert "(OVERRIDDEN)" in summary(found)
    assert as_facts(found)["current"] == "unavailable"
    assert as_facts(found)["battery"] == "readable"


def test_garbage_is_unavailable_never_zero() -> None:
    for text in ("", ">", "\n>\n>\n>\n", "level: many\ntemperature: 1e9\n>\nThermal Status: hot", "\0\xff" * 100):
        assert vitals(text) == Vitals(charging=None)
        assert summary(vitals(text)) == "battery: unavailable; thermal unavailable; current unavailable"


def test_a_virtual_phone_tells_its_own(bench: Bench) -> None:
    with bench.connect() as phone:
        found = read_vitals(phone)
    assert found.battery_percent is not None
    assert found.thermal_status == 0
    assert found.charging is False
