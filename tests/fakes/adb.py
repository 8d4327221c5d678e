"""The real adb client, the one in adbutils' wheel, with a server of its own."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from importlib.resources import files

import pytest

from tests.fakes.phones import FakePhone

Adb = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(scope="module")
def adb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adb]:
    home = tmp_path_factory.mktemp("adb-home")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = {"HOME": str(home), "ANDROID_USER_HOME": str(home), "ANDROID_ADB_SERVER_PORT": str(port), "ADB_MDNS": "0"}

    def run(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [str(files("adbutils") / "binaries" / "adb"), *words]
        return subprocess.run(
            command, env={**os.environ, **own}, input=stdin, capture_output=True, timeout=60, check=False
        )

    try:
        run("start-server")
        yield run
    finally:
        run("kill-server")


def connect(adb: Adb, phone: FakePhone) -> Adb:
    serial = f"127.0.0.1:{phone.port}"
    assert b"connected to" in adb("connect", serial).stdout
    return lambda *words, stdin=b"": adb("-s", serial, *words, stdin=stdin)
