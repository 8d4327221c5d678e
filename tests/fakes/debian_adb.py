"""Debian's own `adb` as a transport: a third client, to which the contract's tests are held themselves."""

from __future__ import annotations

import re
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from orchestrator.errors import CommandFailed, PhoneUnreachable
from orchestrator.farm.adb.contract import ShellResult
from orchestrator.farm.adb.quote import quote

_START_S = 10


class DebianAdb:
    """Commands of `binary`, with an adb server of its own kind, started here and ended by stop_server()."""

    def __init__(self, binary: Path, home: Path, endpoint: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = str(probe.getsockname()[1])
        self._binary, self._endpoint = str(binary), endpoint
        self._environment = {
            "HOME": str(home),
            "ADB_USB": "0",
            "ADB_MDNS": "0",
            "ADB_EMU": "0",
            "PATH": "/usr/bin:/bin",
        }
        self._server = subprocess.Popen(
            [self._binary, "-P", self._port, "server", "nodaemon"],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._connected = False
        self._await_server()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def stop_server(self) -> None:
        self._server.kill()
        self._server.wait()

    def connect(self, timeout_s: float) -> None:
        self._connected = True
        self._adb(timeout_s, "connect", self._endpoint)
        self._adb(timeout_s, "-s", self._endpoint, "wait-for-device")

    def banner(self) -> dict[str, str]:
        listed = self._adb(5, "devices", "-l").stdout.decode()
        words = dict(re.findall(r"(product|model|device):(\S+)", listed))
        features = self._adb(5, "-s", self._endpoint, "features").stdout.decode().split()
        return {f"ro.product.{key}": value for key, value in words.items()} | {"features": ",".join(features)}

    def shell(self, command: str, timeout_s: float) -> ShellResult:
        begun = self.begin(f"sh -c {quote(command)} </dev/null", timeout_s)
        try:
            return begun.result(timeout_s)
        finally:
            begun.close()

    def begin(self, command: str, timeout_s: float) -> Begun:
        if not self._connected:
            raise PhoneUnreachable(f"wireless:{self._endpoint}: not connected")
        nonce = secrets.token_hex(8)
        line = f"sh -c {quote(command)} 2>&1; echo {nonce}:$?"
        words = [self._binary, "-P", self._port, "-s", self._endpoint, "shell", "-T", line]
        process = subprocess.Popen(words, env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return Begun(process, nonce, self)

    def push(self, local: Path, remote: str, timeout_s: float, progress: Callable[[int], None] | None = None) -> None:
        self._transfer(timeout_s, "push", str(local), remote)
        if progress:
            progress(local.stat().st_size)

    def push_bytes(self, data: bytes, remote: str, timeout_s: float) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            self.push(Path(file.name), remote, timeout_s)

    def pull(self, remote: str, local: Path, timeout_s: float) -> None:
        local.parent.mkdir(parents=True, exist_ok=True)
        self._transfer(timeout_s, "pull", remote, str(local))

    def read(self, remote: str, timeout_s: float, offset: int = 0, max_bytes: int = 1 << 20) -> bytes:
        part = f"tail -c +{offset + 1} {quote(remote)} 2>/dev/null | head -c {max_bytes}"
        return self._adb(timeout_s, "-s", self._endpoint, "exec-out", part).stdout

    def close(self) -> None:
        self._connected = False

    def _await_server(self) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", int(self._port)), timeout=1).close()
            except OSError:
                assert time.monotonic() < deadline, "Debian's adb server does not start"
                time.sleep(0.01)
            else:
                return

    def _transfer(self, timeout_s: float, *words: str) -> None:
        done = self._adb(timeout_s, "-s", self._endpoint, *words)
        if done.returncode:
            raise CommandFailed((done.stdout + done.stderr).decode(errors="replace"))

    def _adb(self, timeout_s: float, *words: str) -> subprocess.CompletedProcess[bytes]:
        if not self._connected:
            raise PhoneUnreachable(f"wireless:{self._endpoint}: not connected")
        try:
            return subprocess.run(
                [self._binary, "-P", self._port, *words],
                env=self._environment,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            self.close()
            raise PhoneUnreachable(f"{words} did not end within {timeout_s:g} s") from error


class Begun:
    """A command of `adb shell`. Its own exit code is not looked at: of some versions it is 0 when the phone dies."""

    def __init__(self, process: subprocess.Popen[bytes], nonce: str, adb: DebianAdb) -> None:
        self._process, self._nonce, self._adb = process, nonce, adb

    def write(self, data: bytes, timeout_s: float) -> None:
        assert self._process.stdin
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def result(self, timeout_s: float) -> ShellResult:
        try:
            output, _ = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            self._adb.close()
            raise PhoneUnreachable(f"a command did not end within {timeout_s:g} s") from error
        found = re.search(rb"%s:(\d+)\n" % self._nonce.encode(), output)
        if not found:
            raise PhoneUnreachable("a command did not end")
        if found.start() > 1 << 26:
            raise CommandFailed("more than 64 MiB of output")
        return ShellResult(int(found[1]), output[: found.start()].decode("utf-8", "replace"))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
