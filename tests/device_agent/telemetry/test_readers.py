"""Every vendor's quirk gives a value or says why not; nothing that is missing becomes zero."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from device_agent.telemetry.battery import BatteryState, battery_state, volts
from device_agent.telemetry.clocks import clock_share
from device_agent.telemetry.gauge import GaugeSample, GaugeUnit, gauge_unit, sample
from device_agent.telemetry.reading import Missing, dump, node, number
from device_agent.telemetry.thermal import thermal_state
from device_agent.virtual.battery import Battery
from device_agent.virtual.body import Body
from device_agent.virtual.limits import Limits
from device_agent.virtual.nodes import Nodes
from device_agent.virtual.processes import Usage
from device_agent.virtual.profile import load_profile, profile_names
from device_agent.virtual.thermal import Thermal


class Bench:
    """A phone's battery, heat and kernel files, with a clock and a load that the test moves."""

    def __init__(self, root: Path, profile: str) -> None:
        self.profile, self.now, self.used = load_profile(profile), 0.0, Usage(0.0, 0)
        self.body = Body(self.profile, lambda: self.used, lambda: self.now)
        self.battery, self.thermal = Battery(self.profile, self.body), Thermal(self.body)
        self.nodes = Nodes(root, self.profile, self.battery, Limits(1))
        self.nodes.boot()

    def run(self, seconds: float, cores: float) -> GaugeSample:
        self.now += seconds
        self.used = Usage(self.used.cpu_s + seconds * cores, 0)
        self.nodes.refresh()
        return sample(self.now)


@pytest.fixture(params=profile_names())
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("LEVER_PHONE", str(tmp_path))
    return Bench(tmp_path, request.param)


def test_battery_is_read_as_it_is(bench: Bench) -> None:
    bench.run(600, 4)
    told = battery_state(bench.battery.dump())
    assert told.level_percent == round(100 * bench.battery.charge())
    assert told.voltage_v == pytest.approx(bench.battery.voltage_mv() / 1000)
    assert told.temperature_c == pytest.approx(bench.body.celsius, abs=0.06)
    assert told.counter_uah == bench.battery.counter_uah()
    assert told.plugged is False
    bench.battery.plugged = True
    assert battery_state(bench.battery.dump()).plugged is True


def test_faked_battery_is_no_battery(bench: Bench) -> None:
    bench.battery.command(["set", "level", "80"])
    told = battery_state(bench.battery.dump())
    assert all("UPDATES STOPPED" in str(value) for value in vars(told).values())
    bench.battery.command(["reset"])
    assert battery_state(bench.battery.dump()).level_percent == 100


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Can't find service: battery\n",
        "  level: 0x32\n  voltage: 0\n  temperature: -2147483648\n  Charge counter: 0\n",
        "  level: 255\n  voltage: -1\n  temperature: 20000\n  Charge counter: -5\n",
    ],
)
def test_nonsense_is_missing_and_never_zero(text: str) -> None:
    assert all(isinstance(value, Missing) for value in vars(battery_state(text)).values())


def test_what_cannot_be_asked_is_missing() -> None:
    told = battery_state(dump("battery"))  # this machine has no dumpsys
    assert isinstance(told, BatteryState)
    assert str(told.level_percent).startswith("unavailable (dumpsys battery: ")
    assert "No such file" in str(node("/sys/class/power_supply/battery/absent"))
    assert isinstance(number("nan", (0, 1)), Missing)


@pytest.mark.parametrize("text", ["3.91", "3912", "3912000"])
def test_voltage_in_any_unit(text: str) -> None:
    assert volts(text) == pytest.approx(3.91, abs=0.01)


def test_thermal_status_and_its_override(bench: Bench) -> None:
    bench.body.pinned_c = bench.profile.throttle_c + 7
    told = thermal_state(bench.thermal.dump())
    assert told.status == 3
    assert told.celsius == {"battery": bench.body.celsius, "skin": bench.body.celsius}
    assert bench.thermal.command(["override-status", "0"]) == ""
    told = thermal_state(bench.thermal.dump())
    assert "overridden" in str(told.status)
    assert told.celsius["skin"] == bench.body.celsius


def test_sensors_without_a_value_are_left_out() -> None:
    text = "Thermal Status: 0\n\tTemperature{mValue=NaN, mType=3, mName=skin, mStatus=0}\n"
    assert thermal_state(text).celsius == {}
    assert isinstance(thermal_state("nothing").status, Missing)


def test_clocks_show_throttling(bench: Bench) -> None:
    assert clock_share(0) == 1
    bench.body.pinned_c = bench.profile.throttle_c + 10
    bench.nodes.refresh()
    assert clock_share(0) == pytest.approx(bench.body.clock_share(), abs=1e-3)
    assert isinstance(clock_share(64), Missing)


def test_unit_and_sign_are_found_from_the_counter(bench: Bench) -> None:
    samples = [bench.run(10, cores) for cores in (2, 4, 1, 3)]
    found = gauge_unit(samples)
    if bench.profile.denied_nodes:
        return  # root reads on, whatever the mode: test_phone.py sees such a phone from its shell
    ampere = {"uA": 1e-6, "mA": 1e-3}[bench.profile.current_unit]
    assert found == GaugeUnit(ampere, bench.profile.discharge_sign)
    assert found.discharge_a(samples[-1].current) == pytest.approx(bench.battery.discharge_a(), rel=0.01)


GOOD = [GaugeSample(10.0 * i, -400_000.0, 4.0, 5_000_000.0 - 1111.0 * i, "Discharging") for i in range(4)]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"status": "Charging"}, "status is Charging"),
        ({"status": Missing("denied")}, "denied"),
        ({"current": Missing("Permission denied")}, "Permission denied"),
        ({"current": 0.0}, "current_now is 0"),
        ({"current": -40.0}, "would be"),
        ({"counter_uah": 5_000_000.0}, "too little"),
        ({"counter_uah": Missing("no node")}, "no node"),
    ],
)
def test_a_unit_that_cannot_be_found_says_why(changed: dict[str, object], why: str) -> None:
    assert gauge_unit(GOOD) == GaugeUnit(1e-6, -1)
    fields = [vars(good) | changed for good in GOOD]
    assert why in str(gauge_unit([GaugeSample(**f) for f in fields]))
    assert "one sample" in str(gauge_unit(GOOD[:1]))


@pytest.mark.parametrize(("unit", "sign"), list(itertools.product([1e-6, 1e-3], [1, -1])))
def test_all_units_and_signs(unit: float, sign: int) -> None:
    samples = [GaugeSample(s.at_s, sign * 0.4 / unit, s.voltage_v, s.counter_uah, "Discharging") for s in GOOD]
    assert gauge_unit(samples) == GaugeUnit(unit, sign)
