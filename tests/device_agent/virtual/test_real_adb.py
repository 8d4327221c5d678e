"""The real adb client (the one in adbutils' wheel, with a server of its own) accepts the virtual phone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.fakes.adb import Adb, connect
from tests.fakes.phones import PhoneFactory


def test_without_a_key(adb: Adb, virtual_phone: PhoneFactory, tmp_path: Path) -> None:
    phone = virtual_phone()
    on = connect(adb, phone)
    assert b"model:CPH2581" in adb("devices", "-l").stdout
    assert on("get-state").stdout == b"device\n"

    both = on("shell", "echo out; echo err >&2; exit 7")
    assert (both.returncode, both.stdout, both.stderr) == (7, b"out\n", b"err\n")
    assert on("shell", "wc -c", stdin=b"12345").stdout.strip() == b"5"
    assert on("exec-out", "printf 'a\\r\\n\\0b'").stdout == b"a\r\n\0b"
    assert on("exec-in", "cat >/data/local/tmp/in", stdin=b"typed").returncode == 0
    assert on("shell", "getprop", "ro.serialno").stdout.decode().strip() == phone.serial
    assert on("ls", "/data/local").stdout.split()[-1] == b"tmp"

    tree = tmp_path / "tree"
    (tree / "sub folder").mkdir(parents=True)
    (tree / "sub folder" / "bïg").write_bytes(os.urandom(20_000_000))
    (tree / "empty").touch()
    assert on("push", str(tree), "/data/local/tmp/").returncode == 0
    assert phone.path("/data/local/tmp/tree/empty").exists()
    assert on("pull", "/data/local/tmp/tree", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back/sub folder/bïg").read_bytes() == (tree / "sub folder/bïg").read_bytes()
    refused = on("push", str(tree / "empty"), "/data/local/tmp/tree/empty/below")
    assert refused.returncode == 1
    assert on("pull", "/data/absent", str(tmp_path)).returncode == 1

    phone.cut()
    adb("disconnect")
    assert connect(adb, phone)("shell", "echo again").stdout == b"again\n"


def test_with_a_key(adb: Adb, virtual_phone: PhoneFactory) -> None:
    phone = virtual_phone("locked", "pixel8", "--require-auth")
    serial = f"127.0.0.1:{phone.port}"
    adb("connect", serial)
    assert b"unauthorized" in adb("devices").stdout
    phone.authorize()
    assert adb("-s", serial, "wait-for-device", "shell", "echo hello").stdout == b"hello\n"
    adb("disconnect", serial)
    assert connect(adb, phone)("shell", "echo again").stdout == b"again\n"


@pytest.mark.slow
def test_300_mb(adb: Adb, virtual_phone: PhoneFactory, tmp_path: Path) -> None:
    on = connect(adb, virtual_phone())
    (tmp_path / "big").write_bytes(os.urandom(300_000_000))
    assert on("push", str(tmp_path / "big"), "/data/local/tmp/big").returncode == 0
    assert on("pull", "/data/local/tmp/big", str(tmp_path / "back")).returncode == 0
    assert subprocess.run(["cmp", tmp_path / "big", tmp_path / "back"], check=False).returncode == 0
