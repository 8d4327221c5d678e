from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from device_agent.virtual import profile
from device_agent.virtual.battery import EMPTY_MV, FULL_MV, Battery
from device_agent.virtual.body import Body
from device_agent.virtual.emulation import emulation
from device_agent.virtual.processes import Usage


def test_there_are_the_three_and_one_emulated() -> None:
    assert profile.profile_names() == ["midrange", "midrange-arm64", "oneplus12", "pixel8"]


@pytest.mark.parametrize("name", profile.profile_names())
def test_every_number_has_a_source(name: str) -> None:
    loaded = profile.load_profile(name)
    stated = json.loads((Path(profile.__file__).parent / "profiles" / f"{name}.json").read_text())
    assert all(entry["source"] for entry in stated.values())
    assert loaded.cores > 0
    assert loaded.power.cpu_w_per_core == stated["cpu_w_per_core"]["value"]


def test_unknown_profile_names_the_known() -> None:
    with pytest.raises(KeyError, match="midrange, midrange-arm64, oneplus12, pixel8"):
        profile.load_profile("nokia3310")


def test_battery_drains_by_the_power_model() -> None:
    pixel = profile.load_profile("pixel8")
    full_j = pixel.battery_mah * 3.6 * pixel.battery_v
    half = Usage(0.25 * full_j / pixel.cpu_w_per_core, int(0.25 * full_j / pixel.flash_j_per_gb * 1e9))
    used, now = [Usage(0.0, 0)], [0.0]
    battery = Battery(pixel, Body(pixel, lambda: used[0], lambda: now[0]))
    assert "level: 100\n" in battery.dump()
    now[0], used[0] = 10.0, half
    assert battery.charge() == pytest.approx(0.5, abs=0.001)
    assert "level: 50\n" in battery.dump()
    assert "status: 3\n" in battery.dump()
    assert battery.voltage_mv() == pytest.approx((FULL_MV + EMPTY_MV) / 2, abs=2)
    watts = 0.5 * full_j / 10 + pixel.idle_w
    assert battery.discharge_a() == pytest.approx(watts / battery.voltage_mv() * 1000)
    now[0], used[0] = 20.0, Usage(100 * half.cpu_s, 0)
    assert battery.charge() == 0.3


def test_heat_has_inertia_and_throttles() -> None:
    pixel = profile.load_profile("pixel8")
    used, now = [Usage(0.0, 0)], [0.0]
    body = Body(pixel, lambda: used[0], lambda: now[0])
    cool = body.celsius
    assert (body.thermal_status(), body.clock_share()) == (0, 1.0)

    def run(seconds: float, cores: float) -> float:
        now[0] += seconds
        used[0] = Usage(used[0].cpu_s + seconds * cores, 0)
        body.look()
        return body.celsius

    busy_c = pixel.ambient_c + pixel.heat_c_per_w * (pixel.idle_w + 6 * pixel.cpu_w_per_core)
    assert run(pixel.heat_tau_s, 6) == pytest.approx(busy_c - (busy_c - cool) / math.e)
    assert run(20 * pixel.heat_tau_s, 6) == pytest.approx(busy_c, abs=0.01)
    assert body.thermal_status() == sum(busy_c >= pixel.throttle_c + above for above in (0, 3, 6, 12)) > 0
    assert 0.4 <= body.clock_share() < 1
    assert run(1, 0) > busy_c - 1
    assert run(20 * pixel.heat_tau_s, 0) == pytest.approx(cool, abs=0.01)
    body.pinned_c = 60.0
    assert (body.thermal_status(), body.clock_share()) == (4, 0.4)


def test_arch_is_the_host_s_or_arm64(tmp_path: Path) -> None:
    assert profile.load_profile("midrange").arch == "host"
    assert profile.load_profile("midrange-arm64").arch == "arm64"
    stated = json.loads((Path(profile.__file__).parent / "profiles" / "midrange-arm64.json").read_text())
    stated["arch"]["value"] = "riscv"
    (tmp_path / "odd.json").write_text(json.dumps(stated))
    with pytest.raises(ValueError, match="arch 'riscv' is neither host nor arm64"):
        profile.load_profile(str(tmp_path / "odd.json"))


def test_a_phone_of_another_processor_needs_an_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert emulation("host") == {}
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="apt-get install qemu-user-static"):
        emulation("arm64")
    (tmp_path / "qemu-aarch64").touch(0o755)
    assert emulation("arm64")["LEVER_EMULATOR"].startswith(f"{tmp_path}/qemu-aarch64 -cpu max")
