"""What a child process prints: LEVER_HOME/logs/<name>.out, the file before kept once when it has grown."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from orchestrator.settings import Settings

ROTATE_BYTES = 2_000_000


def open_log(settings: Settings, name: str) -> IO[bytes]:
    """Open for appending, for a child that is about to start."""
    path = log_path(settings, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > ROTATE_BYTES:
        path.replace(path.with_suffix(".out.1"))
    return path.open("ab")


def log_path(settings: Settings, name: str) -> Path:
    return settings.logs / f"{name}.out"


def last_line(path: Path) -> str:
    """Empty when there is nothing."""
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
