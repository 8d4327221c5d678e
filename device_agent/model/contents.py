"""Whether a pack's files hold what its manifest says: hashed once, and again when a file was touched since.

What was hashed is remembered beside the files by inode, size and times, of which no program can set the time of the
last change. So a job whose packs nobody touched hashes nothing, and bytes that changed do not pass for weights.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from device_agent.failure import AgentFailure
from device_agent.model.pack import Pack
from device_agent.protocol import ChunkSpec

MEMORY = "hashed.json"

Stamp = list[int]  # inode, bytes, times of last write and last change (ns)


@contextmanager
def unchanged(pack: Pack) -> Iterator[None]:
    """Raises AgentFailure pack_corrupt naming a file that holds something else, or was touched within the block."""
    stamps = _checked(pack)
    yield
    for name, stamp in stamps.items():
        if _stamp(pack.folder / name) != stamp:
            raise AgentFailure("pack_corrupt", f"{pack.folder / name} was changed while the job ran; run it again")


def check(pack: Pack) -> None:
    """Raises AgentFailure pack_corrupt naming a file that holds something else."""
    _checked(pack)


def _checked(pack: Pack) -> dict[str, Stamp]:
    """Hashes what is not known to be as it was when hashed last; returns the files' stamps."""
    known, stamps = _remembered(pack), {}
    for chunk in _chunks(pack):
        file = pack.folder / chunk.file
        stamps[chunk.file] = stamp = _stamp(file)  # before it is read: what is written meanwhile shows
        if known.get(chunk.file) != stamp and (found := _sha256(file)) != chunk.sha256:
            what = f"{file} was changed: it hashes to {found[:12]}, expected {chunk.sha256[:12]}"
            raise AgentFailure("pack_corrupt", f"{what}; fetch or push the pack again")
    if stamps != known:
        _remember(pack, stamps)
    return stamps


def _chunks(pack: Pack) -> Iterator[ChunkSpec]:
    return (chunk for extent in pack.manifest.extents for chunk in extent.chunks)


def _stamp(file: Path) -> Stamp:
    try:
        found = file.stat()
    except OSError as error:
        raise AgentFailure("pack_corrupt", f"{file}: {error.strerror}") from error
    return [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _sha256(file: Path) -> str:
    try:
        with file.open("rb", buffering=0) as data:
            found = hashlib.file_digest(data, "sha256").hexdigest()
            os.posix_fadvise(data.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # what is decoded comes from flash
    except OSError as error:
        raise AgentFailure("io_error", f"{file}: reading it: {error}") from error
    return found


def _remembered(pack: Pack) -> dict[str, Stamp]:
    """Nothing where it cannot be read: all is hashed then."""
    try:
        found = json.loads((pack.folder / MEMORY).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _remember(pack: Pack, stamps: dict[str, Stamp]) -> None:
    """Whole or not at all; a folder that cannot be written to is hashed each time."""
    temporary = pack.folder / f".{MEMORY}.{os.getpid()}"
    with suppress(OSError):
        temporary.write_text(json.dumps(stamps))
        temporary.replace(pack.folder / MEMORY)
