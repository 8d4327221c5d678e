"""Processes known by pid and start time, so that a recycled pid is never taken for ours."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

POLL_S = 0.05
SAME_START_S = 2.0  # start times are derived from the boot time, which a clock step moves a little


@dataclass(frozen=True)
class ProcessId:
    pid: int
    started: float  # unix time


def identify(pid: int) -> ProcessId:
    """Raises psutil.NoSuchProcess."""
    return ProcessId(pid, psutil.Process(pid).create_time())


def find(identity: ProcessId) -> psutil.Process | None:
    """The process if it still lives; None when it is gone, a zombie, or when its pid belongs to another by now."""
    try:
        process = psutil.Process(identity.pid)
        same = abs(process.create_time() - identity.started) < SAME_START_S
    except psutil.Error:
        return None
    return process if same and lives(process) else None


def working_in(folder: str, session: int) -> list[psutil.Process]:
    """Everything of this Unix session that works in the folder or did before it was deleted, wherever it was
    re-parented to. An inherited environment variable would not do: Ray's workers write their titles over theirs."""
    return [process for process in psutil.process_iter() if _works_in(folder, session, process)]


def end(processes: Iterable[psutil.Process], grace_s: float) -> int:
    """Ask, wait, then kill; returns how many there were. psutil checks start times before each signal."""
    alive = [p for p in processes if lives(p)]
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    for process in _outlived(alive, grace_s):
        with contextlib.suppress(psutil.Error):
            process.kill()
    _outlived(alive, grace_s)
    return len(alive)


def _outlived(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Those that still live then, at once when none does. psutil's own waiting would wait for zombies too, which stay
    as long as whoever started them (a `lever sweep` that goes on, say) does not ask."""
    deadline = time.monotonic() + seconds
    while (alive := [p for p in processes if lives(p)]) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return alive


def lives(process: psutil.Process) -> bool:
    """It is there, and no zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _works_in(folder: str, session: int, process: psutil.Process) -> bool:
    try:
        return os.getsid(process.pid) == session and Path(process.cwd()).is_relative_to(folder)
    except (OSError, psutil.Error):
        return False  # another user's, or just gone
