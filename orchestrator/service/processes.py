"""Processes known by pid and start time, so that a recycled pid is never taken for ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from orchestrator.run_files import MARK

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
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def marked(run_id: str) -> list[psutil.Process]:
    """Everything that carries this supervisor's mark in its environment, wherever it was re-parented to."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == run_id:
                found.append(process)
    return found


def end(processes: Iterable[psutil.Process], grace_s: float) -> int:
    """Ask, wait, then kill; returns how many there were. psutil checks start times before each signal."""
    alive = [p for p in processes if p.is_running()]
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, stubborn = psutil.wait_procs(alive, timeout=grace_s)
    for process in stubborn:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(stubborn, timeout=grace_s)
    return len(alive)
