"""A folder as a compressed archive that is the same, byte by byte, whenever its files are."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

Member = tuple[str, bytes, bool]  # path, content, whether it may be executed
MARK = "complete-"  # with the archive's name: its last member, so that a phone can tell that it has them all


def write_archive(target: Path, members: Iterable[Member]) -> None:
    """gzip is what toybox can unpack on every Android."""
    with (
        target.open("wb") as out,
        gzip.GzipFile("", "wb", 9, out, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, data, executable in sorted(members):
            _add(archive, name, data, executable)
        _add(archive, MARK + target.name.partition(".")[0], b"", False)


def folder_members(folder: Path) -> Iterator[Member]:
    """All files below `folder`; links are followed."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_bytes(), bool(path.stat().st_mode & 0o100)


def _add(archive: tarfile.TarFile, name: str, data: bytes, executable: bool) -> None:
    """Times and owners say nothing."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), 0o755 if executable else 0o644, 1
    archive.addfile(entry, io.BytesIO(data))
