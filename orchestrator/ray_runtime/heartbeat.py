"""What the head and the controller tell about themselves, as files under LEVER_HOME/run: read by people without Ray."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from device_agent.protocol import WireError, from_json
from orchestrator.run_files import read_json, write_json
from orchestrator.settings import Settings

T = TypeVar("T")

BEAT_S = 1.0
FRESH_S = 15.0  # a controller that was silent longer does not answer


@dataclass(frozen=True)
class Head:
    """Ray's head process, and what it knows of the controller."""

    run_id: str  # the supervisor's run that it belongs to
    pid: int
    ray_address: str = ""  # empty until Ray answers
    controller_restarts: int = 0
    error: str = ""  # why the controller was last started again
    hosts: tuple[str, ...] = ()  # farm hosts that have joined


@dataclass(frozen=True)
class Beat:
    """The controller's heartbeat, written from inside its event loop: fresh means that the loop turns."""

    run_id: str
    pid: int
    at: float  # unix time
    count: int  # grows with every beat of one controller process

    def fresh(self) -> bool:
        return abs(time.time() - self.at) < FRESH_S


def write_head(settings: Settings, head: Head) -> None:
    write_json(_head_path(settings), asdict(head))


def read_head(settings: Settings, run_id: str) -> Head | None:
    """None when the head of this run has not written yet."""
    return _read(Head, _head_path(settings), run_id)


def write_beat(settings: Settings, run_id: str, count: int) -> None:
    write_json(_beat_path(settings), asdict(Beat(run_id, os.getpid(), time.time(), count)))


def read_beat(settings: Settings, run_id: str) -> Beat | None:
    """None when no controller of this run has beaten yet."""
    return _read(Beat, _beat_path(settings), run_id)


def forget(settings: Settings) -> None:
    """Delete both files."""
    _head_path(settings).unlink(missing_ok=True)
    _beat_path(settings).unlink(missing_ok=True)


def _read(kind: type[T], path: Path, run_id: str) -> T | None:
    data = read_json(path)
    if data is None or data.get("run_id") != run_id:
        return None
    try:
        return from_json(kind, data)
    except WireError:
        return None  # written by another version


def _head_path(settings: Settings) -> Path:
    return settings.run / "head.json"


def _beat_path(settings: Settings) -> Path:
    return settings.run / "controller.json"
