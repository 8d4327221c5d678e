"""What every transport of ours promises when something is wrong. Debian's `adb` keeps few of these promises."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.errors import CommandFailed, PhoneUnreachable
from orchestrator.farm.adb.contract import Transport
from tests.fakes.adb_links import OURS, AdbLink, adb_link

TMP = "/data/local/tmp"


@pytest.fixture(scope="module", params=OURS)
def link(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdbLink]:
    with adb_link(request.param, tmp_path_factory.mktemp("link")) as running:
        yield running


@pytest.fixture
def transport(link: AdbLink) -> Iterator[Transport]:
    with link.entered(), link.open() as opened:
        opened.connect(10)
        yield opened


@pytest.fixture(params=OURS)
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AdbLink]:
    """A phone for one test, which may end it."""
    with adb_link(request.param, tmp_path) as running, running.entered():
        yield running


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_push_onto_a_folder_fails_and_the_connection_lives(transport: Transport, tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(bytes(5_000_000))
    with pytest.raises(CommandFailed, match=r"(tcp|wireless):[\d.]+:\d+: pushing .* failed"):
        transport.push(big, TMP, 20)
    assert transport.shell("echo alive", 10).stdout == "alive\n"


def test_a_begun_command_may_be_given_up(transport: Transport) -> None:
    transport.begin("echo begun; sleep 600", 10).close()
    assert transport.shell("echo alive", 10).stdout == "alive\n"


def test_a_begun_command_that_ended_meanwhile_is_closed_at_once(transport: Transport) -> None:
    begun = transport.begin("echo done", 10)
    assert begun.result(10).stdout == "done\n"
    assert transport.shell("sleep 0.2; echo meanwhile", 10).stdout == "meanwhile\n"  # the stream's end arrives here
    started = time.monotonic()
    begun.close()
    assert time.monotonic() - started < 5


def test_a_begun_command_is_not_waited_for_endlessly(transport: Transport) -> None:
    begun = transport.begin("echo begun; sleep 600", 10)
    with pytest.raises(PhoneUnreachable, match=r"running .echo begun; sleep 600. did not end within 0\.3 s"):
        begun.result(0.3)
    begun.close()


def test_endless_output_is_stopped(transport: Transport) -> None:
    with pytest.raises(CommandFailed, match="64 MiB"):
        transport.shell("cat /dev/zero", 60)
    assert transport.shell("echo alive", 10).stdout == "alive\n"


def test_deadline_passes(transport: Transport) -> None:
    with pytest.raises(PhoneUnreachable, match=r"did not end within 0\.3 s"):
        transport.shell("sleep 30", 0.3)
    with pytest.raises(PhoneUnreachable):  # the connection's state is unknown, so it is closed
        transport.shell("echo", 5)


def test_closed_is_closed(transport: Transport, tmp_path: Path) -> None:
    transport.close()
    with pytest.raises(PhoneUnreachable, match="not connected"):
        transport.pull(f"{TMP}/any", tmp_path / "any", 5)


def test_a_quiet_operation_blocks_no_other_connection(link: AdbLink, transport: Transport) -> None:
    with link.open() as other, ThreadPoolExecutor(1) as pool:
        other.connect(10)
        quiet = pool.submit(transport.shell, f"while [ ! -e {TMP}/go ]; do sleep 0.05; done; echo went", 30)
        wait_for(quiet.running, "it runs")
        assert other.shell(f"touch {TMP}/go", 10).exit_code == 0
        assert quiet.result(20).stdout == "went\n"


def test_phone_dies_in_mid_command(mortal: AdbLink) -> None:
    phone = mortal.phone
    with mortal.open() as transport, ThreadPoolExecutor(1) as pool:
        transport.connect(10)
        waiting = f"echo said; touch {TMP}/started; while [ ! -e {TMP}/go ]; do sleep 0.05; done"
        running = pool.submit(transport.shell, waiting, 30)
        wait_for(phone.path(f"{TMP}/started").exists, "the command starts")
        os.kill(phone.process.pid, signal.SIGKILL)
        with pytest.raises(PhoneUnreachable, match=rf"(tcp|wireless):{phone.endpoint}: running 'echo said") as caught:
            running.result(20)
        assert caught.value.remedy
    phone.path(f"{TMP}/go").touch()  # a virtual phone that is killed leaves its processes


def test_phone_dies_in_mid_push(mortal: AdbLink, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(30_000_000))

    def kill(sent: int) -> None:
        if sent > 10_000_000:
            with suppress(ProcessLookupError):  # the second time
                os.kill(mortal.phone.process.pid, signal.SIGKILL)

    with mortal.open() as transport:
        transport.connect(10)
        with pytest.raises(PhoneUnreachable, match=mortal.phone.endpoint):
            transport.push(tmp_path / "big", f"{TMP}/big", 20, kill)


def test_phone_dies_in_mid_pull_and_nothing_is_left(mortal: AdbLink, tmp_path: Path) -> None:
    folder = tmp_path / "pulled"
    with mortal.phone.path(f"{TMP}/sparse").open("wb") as file:
        file.truncate(1 << 40)  # too large to arrive before
    with mortal.open() as transport, ThreadPoolExecutor(1) as pool:
        transport.connect(10)
        running = pool.submit(transport.pull, f"{TMP}/sparse", folder / "sparse", 30)
        wait_for(lambda: folder.exists() and any(file.stat().st_size for file in folder.iterdir()), "data arrives")
        os.kill(mortal.phone.process.pid, signal.SIGKILL)
        with pytest.raises(PhoneUnreachable, match=mortal.phone.endpoint):
            running.result(20)
    assert list(folder.iterdir()) == []


def connect_and_ask(transport: Transport) -> None:
    """An adb server that has a connection does not ask the phone again."""
    transport.connect(0.3)
    transport.shell("echo", 0.3)


def test_hung_phone_holds_nobody(mortal: AdbLink, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(30_000_000))
    phone = mortal.phone.process.pid
    with mortal.open() as running, mortal.open() as pushing, mortal.open() as late:
        running.connect(10)
        pushing.connect(10)
        os.kill(phone, signal.SIGSTOP)
        try:
            with pytest.raises(PhoneUnreachable, match=r"running 'echo' did not end within 0\.3 s"):
                running.shell("echo", 0.3)
            with pytest.raises(PhoneUnreachable, match=r"pushing .* did not end within 0\.3 s"):
                pushing.push(tmp_path / "big", f"{TMP}/big", 0.3)
            with pytest.raises(PhoneUnreachable, match=r"did not end within 0\.3 s"):
                connect_and_ask(late)
        finally:
            os.kill(phone, signal.SIGCONT)
        running.connect(10)
        assert running.shell("echo back", 10).stdout == "back\n"
