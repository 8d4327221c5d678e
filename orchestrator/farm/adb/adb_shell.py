"""Transport over adb-shell: TCP phones and virtual phones, no adb binary needed.

Exit codes come from an end line with a nonce, because adb-shell speaks no shell protocol 2: a command whose end line
did not arrive did not end, whatever else arrived. `exec:` is used rather than `shell:`: it never touches the bytes.
"""

from __future__ import annotations

import io
import re
import secrets
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO, Self

from adb_shell import exceptions
from adb_shell.constants import MESSAGE_FORMAT, MESSAGE_SIZE

from orchestrator.errors import CommandFailed, LeverError, PhoneUnauthorized, PhoneUnreachable
from orchestrator.farm.adb.contract import ShellResult
from orchestrator.farm.adb.keys import load_signer
from orchestrator.farm.adb.mended_device import MendedDevice, ServiceRefused
from orchestrator.farm.adb.quote import quote
from orchestrator.farm.adb.sync_file import FileRefused, SyncGarbage, receive_file, send_file
from orchestrator.farm.adb.tcp_link import DeadlinePassed, LinkDown, TcpLink

_REGULAR_FILE = 0o100000
_LONGEST_OUTPUT = 1 << 26  # a phone that never stops talking must not fill our memory
_NOT_ADB = (
    exceptions.InvalidCommandError,
    exceptions.InvalidChecksumError,
    exceptions.InvalidResponseError,
    struct.error,
    SyncGarbage,
)
_CHECK_CABLE = "check that the phone is on, in reach, and that its ADB over TCP is enabled; then try again"


class _TooMuchOutput(Exception): ...


class AdbShellTransport:
    """Transport (contract.py) to HOST:PORT; `address` is how messages name the phone."""

    def __init__(self, address: str, host: str, port: int, key_path: Path) -> None:
        self._address, self._key_path = address, key_path
        self._link = TcpLink(host, port)
        self._device = MendedDevice(self._link)
        self._key_offered = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def connect(self, timeout_s: float) -> None:
        signer = load_signer(self._key_path)
        self._key_offered = False
        with self._operation("connecting", timeout_s):
            self._device.connect([signer], timeout_s, timeout_s, timeout_s, auth_callback=self._on_key_offered)

    def banner(self) -> dict[str, str]:
        identity = _connect_payload(bytes(self._link.handshake)).decode("utf-8", "replace").partition("::")[2]
        pairs = (part.partition("=") for part in identity.rstrip("\0").split(";") if "=" in part)
        return {key: value for key, _, value in pairs}

    def shell(self, command: str, timeout_s: float) -> ShellResult:
        code, output = self._run(command, timeout_s)
        return ShellResult(code, output.decode("utf-8", "replace"))

    def push(self, local: Path, remote: str, timeout_s: float, progress: Callable[[int], None] | None = None) -> None:
        with self._operation(f"pushing {local} to {remote}", timeout_s), local.open("rb") as file:
            found = local.stat()
            counted = _Counted(file, progress) if progress else file
            send_file(self._device, counted, remote, _REGULAR_FILE | found.st_mode & 0o777, int(found.st_mtime))

    def push_bytes(self, data: bytes, remote: str, timeout_s: float) -> None:
        with self._operation(f"writing {remote}", timeout_s):
            send_file(self._device, io.BytesIO(data), remote, _REGULAR_FILE | 0o644, int(time.time()))

    def pull(self, remote: str, local: Path, timeout_s: float) -> None:
        with self._operation(f"pulling {remote} to {local}", timeout_s), _renamed_into_place(local) as file:
            receive_file(self._device, remote, file)

    def read(self, remote: str, timeout_s: float, offset: int = 0, max_bytes: int = 1 << 20) -> bytes:
        part = f"tail -c +{offset + 1} {quote(remote)} 2>/dev/null | head -c {max_bytes}"
        return self._run(part, timeout_s)[1]

    def close(self) -> None:
        self._device.close()

    def _run(self, command: str, timeout_s: float) -> tuple[int, bytes]:
        """Exit code and merged output. An inner shell, so that syntax errors and `exit` do not take the end line."""
        nonce = secrets.token_hex(8)
        line = f"sh -c {quote(command)}; echo {nonce}:$?"
        end = re.compile(rb"%s:(\d+)\r?\n" % nonce.encode())
        output = bytearray()
        with self._operation(f"running {command[:80]!r}", timeout_s):
            with closing(self._device.run(b"exec:" + line.encode())) as pieces:
                for piece in pieces:
                    output += piece
                    if found := end.search(output, max(0, len(output) - len(piece) - 64)):
                        return int(found[1]), bytes(output[: found.start()])
                    if len(output) > _LONGEST_OUTPUT:
                        raise _TooMuchOutput(f"more than {_LONGEST_OUTPUT >> 20} MiB of output")
            raise LinkDown("the phone closed the shell before the command's end")

    def _on_key_offered(self, _: object) -> None:
        self._key_offered = True

    @contextmanager
    def _operation(self, doing: str, timeout_s: float) -> Iterator[None]:
        """A deadline, and every failure in the farm's terms. After a lost or confused connection it is closed."""
        self._link.allow(timeout_s)
        try:
            yield
        except (DeadlinePassed, exceptions.AdbTimeoutError) as error:
            self.close()
            raise self._too_late(doing, timeout_s) from error
        except (LinkDown, exceptions.AdbConnectionError) as error:
            self.close()
            raise PhoneUnreachable(f"{self._address}: {doing} failed: {error}", _CHECK_CABLE) from error
        except _NOT_ADB as error:
            self.close()
            raise PhoneUnreachable(
                f"{self._address}: {doing} failed: what answers there does not speak ADB ({error})",
                "check the port: 5555 is usual for ADB over TCP",
            ) from error
        except (ServiceRefused, FileRefused, _TooMuchOutput) as error:
            raise CommandFailed(f"{self._address}: {doing} failed: {error}") from error
        except OSError as error:
            self.close()
            raise LeverError(f"{self._address}: {doing} failed on this machine: {error}") from error

    def _too_late(self, doing: str, timeout_s: float) -> LeverError:
        if self._key_offered and not self._device.available:
            return PhoneUnauthorized(
                f"{self._address}: the phone does not trust our key, and nobody allowed it within {timeout_s:g} s",
                f"unlock the phone, tap 'Always allow from this computer', try again (key: {self._key_path}.pub)",
            )
        return PhoneUnreachable(f"{self._address}: {doing} did not end within {timeout_s:g} s", _CHECK_CABLE)


class _Counted:
    """A file that tells how much of it was read. adb-shell's own progress swallows whatever the callback raises."""

    def __init__(self, file: BinaryIO, progress: Callable[[int], None]) -> None:
        self._file, self._progress, self._sent = file, progress, 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._sent += len(data)
        if data:
            self._progress(self._sent)
        return data


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


def _connect_payload(received: bytes) -> bytes:
    """Payload of the CNXN among the first packets of a connection; empty when there is none."""
    while len(received) >= MESSAGE_SIZE:
        command, _, _, length, _, _ = struct.unpack(MESSAGE_FORMAT, received[:MESSAGE_SIZE])
        payload, received = received[MESSAGE_SIZE : MESSAGE_SIZE + length], received[MESSAGE_SIZE + length :]
        if command == int.from_bytes(b"CNXN", "little"):
            return payload
    return b""
