"""Everything that can be wrong between us and a phone, and the one message that it gets."""

from __future__ import annotations

import resource
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.errors import CommandFailed, PhoneUnauthorized, PhoneUnreachable
from orchestrator.farm.adb.connect import open_transport
from orchestrator.farm.adb.contract import Transport
from tests.fakes.phones import FakePhone, PhoneFactory

TMP = "/data/local/tmp"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "adbkey"


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@contextmanager
def connected(phone: FakePhone, key: Path) -> Iterator[Transport]:
    with open_transport(phone.address, key) as transport:
        transport.connect(10)
        yield transport


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Address of a port that serves one connection with `answer`."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                answer(client)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"tcp:127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_cut_in_mid_command(virtual_phone: PhoneFactory, key: Path) -> None:
    phone = virtual_phone()
    with connected(phone, key) as transport, ThreadPoolExecutor(1) as pool:
        running = pool.submit(transport.shell, f"echo started >{TMP}/started; sleep 60", 30)
        wait_for(phone.path(f"{TMP}/started").exists, "the command starts")
        phone.cut()
        with pytest.raises(PhoneUnreachable, match=phone.address) as caught:
            running.result(10)
    assert caught.value.remedy


def test_cut_in_mid_push_leaves_nothing_on_the_phone(virtual_phone: PhoneFactory, key: Path, tmp_path: Path) -> None:
    phone = virtual_phone()
    (tmp_path / "big").write_bytes(bytes(30_000_000))

    def cut(sent: int) -> None:
        if sent > 10_000_000:
            phone.cut()

    with connected(phone, key) as transport, pytest.raises(PhoneUnreachable):
        transport.push(tmp_path / "big", f"{TMP}/big", 30, cut)
    wait_for(lambda: not phone.path(f"{TMP}/big").exists(), "the partial file goes")


def test_cut_in_mid_pull_leaves_nothing_here(virtual_phone: PhoneFactory, key: Path, tmp_path: Path) -> None:
    phone = virtual_phone()
    folder = tmp_path / "pulled"
    with phone.path(f"{TMP}/sparse").open("wb") as file:
        file.truncate(1 << 40)  # too large to arrive before the cut
    with connected(phone, key) as transport, ThreadPoolExecutor(1) as pool:
        running = pool.submit(transport.pull, f"{TMP}/sparse", folder / "sparse", 300)
        wait_for(lambda: folder.exists() and any(file.stat().st_size for file in folder.iterdir()), "data arrives")
        phone.cut()
        with pytest.raises(PhoneUnreachable, match=r"failed: (?!.*did not end within)"):
            running.result()  # ended by the cut, however long a busy machine takes to let the puller see it
    assert list(folder.iterdir()) == []


def test_detached_job_survives_the_cut_and_ends_with_the_phone(virtual_phone: PhoneFactory, key: Path) -> None:
    phone = virtual_phone()
    pid = phone.path(f"{TMP}/pid")
    job = f"echo $$ >{TMP}/pid; while [ ! -e {TMP}/go ]; do sleep 0.05; done; echo done >{TMP}/out; exec sleep 600"
    with connected(phone, key) as transport:
        started = transport.shell(f"trap '' HUP; setsid sh -c '{job}' >{TMP}/log 2>&1 </dev/null &", 10)
        assert started.exit_code == 0
        wait_for(pid.exists, "the job starts")
        phone.cut()
        with pytest.raises(PhoneUnreachable):
            transport.shell("echo", 5)
    phone.path(f"{TMP}/go").touch()
    with connected(phone, key) as transport:
        wait_for(lambda: transport.read(f"{TMP}/out", 5) == b"done\n", "the job goes on")
        assert transport.shell(f"kill -0 $(cat {TMP}/pid)", 5).exit_code == 0
    phone.stop()
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


@pytest.mark.parametrize("hang_ups", [signal.SIG_DFL, signal.SIG_IGN], ids=["as usual", "under nohup"])
def test_attached_processes_end_with_the_connection(
    virtual_phone: PhoneFactory, key: Path, hang_ups: signal.Handlers
) -> None:
    before = signal.signal(signal.SIGHUP, hang_ups)
    phone = virtual_phone()
    signal.signal(signal.SIGHUP, before)
    with connected(phone, key) as transport, ThreadPoolExecutor(1) as pool:
        running = pool.submit(transport.shell, f"echo $$ >{TMP}/pid; sleep 600", 30)
        wait_for(lambda: transport_pid(phone) > 0, "the command starts")
        phone.cut()
        with pytest.raises(PhoneUnreachable):
            running.result(10)
    wait_for(lambda: not Path(f"/proc/{transport_pid(phone)}").exists(), "the command ends")


def transport_pid(phone: FakePhone) -> int:
    file = phone.path(f"{TMP}/pid")
    return int(file.read_text() or 0) if file.exists() else 0


