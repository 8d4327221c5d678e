"""The protocol on the bare socket: what a well-behaved client never shows."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_agent.virtual.packet import AUTH, CLSE, CNXN, HEADER, OKAY, OPEN, WRTE, byte_sum, encode_header
from tests.fakes.phones import FakePhone, PhoneFactory, start_phone

NEW, OLD = 0x01000001, 0x01000000
Received = tuple[int, int, int, bytes]


@dataclass
class Host:
    socket: socket.socket
    version: int = NEW

    def send(self, command: int, arg0: int, arg1: int, payload: bytes = b"", checksum: int | None = None) -> None:
        total = (byte_sum(payload) if self.version == OLD else 0) if checksum is None else checksum
        self.socket.sendall(encode_header(command, arg0, arg1, len(payload), total) + payload)

    def greet(self) -> None:
        self.send(CNXN, self.version, 1 << 18, b"host::features=shell_v2\0")
        command, version, max_payload, banner = self.receive()
        assert (command, version, max_payload) == (CNXN, NEW, 1 << 20)
        assert banner.startswith(b"device::ro.product.name=")
        assert banner.endswith(b"features=shell_v2,cmd,stat_v2,ls_v2,fixed_push_mkdir")

    def receive(self) -> Received:
        command, arg0, arg1, length, checksum, magic = HEADER.unpack(self._exactly(HEADER.size))
        assert magic == command ^ 0xFFFFFFFF
        payload = self._exactly(length)
        assert checksum == (byte_sum(payload) if self.version == OLD else 0)
        return command, arg0, arg1, payload

    def hung_up(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def open(self, destination: bytes, local: int) -> int:
        self.send(OPEN, local, 0, destination + b"\0")
        command, remote, mine, _ = self.receive()
        assert (command, mine) == (OKAY, local)
        return remote

    def read_all(self, local: int, remote: int) -> bytes:
        """Everything until the phone's CLSE, which is answered."""
        output = b""
        while True:
            command, from_id, to_id, payload = self.receive()
            assert (from_id, to_id) == (remote, local)
            if command == CLSE:
                self.send(CLSE, local, remote)
                return output
            if command == WRTE:
                self.send(OKAY, local, remote)
                output += payload

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            assert piece, "the phone hung up"
            data += piece
        return data


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakePhone]:
    running = start_phone(tmp_path_factory.mktemp("phones") / "protocol", profile="midrange")
    yield running
    running.stop()


def dial(phone: FakePhone, version: int = NEW) -> Host:
    return Host(socket.create_connection(("127.0.0.1", phone.port), timeout=10), version)


@pytest.fixture
def host(phone: FakePhone, request: pytest.FixtureRequest) -> Iterator[Host]:
    host = dial(phone, getattr(request, "param", NEW))
    with host.socket:
        host.greet()
        yield host


@pytest.mark.parametrize("host", [OLD, NEW], indirect=True)
def test_old_hosts_get_checksums_new_ones_none(host: Host) -> None:
    remote = host.open(b"shell:echo hello", 7)
    assert host.read_all(7, remote) == b"hello\n"


@pytest.mark.parametrize("host", [OLD], indirect=True)
def test_a_wrong_checksum_ends_the_connection(host: Host) -> None:
    host.send(OPEN, 7, 0, b"shell:echo\0", checksum=1)
    assert host.hung_up()


@pytest.mark.parametrize("service", [b"nonsense:", b"tcp:1", b"sync:x", b"", b"\xff\xfe"])
def test_unknown_service_is_closed_not_opened(host: Host, service: bytes) -> None:
    host.send(OPEN, 9, 0, service + b"\0")
    assert host.receive() == (CLSE, 0, 9, b"")


def test_close_is_answered_by_close_and_ends_the_command(host: Host) -> None:
    remote = host.open(b"shell:sleep 600", 3)
    host.send(CLSE, 3, remote)
    assert host.receive() == (CLSE, remote, 3, b"")


def test_unknown_ids_are_ignored(host: Host) -> None:
    for command in (WRTE, OKAY, CLSE):
        host.send(command, 1234, 5678, b"x" if command == WRTE else b"")
    host.send(0x4E4F4F4E, 1, 1)  # a command that nobody knows
    remote = host.open(b"exec:echo alive", 4)
    assert host.read_all(4, remote) == b"alive\n"


