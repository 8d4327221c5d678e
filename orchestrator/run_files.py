"""Small private files under LEVER_HOME, through which the farm's processes see each other: whole or not there."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def write_json(path: Path, data: dict[str, Any]) -> None:
    write_private(path, json.dumps(data, indent=1))


def write_private(path: Path, text: str) -> None:
    """Replace the file in one step, readable by its owner only: such files name ports and hold tokens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """None when there is no such file or when it is not ours to understand."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold the lock file; yields whether we got it (always, when waiting). The kernel frees it if we die."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
