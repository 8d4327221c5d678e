"""A phone's settings are put back: at the job's end, at its deadline, and when what should have done it was killed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import PhoneUnreachable
from orchestrator.farm import job_folder, quiet
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.provisioning import run
from tests.fakes.bench import ROOT, Bench

OWNERS = {"screen_off_timeout": "30000", "screen_brightness_mode": "null", "screen_brightness": "102"}
FIXED = {name: str(value) for name, value in quiet.SETTINGS.items()}
ENDS_WHEN_TOLD = b"until [ -e go ]; do sleep 0.01; done"


@pytest.fixture
def phone(bench: Bench) -> Iterator[Transport]:
    with bench.connect() as transport:
        for name, value in OWNERS.items():  # whatever other tests of this phone left
            change = f"delete system {name}" if value == "null" else f"put system {name} {value}"
            assert transport.shell(f"settings {change}", 20).exit_code == 0
        yield transport
        job_folder.sweep(transport, ROOT, keep="")
        quiet.put_back(transport, ROOT, keep="")


def settings(phone: Transport) -> dict[str, str]:
    names = " ".join(OWNERS)
    said = phone.shell(f"for s in {names}; do settings get system $s; done", 20).stdout
    return dict(zip(OWNERS, said.split(), strict=True))


def start(phone: Transport, attempt: str = "t1.1", deadline_s: float = 600.0) -> None:
    phone.push_bytes(b'cd "$2"; ' + ENDS_WHEN_TOLD, f"{ROOT}/runtime/r/agent", 10)
    quiet.put_back(phone, ROOT, keep=attempt)
    quiet.make_quiet(phone, ROOT, attempt, deadline_s)
    job_folder.start(phone, ROOT, attempt, b"{}", "r")


def test_fixed_while_a_job_runs_and_put_back_at_its_end(bench: Bench, phone: Transport) -> None:
    assert settings(phone) == OWNERS
    start(phone)
    assert settings(phone) == FIXED
    phone.close()  # nobody watches any more
    bench.file("jobs/t1.1/go").touch()
    bench.phone.until(lambda: not bench.file("quiet/restore").exists())
    phone.connect(10)
    assert settings(phone) == OWNERS


def test_put_back_when_the_agent_vanishes(bench: Bench, phone: Transport) -> None:
    start(phone)
    bench.phone.until(bench.file("jobs/t1.1/pid").exists)
    bench.phone.tell("vanish-agent")
    bench.phone.until(lambda: not bench.file("quiet/restore").exists())
    assert settings(phone) == OWNERS


def test_put_back_when_the_time_is_up(bench: Bench, phone: Transport) -> None:
    start(phone, deadline_s=3 - quiet.GRACE_S)
    bench.phone.until(lambda: not bench.file("quiet/restore").exists())
    assert settings(phone) == OWNERS
    assert job_folder.look(phone, ROOT, "t1.1").alive


def test_a_restart_leaves_it_to_the_next_one(bench: Bench, phone: Transport) -> None:
    start(phone)
    bench.phone.until(bench.file("quiet/pid").exists)
    before = boot_id(phone)
    bench.phone.tell("reboot", "0")
    phone.close()
    bench.phone.until(lambda: restarted(phone, before))
    assert settings(phone) == FIXED
    start(phone, "t1.2")
    assert settings(phone) == FIXED, "and what is put back later is still the owner's"
    job_folder.sweep(phone, ROOT, keep="")
    quiet.put_back(phone, ROOT, keep="")
    assert settings(phone) == OWNERS
    assert list(bench.file("quiet").iterdir()) == []


def test_a_guard_that_was_replaced_puts_nothing_back(bench: Bench, phone: Transport) -> None:
    start(phone)
    bench.phone.until(bench.file("quiet/pid").exists)
    replaced = Path(f"/proc/{bench.file('quiet/pid').read_text().strip()}")
    shutil.rmtree(bench.file("quiet"))
    start(phone, "t1.2")
    bench.file("jobs/t1.1/go").touch()
    bench.phone.until(lambda: not replaced.exists())
    assert bench.file("quiet/restore").exists()


def test_doing_it_again_for_the_same_attempt_changes_nothing(bench: Bench, phone: Transport) -> None:
    start(phone)
    bench.phone.until(bench.file("quiet/pid").exists)
    guard = bench.file("quiet/pid").read_text()
    start(phone)
    assert settings(phone) == FIXED
    assert bench.file("quiet/pid").read_text() == guard


def test_a_phone_that_lets_nobody_change_settings(bench: Bench, phone: Transport) -> None:
    phone.shell(f"mkdir -p {ROOT}/quiet", 10)
    run(phone, f"cd {ROOT}/quiet; settings() {{ return 1; }}{quiet.QUIET}", 20)
    assert settings(phone) == OWNERS


def boot_id(phone: Transport) -> str:
    return phone.shell("cat /proc/sys/kernel/random/boot_id", 10).stdout


def restarted(phone: Transport, before: str) -> bool:
    try:
        phone.connect(5)
        return boot_id(phone) != before
    except PhoneUnreachable:
        return False
