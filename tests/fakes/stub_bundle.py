"""A bundle that is built in no time: its loader is a shell script, run by an emulator that is the shell."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from orchestrator.bundles.archive import Member, write_archive
from orchestrator.bundles.base import ARCHIVE, MANIFEST, base_folder

EMULATOR = "sh"
LOADER = 'while [ "$1" != -P ]; do shift; done; shift; echo "$LEVER_GGML$*"'  # what Python would be told


def stub_base(home: Path, loader: str = LOADER, executable: bool = True, extra: bytes = b"") -> Path:
    """As `lever bundle build` leaves it; returns the archive."""
    folder = base_folder(home)
    folder.mkdir(parents=True, exist_ok=True)
    members: list[Member] = [("lib/ld-linux-aarch64.so.1", f"{loader}\n".encode(), executable)]
    (folder / ARCHIVE).unlink(missing_ok=True)  # a bundle made of it keeps it, as after a build
    write_archive(folder / ARCHIVE, [*members, ("licences/extra", extra, False)])
    data = (folder / ARCHIVE).read_bytes()
    stated = {"sha256": hashlib.sha256(data).hexdigest(), "nbytes": len(data), "made_of": {"libc6": "2.36"}}
    (folder / MANIFEST).write_text(json.dumps(stated))
    return folder / ARCHIVE
