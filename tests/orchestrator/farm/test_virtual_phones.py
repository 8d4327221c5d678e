from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from orchestrator.errors import FarmError, UnknownName, UsageError
from orchestrator.farm import virtual_phones
from orchestrator.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    settings = Settings(tmp_path / "home with space", "", "", "here")
    yield settings
    for name in virtual_phones.names(settings):
        virtual_phones.stop(settings, name)


def pid(settings: Settings, name: str) -> int:
    return int(virtual_phones._running(settings.phones / name)["pid"])  # type: ignore[index]


def test_starts_once_and_stops(settings: Settings) -> None:
    assert virtual_phones.create(settings, "desk", "pixel8")
    assert not virtual_phones.create(settings, "desk", "pixel8")
    assert virtual_phones.address_of(settings, "desk") is None
    address = virtual_phones.ensure_running(settings, "desk")
    assert virtual_phones.ensure_running(settings, "desk") == address
    assert virtual_phones.names(settings) == ["desk"]
    process = psutil.Process(pid(settings, "desk"))
    virtual_phones.stop(settings, "desk")
    virtual_phones.stop(settings, "desk")
    assert not process.is_running()
    assert virtual_phones.address_of(settings, "desk") is None
    assert virtual_phones.profile_of(settings, "desk") == "pixel8"
    virtual_phones.remove(settings, "desk")
    assert virtual_phones.names(settings) == []


def test_many_callers_start_one_process(settings: Settings) -> None:
    virtual_phones.create(settings, "desk", "oneplus12")
    addresses: set[str] = set()
    threads = [
        threading.Thread(target=lambda: addresses.add(virtual_phones.ensure_running(settings, "desk")))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(addresses) == 1


def test_a_killed_phone_comes_back(settings: Settings) -> None:
    virtual_phones.create(settings, "desk", "oneplus12")
    virtual_phones.ensure_running(settings, "desk")
    first = pid(settings, "desk")
    os.kill(first, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while virtual_phones.address_of(settings, "desk"):
        assert time.monotonic() < deadline
    virtual_phones.ensure_running(settings, "desk")
    assert pid(settings, "desk") != first
    assert not psutil.pid_exists(first), "no zombie is left"


STARTS_AND_STAYS = """
import sys
from pathlib import Path
from orchestrator.farm import virtual_phones
from orchestrator.settings import Settings
print(virtual_phones.ensure_running(Settings(Path(sys.argv[1]), "", "", "here"), "desk"), flush=True)
sys.stdin.read()
"""


def test_stops_a_phone_whose_starter_never_asks_for_it(settings: Settings) -> None:
    virtual_phones.create(settings, "desk", "oneplus12")
    command = [sys.executable, "-c", STARTS_AND_STAYS, str(settings.home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline().startswith(b"tcp:127.0.0.1:")
        phone = psutil.Process(pid(settings, "desk"))
        virtual_phones.stop(settings, "desk")
        assert phone.status() == psutil.STATUS_ZOMBIE
        assert virtual_phones.address_of(settings, "desk") is None
        virtual_phones.remove(settings, "desk")


def test_a_recycled_pid_is_not_the_phone(settings: Settings) -> None:
    virtual_phones.create(settings, "desk", "oneplus12")
    (settings.phones / "desk" / "phone.json").write_text(f'{{"pid": {os.getpid()}, "port": 5555}}')
    assert virtual_phones.address_of(settings, "desk") is None


def test_a_phone_that_cannot_start_says_why(settings: Settings) -> None:
    virtual_phones.create(settings, "desk", "oneplus12")
    (settings.phones / "desk" / "data").write_text("a file where a folder belongs")
    with pytest.raises(FarmError, match="ended at once with exit code 2: error: virtual phone desk") as raised:
        virtual_phones.ensure_running(settings, "desk")
    assert "phone-desk.log" in raised.value.remedy


def test_bad_names_and_profiles(settings: Settings) -> None:
    for name in ("", "../etc", "a b", "-x", "$(id)", "a\n"):
        with pytest.raises(UsageError, match="not a phone name"):
            virtual_phones.create(settings, name, "oneplus12")
    with pytest.raises(UsageError, match="'each' cannot be a phone's name: phones=each chooses among all"):
        virtual_phones.create(settings, "each", "oneplus12")
    with pytest.raises(UsageError, match="no phone profile 'nokia'") as raised:
        virtual_phones.create(settings, "desk", "nokia")
    assert "midrange, midrange-arm64, oneplus12, pixel8" in raised.value.remedy
    virtual_phones.create(settings, "desk", "oneplus12")
    with pytest.raises(UsageError, match="exists with profile 'oneplus12'"):
        virtual_phones.create(settings, "desk", "pixel8")
    with pytest.raises(UnknownName):
        virtual_phones.ensure_running(settings, "nobody")
    assert not (settings.home / "etc").exists()