def test_offline_refuses_then_comes_back_at_the_same_port(virtual_phone: PhoneFactory, key: Path) -> None:
    phone = virtual_phone()
    phone.offline(600)
    with pytest.raises(PhoneUnreachable, match="refused"):
        connect(phone.address, key, 5)
    phone.offline(0.1)
    wait_for(lambda: comes_back(phone, key), "the phone comes back")


def comes_back(phone: FakePhone, key: Path) -> bool:
    try:
        connect(phone.address, key, 5)
    except PhoneUnreachable:
        return False
    return True


def connect(address: str, key: Path, timeout_s: float) -> None:
    with open_transport(address, key) as transport:
        transport.connect(timeout_s)


def test_unauthorized_until_somebody_allows_it(virtual_phone: PhoneFactory, key: Path) -> None:
    phone = virtual_phone("phone", "pixel8", "--require-auth")
    with pytest.raises(PhoneUnauthorized, match="does not trust") as caught:
        connect(phone.address, key, 1.0)
    assert f"{key}.pub" in caught.value.remedy
    phone.authorize()
    connect(phone.address, key, 10)
    phone.unauthorized()
    with pytest.raises(PhoneUnauthorized):
        connect(phone.address, key, 1.0)


def test_key_is_remembered_over_a_restart(virtual_phone: PhoneFactory, key: Path) -> None:
    phone = virtual_phone("phone", "pixel8", "--require-auth")
    phone.authorize()
    connect(phone.address, key, 10)
    serial = phone.serial
    phone.stop()
    again = virtual_phone("phone", "pixel8", "--require-auth")
    connect(again.address, key, 10)
    assert again.serial == serial


def test_nothing_listens(key: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"tcp:127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(PhoneUnreachable, match=rf"{address}: connecting failed: .*refused"):
            connect(address, key, 5)


def test_unknown_host(key: Path) -> None:
    with pytest.raises(PhoneUnreachable, match="connecting failed"):
        connect(f"tcp:{'x' * 70}.invalid:5555", key, 10)


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n" * 3, bytes(64)])
def test_port_of_something_else(key: Path, greeting: bytes) -> None:
    def greet(client: socket.socket) -> None:
        client.recv(24)
        client.sendall(greeting)

    with answering(greet) as address, pytest.raises(PhoneUnreachable, match="does not speak ADB"):
        connect(address, key, 5)


def test_silent_port(key: Path) -> None:
    released = threading.Event()

    def say_nothing(_: socket.socket) -> None:
        released.wait(20)

    with answering(say_nothing) as address:
        started = time.monotonic()
        with pytest.raises(PhoneUnreachable, match=r"did not end within 0\.5 s") as raised:
            connect(address, key, 0.5)
        assert "5555" in raised.value.remedy, "it may be another service's port"
        assert time.monotonic() - started < 5
        released.set()


def test_port_that_hangs_up(key: Path) -> None:
    with (
        answering(lambda client: client.close()) as address,
        pytest.raises(PhoneUnreachable, match="connecting failed"),
    ):
        connect(address, key, 5)


def test_write_error_is_the_phones_no_not_a_dead_cable(virtual_phone: PhoneFactory, key: Path, tmp_path: Path) -> None:
    phone = virtual_phone()
    resource.prlimit(phone.process.pid, resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))  # as if the disk were full
    (tmp_path / "big").write_bytes(bytes(8_000_000))
    with connected(phone, key) as transport:
        with pytest.raises(CommandFailed, match=f"pushing .* to {TMP}/big failed: .*File too large"):
            transport.push(tmp_path / "big", f"{TMP}/big", 20)
        assert transport.shell(f"ls {TMP}", 5).stdout == ""


def test_progress_may_stop_a_push(virtual_phone: PhoneFactory, key: Path, tmp_path: Path) -> None:
    phone = virtual_phone()
    (tmp_path / "big").write_bytes(bytes(8_000_000))

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with connected(phone, key) as transport:
        with pytest.raises(KeyboardInterrupt):
            transport.push(tmp_path / "big", f"{TMP}/big", 20, stop)
        assert transport.shell(f"ls {TMP}", 5).stdout == ""


def test_wireless_debugging_needs_pairing(key: Path) -> None:
    stls = b"STLS"
    packet = struct.pack("<4sIIIII", stls, 0x01000000, 0, 0, 0, int.from_bytes(stls, "little") ^ 0xFFFFFFFF)

    def ask_for_tls(client: socket.socket) -> None:
        client.recv(1024)
        client.sendall(packet)

    with answering(ask_for_tls) as address, pytest.raises(PhoneUnreachable, match="wireless debugging") as caught:
        connect(address, key, 5)
    assert "lever phones pair" in caught.value.remedy
