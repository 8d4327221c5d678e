"""What every ADB transport promises; `tests/contracts/` holds all backends to it.

One transport object is one connection and serves one operation at a time: open one per concurrent operation; only a
command that was begun runs beside others. Every operation has a deadline. Failures are PhoneUnreachable (nothing
answered, connection lost, deadline passed), PhoneUnauthorized (the phone refused our key) or CommandFailed (the phone
answered no); library exceptions stop here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self


@dataclass(frozen=True)
class ShellResult:
    exit_code: int  # from our nonce-marked end line or the exit packet: a command counts only if its end was seen
    stdout: str


class BegunCommand(Protocol):
    """A shell command that runs on the phone. Its standard input ends when the connection is lost, and at close()."""

    def write(self, data: bytes, timeout_s: float) -> None:
        """To its standard input."""
        ...

    def result(self, timeout_s: float) -> ShellResult:
        """Waits for its end; once."""
        ...

    def close(self) -> None:
        """Whether it ended or not."""
        ...


class Transport(Protocol):
    """Context manager: closes on exit."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def connect(self, timeout_s: float) -> None: ...

    def banner(self) -> dict[str, str]:
        """Properties of the CNXN banner: ro.product.name, ro.product.model, ro.product.device, features."""
        ...

    def shell(self, command: str, timeout_s: float) -> ShellResult:
        """Run through the phone's shell; a non-zero exit code is a result, not an error."""
        ...

    def begin(self, command: str, timeout_s: float) -> BegunCommand:
        """Start a command that may read its standard input; other operations may come before its result."""
        ...

    def push(self, local: Path, remote: str, timeout_s: float, progress: Callable[[int], None] | None = None) -> None:
        """Whole file, parents made. `progress` gets the bytes sent so far; what it raises stops the push.
        May leave a partial file when it fails."""
        ...

    def push_bytes(self, data: bytes, remote: str, timeout_s: float) -> None: ...

    def pull(self, remote: str, local: Path, timeout_s: float) -> None:
        """Whole file, renamed into place; nothing is left when it fails."""
        ...

    def read(self, remote: str, timeout_s: float, offset: int = 0, max_bytes: int = 1 << 20) -> bytes:
        """Part of a small file; empty when it is not there or ends before the offset."""
        ...

    def close(self) -> None: ...
