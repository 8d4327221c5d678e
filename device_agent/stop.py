"""`stop JOB_DIR`: end a job's process group: asked first, killed if it does not listen."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

PATIENCE_S = 5.0
POLL_S = 0.05


def stop(folder: Path) -> bool:
    """Whether there was a group to end. `pid` and `born` tell the job from a stranger with the same number."""
    group = _group(folder)
    if group is None or not _signal(group, signal.SIGTERM):
        return False
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and _signal(group, 0):
        time.sleep(POLL_S)
    _signal(group, signal.SIGKILL)
    return True


def _group(folder: Path) -> int | None:
    """The job's process group, named by its leader. A leader that is gone leaves its number to its group alone."""
    try:
        pid, born = int((folder / "pid").read_text()), (folder / "born").read_text().strip()
    except (OSError, ValueError):
        return None
    now = _start_time(pid)
    return pid if now is None or now == born else None


def _start_time(pid: int) -> str | None:
    """Field 22 of /proc/PID/stat: clock ticks from boot to the process's start."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]  # the name before it may hold spaces


def _signal(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True
