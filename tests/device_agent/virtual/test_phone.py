"""The phone as a process: its commands, its manners at the start and the end."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from device_agent.virtual.ask import ask
from orchestrator.farm.adb.connect import open_transport
from orchestrator.farm.adb.contract import Transport
from tests.fakes.phones import FakePhone, PhoneFactory, start_phone


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakePhone]:
    running = start_phone(tmp_path_factory.mktemp("phones") / "facts", "facts", "pixel8")
    yield running
    running.stop()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ro.product.model", "Pixel 8"),
        ("ro.soc.model", "Tensor G3"),
        ("ro.board.platform", "zuma"),
        ("ro.product.cpu.abilist", "arm64-v8a"),
        ("ro.build.version.sdk", "34"),
        ("ro.lever.virtual", "1"),
        ("ro.lever.profile", "pixel8"),
        ("ro.lever.flash_mb_s", "2100"),
        ("ro.lever.ram_mb", "8192"),
        ("ro.lever.cores", str(min(9, len(os.sched_getaffinity(0))))),
        ("ro.nothing", ""),
    ],
)
def test_getprop(transport: Transport, name: str, value: str) -> None:
    assert transport.shell(f"getprop {name}", 10).stdout == value + "\n"


def test_shell_and_tools_are_androids(transport: Transport, phone: FakePhone) -> None:
    missing = [tool for tool in ("mksh", "toybox") if not shutil.which(tool)]
    if missing and not os.environ.get("CI"):
        pytest.skip(f"not installed: {', '.join(missing)}")
    assert not missing
    assert transport.shell("getprop ro.lever.userland", 10).stdout == "mksh+toybox\n"
    assert "MIRBSD KSH" in transport.shell("echo $KSH_VERSION", 10).stdout
    assert "toybox" in transport.shell("ls --help", 10).stdout.lower()
    assert transport.shell("setsid -f true", 10).exit_code != 0, "a flag that only util-linux has"
    assert transport.shell("python3 -c 1", 10).exit_code == 127, "nothing of the host is on the PATH"
    assert transport.shell("/system/bin/sh -c 'echo $0'", 10).stdout.endswith("/system/bin/sh\n")


def test_without_androids_tools_the_hosts_serve_and_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host_only = tmp_path / "bin"
    host_only.mkdir()
    for tool in ("sh", "cat", "ls"):
        (host_only / tool).symlink_to(str(shutil.which(tool)))
    monkeypatch.setenv("PATH", str(host_only))
    phone = start_phone(tmp_path / "phone", profile="midrange")
    try:
        with open_transport(phone.address, tmp_path / "adbkey") as transport:
            transport.connect(10)
            assert transport.shell("getprop ro.lever.userland", 10).stdout == "host\n"
    finally:
        phone.stop()


def test_getprop_of_everything(transport: Transport, phone: FakePhone) -> None:
    lines = transport.shell("getprop", 10).stdout.splitlines()
    properties = dict(re.fullmatch(r"\[(.*?)\]: \[(.*)\]", line).groups() for line in lines)  # type: ignore[union-attr,misc]
    assert properties["ro.serialno"] == phone.serial
    assert "pixel8" in properties["ro.build.fingerprint"]
    assert set(json.loads(properties["ro.lever.power_model"])) == {"idle_w", "cpu_w_per_core", "flash_j_per_gb"}


def test_dumpsys(transport: Transport) -> None:
    battery = transport.shell("dumpsys battery", 10).stdout
    for field in ("Charge counter", "status", "level", "voltage", "temperature"):
        assert re.search(rf"^  {field}: \d+$", battery, re.MULTILINE), field
    thermal = transport.shell("dumpsys thermalservice", 10).stdout
    assert "Thermal Status: 0" in thermal
    assert "IsStatusOverride: false" in thermal
    assert transport.shell("dumpsys nonsense", 10).exit_code == 1


def test_df_counts_what_is_there(transport: Transport, phone: FakePhone) -> None:
    def used_kib() -> int:
        header, row = transport.shell("df -k /data/local/tmp", 10).stdout.splitlines()
        assert header.split()[:4] == ["Filesystem", "1K-blocks", "Used", "Available"]
        total, used, free = map(int, row.split()[1:4])
        assert total == 128 * 10**9 // 1024
        assert used + free <= total
        return used

    before = used_kib()
    transport.push_bytes(bytes(5_000_000), "/data/local/tmp/five", 10)
    assert used_kib() - before == pytest.approx(5_000_000 / 1024, abs=8)


def test_environment_is_the_phones_own(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {line.partition("=")[0] for line in transport.shell("env", 10).stdout.splitlines()}
    assert "LEVER_HOST_PYTHON" in names
    assert not {name for name in names if name.startswith(("PYTEST", "VIRTUAL_ENV", "MLFLOW"))}
    assert transport.shell('"$LEVER_HOST_PYTHON" -c "print(6*7)"', 20).stdout == "42\n"


def test_working_folder_is_the_root(transport: Transport, phone: FakePhone) -> None:
    assert transport.shell("pwd -P", 10).stdout == f"{phone.root.resolve()}\n"


def test_idle_phone_costs_next_to_nothing(transport: Transport, phone: FakePhone) -> None:
    transport.shell("true", 10)
    status = Path(f"/proc/{phone.process.pid}/status").read_text()
    assert int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) < 40_000

    def cpu_ticks() -> int:
        fields = Path(f"/proc/{phone.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def at_rest() -> bool:
        before = cpu_ticks()
        time.sleep(0.5)  # nothing to wait for: the absence of work is what is measured
        return cpu_ticks() == before

    assert any(at_rest() for _ in range(4))  # a look at what changes may still be due


def test_description_comes_and_goes(virtual_phone: PhoneFactory) -> None:
    phone = virtual_phone("one", "midrange")
    assert phone.described == {
        "pid": phone.process.pid,
        "port": phone.port,
        "profile": "midrange",
        "serial": phone.serial,
        "name": "one",
    }
    phone.stop()
    assert phone.process.returncode == 0
    assert not (phone.root / "phone.json").exists()
    with pytest.raises(OSError, match=r"."):
        ask(phone.root, "cut")


def test_one_phone_a_folder(phone: FakePhone) -> None:
    second = run_phone("--root", str(phone.root), "--name", "second", "--profile", "pixel8")
    assert second.returncode == 2
    assert "runs already" in second.stderr
    assert (phone.root / "phone.json").exists()


def test_taken_port_is_named(phone: FakePhone, tmp_path: Path) -> None:
    other = run_phone("--root", str(tmp_path), "--name", "other", "--profile", "pixel8", "--port", str(phone.port))
    assert other.returncode == 2
    assert "other" in other.stderr
    assert "in use" in other.stderr
    assert "Traceback" not in other.stderr


def test_control_answers_what_it_does_not_know(phone: FakePhone) -> None:
    code, text = ask(phone.root, "explode")
    assert (code, text.partition(";")[0]) == (2, "unknown command 'explode'")
    assert {"authorize", "clear", "cut", "df", "getprop"} <= set(text.partition("there are ")[2].strip().split(", "))
    assert ask(phone.root, "offline") == (2, "offline takes a number of seconds, got nothing\n")
    assert ask(phone.root, "cut", "1") == (2, "cut takes nothing, got 1\n")
    assert ask(phone.root, "offline", "soon")[0] == 2


def run_phone(*arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "device_agent.virtual", *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