def test_streams_at_once(host: Host) -> None:
    first, second = host.open(b"exec:cat", 1), host.open(b"exec:cat", 2)
    for local, remote, text in ((2, second, b"two"), (1, first, b"one")):
        host.send(WRTE, local, remote, text)
        answers = sorted((got[0], got[2]) for got in (host.receive(), host.receive()))  # OKAY and echo, any order
        assert answers == sorted([(OKAY, local), (WRTE, local)])
        host.send(OKAY, local, remote)


def test_one_unacknowledged_write(host: Host) -> None:
    remote = host.open(b"exec:head -c 3000000 /dev/zero", 5)
    command, *_, payload = host.receive()
    assert command == WRTE
    assert len(payload) <= 1 << 18  # what this host takes
    host.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        host.receive()
    host.socket.settimeout(10)
    host.send(OKAY, 5, remote)
    assert len(payload) + len(host.read_all(5, remote)) == 3_000_000


def test_nothing_before_the_handshake(phone: FakePhone) -> None:
    host = dial(phone)
    with host.socket:
        payload = b"shell:echo\0"
        host.send(OPEN, 1, 0, payload, checksum=byte_sum(payload))
        host.send(CNXN, NEW, 1 << 18, b"host::\0")
        assert host.receive()[0] == CNXN  # and no OKAY before it


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: phone\r\n\r\n",
        bytes(24),
        encode_header(CNXN, NEW, 1 << 18, 1 << 30, 0),  # a payload that no packet has
        encode_header(CNXN, NEW, 1 << 18, 0, 0)[:-1] + b"\0",
    ],
)
def test_garbage_ends_that_connection_only(phone: FakePhone, host: Host, garbage: bytes) -> None:
    with dial(phone).socket as bad:
        bad.sendall(garbage)
        assert Host(bad).hung_up()
    assert host.read_all(1, host.open(b"exec:echo alive", 1)) == b"alive\n"


@given(st.binary(max_size=2000))
def test_byte_sum(data: bytes) -> None:
    assert byte_sum(data) == sum(data)


def test_byte_sum_of_the_largest_payload() -> None:
    assert byte_sum(b"\xff" * (1 << 20)) == 255 << 20


def test_garbage_instead_of_a_key_ends_the_connection(virtual_phone: PhoneFactory) -> None:
    host = dial(virtual_phone("locked", "pixel8", "--require-auth"))
    with host.socket:
        host.send(CNXN, NEW, 1 << 18, b"host::\0")
        command, kind, _, token = host.receive()
        assert (command, kind, len(token)) == (AUTH, 1, 20)
        host.send(AUTH, 2, 0, os.urandom(256))
        assert host.receive()[3] != token  # not accepted: another token
        host.send(OPEN, 1, 0, b"shell:echo\0")  # ignored
        host.send(AUTH, 3, 0, b"not a key\0")
        assert host.hung_up()


def test_shell_v2_splits_outputs_and_ends_with_the_code(host: Host) -> None:
    output = host.read_all(1, host.open(b"shell,v2,raw:echo out; echo err >&2; exit 5", 1))
    assert sorted(v2_packets(output)) == [(1, b"out\n"), (2, b"err\n"), (3, b"\x05")]
    assert v2_packets(output)[-1] == (3, b"\x05")


def test_shell_v2_stdin_closes(host: Host) -> None:
    remote = host.open(b"shell,v2,TERM=dumb,pty:wc -c", 1)
    frames = b"".join(bytes([kind]) + struct.pack("<I", len(data)) + data for kind, data in ((0, b"12345"), (4, b"")))
    host.send(WRTE, 1, remote, frames[:4])  # cut in the middle of a frame
    assert host.receive()[0] == OKAY
    host.send(WRTE, 1, remote, frames[4:])
    *output, last = v2_packets(host.read_all(1, remote))
    assert b"".join(data for _, data in output).strip() == b"5"
    assert last == (3, b"\0")


def test_shell_v2_killed_command(host: Host) -> None:
    assert v2_packets(host.read_all(1, host.open(b"shell,v2,raw:kill -9 $$", 1))) == [(3, b"\x89")]


def v2_packets(output: bytes) -> list[tuple[int, bytes]]:
    packets = []
    while output:
        length = int.from_bytes(output[1:5], "little")
        packets.append((output[0], output[5 : 5 + length]))
        output = output[5 + length :]
    return packets


