"""The service `sync:` (AOSP's SYNC.TXT and file_sync_protocol.h): STAT LIST SEND RECV QUIT and STA2 LST2 LIS2."""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from device_agent.virtual.files import Files
from device_agent.virtual.storage import Storage
from device_agent.virtual.stream import ByteReader, Stream

_CHUNK = 64 * 1024
_LONGEST_PATH = 1024
_HEAD = struct.Struct("<4sI")  # id, length
_STAT_V1 = struct.Struct("<4s3I")  # id, mode, size, mtime
_STAT_V2 = struct.Struct("<4sI2Q4IQ3q")  # id, errno, dev, ino, mode, nlink, uid, gid, size, atime, mtime, ctime
_NAME_LENGTH = struct.Struct("<I")


@dataclass
class SyncSession:
    stream: Stream
    files: Files
    storage: Storage
    reader: ByteReader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = ByteReader(self.stream)

    async def serve(self) -> None:
        """Until QUIT, the end of the stream (EOFError) or a request that we cannot understand."""
        while True:
            request, length = _HEAD.unpack(await self.reader.exactly(_HEAD.size))
            if request == b"QUIT":
                return
            if length > _LONGEST_PATH:
                await self._fail(f"path of {length} bytes is too long")
                return
            path = (await self.reader.exactly(length)).decode("utf-8", "surrogateescape")
            if not await self._answer(request, path):
                await self._fail(f"unknown command {request!r}")
                return

    async def _answer(self, request: bytes, path: str) -> bool:
        if request in (b"STAT", b"LST2", b"STA2"):
            follow = request == b"STA2"
            await self.stream.write(_stat_reply(request, self.files.host_path(path), follow))
        elif request in (b"LIST", b"LIS2"):
            await self.stream.write(b"".join(_list_replies(request == b"LIS2", self.files.host_path(path))))
        elif request == b"SEND":
            await self._receive_file(path)
        elif request == b"RECV":
            await self._send_file(self.files.host_path(path))
        else:
            return False
        return True

    async def _receive_file(self, path_and_mode: str) -> None:
        path, _, mode = path_and_mode.rpartition(",")
        target = self.files.host_path(path)
        try:
            self.storage.check()
            fd = _create(target, int(mode) if mode.isdecimal() else None)
        except OSError as error:
            await self._fail(f"couldn't create {path!r}: {error.strerror}")
            await self._write_data(None, path)
            return
        complete = False
        try:
            complete = await self._write_data(fd, path)
        finally:
            os.close(fd)
            if not complete:
                os.unlink(target)  # full disk, or cut off in the middle: adbd leaves nothing either
        if complete:
            _finish(target, int(mode), self._mtime)
            await self.stream.write(_HEAD.pack(b"OKAY", 0))

    async def _write_data(self, fd: int | None, path: str) -> bool:
        """All DATA up to DONE; after the first error FAIL is sent and the rest only read. True when all is written."""
        while (length := await self._next_data()) is not None:
            async for piece in self.reader.pieces(length):
                if fd is None:
                    continue
                try:
                    self.storage.check()
                    _write_all(fd, piece)
                except OSError as error:
                    fd = None
                    await self._fail(f"couldn't write {path!r}: {error.strerror}")
        return fd is not None

    async def _next_data(self) -> int | None:
        """Length of the next DATA, None at DONE, whose length field is the file's time."""
        kind, length = _HEAD.unpack(await self.reader.exactly(_HEAD.size))
        if kind == b"DONE":
            self._mtime = length
            return None
        if kind != b"DATA" or length > _CHUNK:
            raise EOFError  # out of step: nothing after this can be understood
        return int(length)

    async def _send_file(self, path: str) -> None:
        try:
            with open(path, "rb", buffering=0) as file:
                while chunks := _read_chunks(file.fileno()):
                    await self.stream.write(b"".join(chunks))
        except OSError as error:
            await self._fail(f"open failed: {error.strerror}")
        else:
            await self.stream.write(_HEAD.pack(b"DONE", 0))

    async def _fail(self, reason: str) -> None:
        message = reason.encode("utf-8", "surrogateescape")
        await self.stream.write(_HEAD.pack(b"FAIL", len(message)) + message)


def _read_chunks(fd: int) -> list[bytes]:
    """Up to 15 DATA messages: as many as one ADB payload takes."""
    parts: list[bytes] = []
    while len(parts) < 30 and (data := os.read(fd, _CHUNK)):
        parts += _HEAD.pack(b"DATA", len(data)), data
    return parts


def _write_all(fd: int, data: memoryview) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _create(target: str, mode: int | None) -> int:
    if mode is None:
        raise OSError(errno.EINVAL, "no mode in the request")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.lexists(target) and not os.path.isdir(target):
        os.unlink(target)
    return os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


def _finish(target: str, mode: int, mtime: int) -> None:
    if stat.S_ISLNK(mode):
        with open(target, "rb") as file:
            destination = file.read().rstrip(b"\0")
        os.unlink(target)
        os.symlink(destination, os.fsencode(target))
    else:
        os.chmod(target, stat.S_IMODE(mode) & 0o777)
        os.utime(target, (mtime, mtime))


def _stat_reply(kind: bytes, path: str, follow: bool) -> bytes:
    try:
        found = os.stat(path) if follow else os.lstat(path)
    except OSError as error:
        if kind == b"STAT":
            return _STAT_V1.pack(kind, 0, 0, 0)
        return _STAT_V2.pack(kind, error.errno or 2, *[0] * 10)
    if kind == b"STAT":
        return _STAT_V1.pack(kind, *_small(found))
    return _STAT_V2.pack(kind, 0, *_large(found))


def _list_replies(v2: bool, folder: str) -> Iterable[bytes]:
    """One message an entry, `.` and `..` included, then DONE; an unreadable folder is an empty list, as in adbd."""
    try:
        names = [".", "..", *sorted(os.listdir(folder))]
    except OSError:
        names = []
    for name in names:
        raw = os.fsencode(name)
        try:
            found = os.lstat(os.path.join(folder, name))
        except OSError:
            continue  # gone since
        head = _STAT_V2.pack(b"DNT2", 0, *_large(found)) if v2 else _STAT_V1.pack(b"DENT", *_small(found))
        yield head + _NAME_LENGTH.pack(len(raw)) + raw
    yield b"DONE" + bytes((_STAT_V2 if v2 else _STAT_V1).size - 4 + _NAME_LENGTH.size)


def _small(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_mode, found.st_size & 0xFFFFFFFF, int(found.st_mtime) & 0xFFFFFFFF


def _large(found: os.stat_result) -> tuple[int, ...]:
    owner = found.st_nlink, found.st_uid, found.st_gid
    times = int(found.st_atime), int(found.st_mtime), int(found.st_ctime)
    return found.st_dev, found.st_ino, found.st_mode, *owner, found.st_size, *times
