"""A transport that counts what is asked of the one inside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from orchestrator.farm.adb.contract import BegunCommand, ShellResult, Transport


class RecordedTransport:
    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.operations: list[str] = []
        self.pushed: list[str] = []  # remote paths
        self.begun: list[str] = []  # commands

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def connect(self, timeout_s: float) -> None:
        self.inner.connect(timeout_s)

    def banner(self) -> dict[str, str]:
        return self.inner.banner()

    def shell(self, command: str, timeout_s: float) -> ShellResult:
        self.operations.append("shell")
        return self.inner.shell(command, timeout_s)

    def begin(self, command: str, timeout_s: float) -> BegunCommand:
        self.operations.append("begin")
        self.begun.append(command)
        return self.inner.begin(command, timeout_s)

    def push(self, local: Path, remote: str, timeout_s: float, progress: Callable[[int], None] | None = None) -> None:
        self.operations.append("push")
        self.pushed.append(remote)
        self.inner.push(local, remote, timeout_s, progress)

    def push_bytes(self, data: bytes, remote: str, timeout_s: float) -> None:
        self.operations.append("push_bytes")
        self.inner.push_bytes(data, remote, timeout_s)

    def pull(self, remote: str, local: Path, timeout_s: float) -> None:
        self.operations.append("pull")
        self.inner.pull(remote, local, timeout_s)

    def read(self, remote: str, timeout_s: float, offset: int = 0, max_bytes: int = 1 << 20) -> bytes:
        self.operations.append("read")
        return self.inner.read(remote, timeout_s, offset, max_bytes)

    def close(self) -> None:
        self.inner.close()
