from __future__ import annotations

import json
from pathlib import Path

import pytest

from device_agent.virtual import profile
from device_agent.virtual.battery import Battery
from device_agent.virtual.processes import Processes


def test_there_are_the_three() -> None:
    assert profile.profile_names() == ["midrange", "oneplus12", "pixel8"]


@pytest.mark.parametrize("name", profile.profile_names())
def test_every_number_has_a_source(name: str) -> None:
    loaded = profile.load_profile(name)
    stated = json.loads((Path(profile.__file__).parent / "profiles" / f"{name}.json").read_text())
    assert all(entry["source"] for entry in stated.values())
    assert loaded.cores > 0
    assert loaded.power.cpu_w_per_core == stated["cpu_w_per_core"]["value"]


def test_unknown_profile_names_the_known() -> None:
    with pytest.raises(KeyError, match="midrange, oneplus12, pixel8"):
        profile.load_profile("nokia3310")


def test_battery_drains_by_the_power_model() -> None:
    pixel = profile.load_profile("pixel8")
    processes = Processes()
    battery = Battery(pixel, processes)
    assert "level: 100\n" in battery.dump()
    full_j = pixel.battery_mah * 3.6 * pixel.battery_v
    processes.cpu_s = 0.25 * full_j / pixel.cpu_w_per_core
    processes.read_bytes = int(0.25 * full_j / pixel.flash_j_per_gb * 1e9)
    assert battery.charge() == pytest.approx(0.5, abs=0.001)
    assert "level: 50\n" in battery.dump()
    assert "status: 3\n" in battery.dump()
    processes.cpu_s *= 100
    assert battery.charge() == 0.01
