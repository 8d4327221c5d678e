"""Every fault does what it says, seen through a transport, and `clear` undoes it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.errors import CommandFailed, PhoneUnauthorized, PhoneUnreachable
from orchestrator.farm.adb.connect import open_transport
from orchestrator.farm.adb.contract import Transport
from tests.fakes.phones import FakePhone, start_phone

TMP = "/data/local/tmp"
JOB = f"{TMP}/lever/jobs/a1"
# as job_folder.START starts an agent: a shell that leads a session, notes its pid, and the exit code of what it runs
DETACHED = (
    f"mkdir -p {JOB} && cd {JOB} && rm -f rc pid && trap '' HUP; "
    "setsid sh -c 'echo $$ >pid; sleep 600; echo $? >rc' >/dev/null 2>&1 </dev/null & "
    "until [ -s pid ]; do sleep 0.01; done; cat pid"
)


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakePhone]:
    running = start_phone(tmp_path_factory.mktemp("phones") / "broken", profile="midrange")
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def cleared(phone: FakePhone) -> Iterator[None]:
    yield
    phone.tell("clear")
    assert phone.tell("active") == "{}"


def reached(phone: FakePhone, tmp_path: Path, timeout_s: float = 10) -> bool:
    with open_transport(phone.address, tmp_path / "adbkey") as transport:
        try:
            transport.connect(timeout_s)
            return transport.shell("echo yes", timeout_s).stdout == "yes\n"
        except PhoneUnreachable:
            return False


def test_stall(phone: FakePhone, transport: Transport, tmp_path: Path) -> None:
    phone.tell("stall")
    assert phone.tell("active") == '{"stall": ""}'
    with pytest.raises(PhoneUnreachable, match="did not end within"):
        transport.shell("echo", 0.3)
    assert not reached(phone, tmp_path, 0.3)
    phone.tell("clear")
    assert reached(phone, tmp_path)


def test_offline_ends_early_when_cleared(phone: FakePhone, tmp_path: Path) -> None:
    phone.tell("offline", "600")
    assert not reached(phone, tmp_path)
    phone.tell("clear")
    phone.until(lambda: reached(phone, tmp_path))


def test_slow(phone: FakePhone, transport: Transport) -> None:
    phone.tell("slow", "200")
    began = time.monotonic()
    transport.push_bytes(bytes(100_000), f"{TMP}/slow", 30)
    assert time.monotonic() - began > 0.45  # 100 kB at 200 kB/s


def test_garbage(phone: FakePhone, transport: Transport, tmp_path: Path) -> None:
    phone.tell("garbage")
    with pytest.raises(PhoneUnreachable, match="does not speak ADB"):
        transport.shell("echo", 5)
    assert not reached(phone, tmp_path)
    phone.tell("clear")
    assert reached(phone, tmp_path)


def test_lost_ends(phone: FakePhone, transport: Transport, tmp_path: Path) -> None:
    phone.tell("lose-ends", "1")
    with pytest.raises(PhoneUnreachable):
        transport.shell(f"echo done >{TMP}/ran", 10)
    assert phone.path(f"{TMP}/ran").read_text() == "done\n", "it ran all the same"
    assert reached(phone, tmp_path)


def test_revoked_keys(phone: FakePhone, tmp_path: Path) -> None:
    phone.tell("unauthorized")
    with open_transport(phone.address, tmp_path / "adbkey") as transport, pytest.raises(PhoneUnauthorized):
        transport.connect(0.5)
    waiting = threading.Thread(target=reached, args=(phone, tmp_path))
    waiting.start()
    phone.tell("authorize")
    waiting.join()
    assert reached(phone, tmp_path), "the key is known now"


@pytest.mark.parametrize("fault", ["kill-agent", "oom-kill"])
def test_killed_agent(phone: FakePhone, transport: Transport, fault: str) -> None:
    assert phone.refuses(fault) == "no agent runs on this phone\n"
    transport.shell(DETACHED, 10)
    before = transport.shell("cat /proc/vmstat", 10).stdout
    phone.tell(fault)
    phone.until(lambda: phone.path(f"{JOB}/rc").exists() and phone.path(f"{JOB}/rc").read_text())
    assert phone.path(f"{JOB}/rc").read_text() == "137\n"
    after = transport.shell("cat /proc/vmstat", 10).stdout
    assert int(after.split()[1]) - int(before.split()[1]) == (fault == "oom-kill")


def test_vanished_agent(phone: FakePhone, transport: Transport) -> None:
    pid = transport.shell(DETACHED, 10).stdout.strip()
    phone.tell("vanish-agent")
    phone.until(lambda: transport.shell(f"kill -0 -{pid} 2>/dev/null", 10).exit_code != 0)
    assert not phone.path(f"{JOB}/rc").exists()


@pytest.mark.parametrize("fault", ["restart-adbd", "reboot"])
def test_restart(phone: FakePhone, transport: Transport, tmp_path: Path, fault: str) -> None:
    pid = int(transport.shell(DETACHED, 10).stdout)
    boot_id, uptime = transport.shell("cat /proc/sys/kernel/random/boot_id /proc/uptime", 10).stdout.split("\n")[:2]
    phone.tell(fault, "0.2")
    phone.until(lambda: not os.path.exists(f"/proc/{pid}"))
    phone.until(lambda: reached(phone, tmp_path))
    transport.close()
    transport.connect(10)
    again = transport.shell("cat /proc/sys/kernel/random/boot_id /proc/uptime", 10).stdout.split("\n")
    assert (again[0] != boot_id) == (fault == "reboot")
    assert (float(again[1].split()[0]) < float(uptime.split()[0])) == (fault == "reboot")
    assert phone.path(f"{JOB}/pid").exists(), "files outlive it"


def test_reboot_by_command(phone: FakePhone, transport: Transport, tmp_path: Path) -> None:
    boot_id = transport.shell("cat /proc/sys/kernel/random/boot_id", 10).stdout
    with suppress(PhoneUnreachable):
        transport.shell("reboot", 10)
    phone.until(lambda: phone.path("/proc/sys/kernel/random/boot_id").read_text() != boot_id)
    phone.until(lambda: reached(phone, tmp_path))


def test_full_storage(phone: FakePhone, transport: Transport) -> None:
    transport.shell(DETACHED.replace("sleep 600", "(while sleep 0.05; do echo x >>growing || exit; done)"), 10)
    phone.until(lambda: phone.path(f"{JOB}/growing").exists())
    phone.tell("disk-full")
    with pytest.raises(CommandFailed, match="No space left on device"):
        transport.push_bytes(b"x", f"{TMP}/x", 10)
    assert transport.shell(f"echo x >{TMP}/x", 10).exit_code != 0
    assert transport.shell(f"df -P -k {TMP}", 10).stdout.split()[-3] == "0"
    pid = phone.path(f"{JOB}/pid").read_text().strip()
    phone.until(lambda: not Path(f"/proc/{pid}").exists())  # its write failed, and so did its last words
    assert phone.path(f"{JOB}/rc").read_text() == ""
    phone.tell("clear")
    transport.push_bytes(b"x", f"{TMP}/x", 10)
    assert transport.shell(f"echo x >{TMP}/x", 10).exit_code == 0


def test_read_only_storage(phone: FakePhone, transport: Transport) -> None:
    phone.tell("read-only")
    with pytest.raises(CommandFailed, match="Read-only file system"):
        transport.push_bytes(b"x", f"{TMP}/x", 10)
    if os.getuid() == 0:  # a mount namespace makes it so for shells
        result = transport.shell(f"mkdir {TMP}/new", 10)
        assert result.exit_code != 0
        assert "Read-only file system" in result.stdout
    phone.tell("clear")
    assert transport.shell(f"mkdir {TMP}/new && rmdir {TMP}/new", 10).exit_code == 0


def test_other_serial(phone: FakePhone, transport: Transport) -> None:
    phone.tell("wrong-serial")
    with pytest.raises(PhoneUnreachable):  # whom it was connected to is gone
        transport.shell("true", 10)
    transport.connect(10)
    assert transport.shell("getprop ro.serialno", 10).stdout.strip() not in ("", phone.serial)
    phone.tell("clear")
    assert transport.shell("getprop ro.serialno", 10).stdout.strip() == phone.serial


def test_heat_and_battery_are_shown(phone: FakePhone, transport: Transport) -> None:
    for words in (("hot", "49"), ("low-battery", "7"), ("charging",)):
        phone.tell(*words)
    battery = transport.shell("dumpsys battery", 10).stdout
    assert "  level: 7\n" in battery
    assert "  temperature: 490\n" in battery
    assert "  AC powered: true\n" in battery
    assert "  status: 2\n" in battery
    assert "Thermal Status: 3\n" in transport.shell("dumpsys thermalservice", 10).stdout
    frequency = "/sys/devices/system/cpu/cpu0/cpufreq"
    shown = transport.shell(f"cat {frequency}/scaling_cur_freq {frequency}/cpuinfo_max_freq", 10).stdout.split()
    assert int(shown[0]) < int(shown[1])


def test_faked_values_say_so_and_can_be_reset(phone: FakePhone, transport: Transport) -> None:
    phone.tell("faked-battery", "88")
    assert "UPDATES STOPPED" in transport.shell("dumpsys battery", 10).stdout
    assert "  level: 88\n" in transport.shell("dumpsys battery", 10).stdout
    assert transport.shell("dumpsys battery reset", 10).exit_code == 0
    assert "UPDATES STOPPED" not in transport.shell("dumpsys battery", 10).stdout
    phone.tell("faked-thermal", "4")
    shown = transport.shell("dumpsys thermalservice", 10).stdout
    assert "IsStatusOverride: true" in shown
    assert "Thermal Status: 4\n" in shown
    assert transport.shell("cmd thermalservice reset", 10).exit_code == 0
    assert "IsStatusOverride: false" in transport.shell("dumpsys thermalservice", 10).stdout
    assert transport.shell("cmd nonsense", 10).exit_code != 0


def test_denied_gauge(phone: FakePhone, transport: Transport) -> None:
    gauge = "/sys/class/power_supply/battery"
    result = transport.shell(f"cat {gauge}/current_now", 10)
    assert (result.exit_code, "Permission denied" in result.stdout) == (1, True), "this profile's quirk"
    assert transport.shell(f"cat {gauge}/voltage_now", 10).exit_code == 0
    phone.tell("denied-gauge")
    assert "Permission denied" in transport.shell(f"cat {gauge}/voltage_now", 10).stdout


def test_the_agent_tells_what_it_may_read(phone: FakePhone, transport: Transport) -> None:
    probe = f'PYTHONPATH={Path(__file__).parents[3]} "$LEVER_HOST_PYTHON" -P -m device_agent probe {TMP}'
    phone.tell("faked-battery", "100")
    phone.tell("hot", "49")
    found = json.loads(transport.shell(probe, 60).stdout)["sensors"]
    assert found["battery_level"].startswith("unavailable (faked")
    assert found["current"].endswith("current_now: Permission denied)")
    assert (found["thermal_status"], found["temperature"]) == ("3", "49 °C")
    assert found["clock"].endswith("of its highest")
    assert found["voltage"].endswith(" V"), "from the kernel, which nobody faked"
