"""What both backends do alike: files over `sync:`, results of shell commands, and every failure in the farm's terms."""

from __future__ import annotations

import io
import stat
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from orchestrator.errors import CommandFailed, LeverError, PhoneUnauthorized, PhoneUnreachable
from orchestrator.farm.adb.byte_stream import ByteStream, RunningCommand
from orchestrator.farm.adb.contract import ShellResult
from orchestrator.farm.adb.deadline import Deadline
from orchestrator.farm.adb.faults import DeadlinePassed, KeyNotAllowed, LinkDown, NotAdb, Refused, TlsWanted
from orchestrator.farm.adb.quote import quote
from orchestrator.farm.adb.sync_file import Readable, receive_file, send_file

_LONGEST_OUTPUT = 1 << 26  # a phone that never stops talking must not fill our memory
_CLOSE_S = 10.0
_CONNECTING = "connecting"
_CHECK_CABLE = "check that the phone is on, in reach, and that its ADB is enabled; then try again"


class StreamTransport(ABC):
    """Transport (contract.py) over anything that opens a phone's services; `address` is how messages name the phone."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._deadline = Deadline()

    @abstractmethod
    def connect(self, timeout_s: float) -> None: ...

    @abstractmethod
    def banner(self) -> dict[str, str]: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _open(self, service: bytes) -> ByteStream:
        """Raises Refused when the phone has no such service, LinkDown, DeadlinePassed."""

    @abstractmethod
    def _start(self, command: str) -> RunningCommand:
        """A command that counts only if its end is seen; LinkDown for all others."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def shell(self, command: str, timeout_s: float) -> ShellResult:
        with self.operation(f"running {command[:80]!r}", timeout_s):
            code, output = self._run(command)
        return ShellResult(code, output.decode("utf-8", "replace"))

    def begin(self, command: str, timeout_s: float) -> Begun:
        with self.operation(f"starting {command[:80]!r}", timeout_s):
            return Begun(self, self._start(f"sh -c {quote(command)} 2>&1"), command)

    def push(self, local: Path, remote: str, timeout_s: float, progress: Callable[[int], None] | None = None) -> None:
        with self.operation(f"pushing {local} to {remote}", timeout_s), local.open("rb", buffering=0) as file:
            found = local.stat()
            self._send(file, remote, stat.S_IMODE(found.st_mode) & 0o777, int(found.st_mtime), progress)

    def push_bytes(self, data: bytes, remote: str, timeout_s: float) -> None:
        with self.operation(f"writing {remote}", timeout_s):
            self._send(io.BytesIO(data), remote, 0o644, int(time.time()))

    def pull(self, remote: str, local: Path, timeout_s: float) -> None:
        with (
            self.operation(f"pulling {remote} to {local}", timeout_s),
            _renamed_into_place(local) as file,
            closing(self._open(b"sync:")) as stream,
        ):
            receive_file(stream, remote, file)

    def read(self, remote: str, timeout_s: float, offset: int = 0, max_bytes: int = 1 << 20) -> bytes:
        with self.operation(f"reading {remote}", timeout_s):
            return self._run(f"tail -c +{offset + 1} {quote(remote)} 2>/dev/null | head -c {max_bytes}")[1]

    def _run(self, command: str) -> tuple[int, bytes]:
        """Its syntax errors and `exit` end only itself; its standard input is empty, its outputs are one."""
        with closing(self._start(f"sh -c {quote(command)} </dev/null 2>&1")) as running:
            return running.end()

    def _send(
        self, file: Readable, remote: str, mode: int, mtime: int, progress: Callable[[int], None] | None = None
    ) -> None:
        with closing(self._open(b"sync:")) as stream:
            send_file(stream, file, remote, stat.S_IFREG | mode, mtime, progress or (lambda _: None))

    @contextmanager
    def operation(self, doing: str, timeout_s: float) -> Iterator[None]:
        """A deadline, and every failure in the farm's terms. After a lost or confused connection it is closed."""
        self._deadline.allow(timeout_s)
        try:
            yield
        except Refused as error:
            raise CommandFailed(f"{self._address}: {doing} failed: {error}") from error
        except (DeadlinePassed, KeyNotAllowed, LinkDown, NotAdb, TlsWanted, OSError) as error:
            self.close()
            raise self._named(error, doing, timeout_s) from error

    def _named(self, error: Exception, doing: str, timeout_s: float) -> LeverError:
        failed = f"{self._address}: {doing} failed"
        if isinstance(error, KeyNotAllowed):
            return PhoneUnauthorized(
                f"{self._address}: the phone does not trust our key, and nobody allowed it within {timeout_s:g} s",
                f"unlock the phone, tap 'Always allow from this computer', try again (key: {error})",
            )
        if isinstance(error, DeadlinePassed):
            port = "; is the port ADB's? 5555 is usual for ADB over TCP" if doing == _CONNECTING else ""
            return PhoneUnreachable(f"{self._address}: {doing} did not end within {timeout_s:g} s", _CHECK_CABLE + port)
        if isinstance(error, LinkDown):
            return PhoneUnreachable(f"{failed}: {error}", _CHECK_CABLE)
        if isinstance(error, TlsWanted):
            return PhoneUnreachable(
                f"{failed}: that is the phone's wireless debugging, which only paired hosts can use",
                "pair with it (lever phones pair HOST:PORT CODE), then use the address wireless:HOST:PORT",
            )
        if isinstance(error, NotAdb):
            return PhoneUnreachable(
                f"{failed}: what answers there does not speak ADB ({error})",
                "check the port: 5555 is usual for ADB over TCP",
            )
        return LeverError(f"{failed} on this machine: {error}")


class Begun:
    """BegunCommand (contract.py)."""

    def __init__(self, transport: StreamTransport, running: RunningCommand, command: str) -> None:
        self._transport, self._running, self._command = transport, running, command

    def write(self, data: bytes, timeout_s: float) -> None:
        with self._transport.operation(f"telling {self._command[:80]!r}", timeout_s):
            self._running.write(data)

    def result(self, timeout_s: float) -> ShellResult:
        with self._transport.operation(f"running {self._command[:80]!r}", timeout_s):
            code, output = self._running.end()
        return ShellResult(code, output.decode("utf-8", "replace"))

    def close(self) -> None:
        with self._transport.operation(f"ending {self._command[:80]!r}", _CLOSE_S):
            self._running.close()


def checked_length(output: bytearray) -> None:
    """Raises Refused once a command has said more than we want to hold."""
    if len(output) > _LONGEST_OUTPUT:
        raise Refused(f"more than {_LONGEST_OUTPUT >> 20} MiB of output")


@contextmanager
def _renamed_into_place(target: Path) -> Iterator[IO[bytes]]:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name[:100]}.", delete=False) as file:
        try:
            yield file
            file.flush()
            Path(file.name).replace(target)
        except BaseException:
            Path(file.name).unlink()
            raise
