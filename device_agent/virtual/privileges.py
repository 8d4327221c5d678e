"""A shell user is refused what root may read: a phone that runs as root gives up overriding file permissions."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_PR_CAPBSET_DROP = 24
_OVERRIDES = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def give_up_overrides(root: Path) -> None:
    """For all that we start from now on, not for ourselves. Nothing happens where they are what opens the way to the
    phone's folder or to the host's Python."""
    if os.geteuid() != 0 or not (_open_way(root) and _open_way(Path(sys.executable))):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in _OVERRIDES:
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def _open_way(path: Path) -> bool:
    folders = [folder.stat() for p in (path, path.resolve()) for folder in p.parents]
    return all(found.st_uid == os.geteuid() or found.st_mode & 0o001 for found in folders)