def sync(host: Host, request: bytes) -> bytes:
    """Everything the phone answers to one request and QUIT."""
    remote = host.open(b"sync:", 1)
    host.send(WRTE, 1, remote, request + b"QUIT" + bytes(4))
    return host.read_all(1, remote)


def request(kind: bytes, path: bytes) -> bytes:
    return kind + struct.pack("<I", len(path)) + path


def test_sync_stat(host: Host, phone: FakePhone) -> None:
    file = phone.path("/data/local/tmp/stat me")
    file.write_bytes(bytes(123))
    assert sync(host, request(b"STAT", b"/data/local/tmp/stat me")) == struct.pack(
        "<4s3I", b"STAT", file.stat().st_mode, 123, int(file.stat().st_mtime)
    )
    assert sync(host, request(b"STAT", b"/data/absent")) == b"STAT" + bytes(12)
    found = struct.unpack("<4sI2Q4IQ3q", sync(host, request(b"STA2", b"/data/local/tmp/stat me")))
    assert (found[0], found[1], found[8]) == (b"STA2", 0, 123)
    assert struct.unpack("<4sI64x", sync(host, request(b"LST2", b"/data/absent"))) == (b"LST2", 2)


def test_sync_list(host: Host, phone: FakePhone) -> None:
    folder = phone.path("/data/local/tmp/listed")
    folder.mkdir()
    (folder / "a").write_bytes(b"abc")
    v1, v2 = (
        sync(host, request(b"LIST", b"/data/local/tmp/listed")),
        sync(host, request(b"LIS2", b"data/local/tmp/listed")),
    )
    assert names(v1, struct.Struct("<4s3I"), b"DENT") == [b".", b"..", b"a"]
    assert names(v2, struct.Struct("<4sI2Q4IQ3q"), b"DNT2") == [b".", b"..", b"a"]


def names(answer: bytes, head: struct.Struct, kind: bytes) -> list[bytes]:
    found = []
    while answer[:4] == kind:
        length = int.from_bytes(answer[head.size : head.size + 4], "little")
        found.append(answer[head.size + 4 : head.size + 4 + length])
        answer = answer[head.size + 4 + length :]
    assert answer == b"DONE" + bytes(head.size)
    return found


def test_sync_cannot_leave_the_root(host: Host, phone: FakePhone) -> None:
    (phone.root.parent / "outside").write_text("secret")
    assert sync(host, request(b"RECV", b"/data/../../outside")).startswith(b"FAIL")


@pytest.mark.parametrize("pieces", [1, 3, 7, 4096])
def test_sync_send_however_it_is_cut(host: Host, phone: FakePhone, pieces: int) -> None:
    data = os.urandom(5000 if pieces < 4096 else 300_000)
    chunks = [data[start : start + 65536] for start in range(0, len(data), 65536)]
    message = request(b"SEND", b"/data/local/tmp/made/too/file,name,33188")  # the last comma ends the name
    message += b"".join(request(b"DATA", chunk) for chunk in chunks) + b"DONE" + struct.pack("<I", 1_600_000_000)
    remote = host.open(b"sync:", 1)
    for start in range(0, min(len(message), 40 * pieces), pieces):
        host.send(WRTE, 1, remote, message[start : start + pieces])
        assert host.receive()[0] == OKAY
    for start in range(40 * pieces, len(message), 1 << 18):
        host.send(WRTE, 1, remote, message[start : start + (1 << 18)])
        assert host.receive()[0] == OKAY
    command, _, _, answer = host.receive()
    assert (command, answer) == (WRTE, b"OKAY" + bytes(4))
    file = phone.path("/data/local/tmp/made/too/file,name")
    assert file.read_bytes() == data
    assert (file.stat().st_mode, file.stat().st_mtime) == (0o100644, 1_600_000_000)


def test_sync_refuses_what_it_does_not_know(host: Host) -> None:
    assert sync(host, request(b"SND2", b"/data/x")).startswith(b"FAIL")
    assert sync(host, b"STAT" + struct.pack("<I", 5000)).startswith(b"FAIL")
    assert sync(host, request(b"SEND", b"/data/x") + b"DONE" + bytes(4)).startswith(b"FAIL")
