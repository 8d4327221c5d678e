"""What a transport says of a virtual phone's faults, through both backends: never that a command ended well."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.errors import CommandFailed, PhoneError, PhoneUnreachable
from orchestrator.farm.adb.contract import Transport
from tests.fakes.adb_links import BACKENDS, AdbLink, adb_link
from tests.fakes.phones import FakePhone

TMP = "/data/local/tmp"
BACK_S = 20.0


@pytest.fixture(scope="module", params=BACKENDS)
def link(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdbLink]:
    with adb_link(("virtual", request.param), tmp_path_factory.mktemp("link")) as running:
        yield running


@pytest.fixture
def phone(link: AdbLink) -> Iterator[FakePhone]:
    assert isinstance(link.phone, FakePhone)
    yield link.phone
    link.phone.tell("clear")


@pytest.fixture
def transport(link: AdbLink, phone: FakePhone) -> Iterator[Transport]:
    with link.open() as opened:
        assert_back(opened, phone)  # it may be away yet: a restart comes a moment after it was asked for
        yield opened


def assert_back(transport: Transport, phone: FakePhone) -> None:
    """Within BACK_S: a link that a fault has cut may be found dead only when it is used."""
    phone.tell("clear")
    deadline = time.monotonic() + BACK_S
    while True:
        try:
            transport.close()
            transport.connect(max(1.0, deadline - time.monotonic()))
            assert transport.shell("echo back", 10).stdout == "back\n"
        except PhoneError:
            if time.monotonic() > deadline:
                raise
        else:
            return


def test_lost_end_is_no_end(transport: Transport, phone: FakePhone) -> None:
    phone.tell("lose-ends")
    with pytest.raises(PhoneUnreachable, match=rf"{phone.endpoint}: running 'touch .*' failed") as caught:
        transport.shell(f"touch {TMP}/done; echo said", 10)
    assert caught.value.remedy
    assert phone.path(f"{TMP}/done").exists(), "the command did run: only its end was lost"
    assert_back(transport, phone)


def test_stalled_phone(transport: Transport, phone: FakePhone, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(30_000_000))
    phone.tell("stall")
    with pytest.raises(PhoneUnreachable, match=r"did not end within 0\.3 s"):
        transport.shell("echo", 0.3)
    assert_back(transport, phone)
    phone.tell("stall")
    with pytest.raises(PhoneUnreachable, match=r"did not end within 0\.3 s"):
        transport.push(tmp_path / "big", f"{TMP}/big", 0.3)
    assert_back(transport, phone)
    phone.tell("stall")
    with pytest.raises(PhoneUnreachable, match=r"did not end within 0\.3 s"):
        transport.pull(f"{TMP}/big", tmp_path / "back", 0.3)
    assert not (tmp_path / "back").exists()
    assert_back(transport, phone)


def test_slow_link_meets_the_deadline(transport: Transport, phone: FakePhone, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(30_000_000))
    phone.tell("slow", "1000")
    with pytest.raises(PhoneUnreachable, match=r"did not end within 0\.5 s"):
        transport.push(tmp_path / "big", f"{TMP}/big", 0.5)
    assert_back(transport, phone)


def test_garbage(transport: Transport, phone: FakePhone) -> None:
    phone.tell("garbage")
    with pytest.raises(PhoneUnreachable, match=re.escape(phone.endpoint)):
        transport.shell("echo", 5)
    with pytest.raises(PhoneUnreachable, match=re.escape(phone.endpoint)):
        transport.connect(2)
    assert_back(transport, phone)


def test_full_disk_is_the_phones_no(transport: Transport, phone: FakePhone, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(8_000_000))
    phone.tell("disk-full")
    with pytest.raises(CommandFailed, match="No space left"):
        transport.push(tmp_path / "big", f"{TMP}/big", 20)
    assert transport.shell("echo alive", 10).stdout == "alive\n"


@pytest.mark.parametrize("fault", ["cut", "restart-adbd", "reboot"])
def test_connection_ends_in_mid_command(transport: Transport, phone: FakePhone, fault: str) -> None:
    phone.tell(fault, *([] if fault == "cut" else ["0.2"]))
    with suppress(PhoneError):  # a cut in between is no command's failure; a wrong answer would be one
        assert transport.shell("echo well", 10).stdout == "well\n"
    assert_back(transport, phone)
