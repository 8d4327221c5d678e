"""A value that a phone gave, or why it gave none. What is missing is never zero."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

ASK_S = 5.0


@dataclass(frozen=True)
class Missing:
    why: str

    def __str__(self) -> str:
        return f"unavailable ({self.why})"


Reading: TypeAlias = float | Missing


def node(path: str) -> str | Missing:
    """Text of a kernel's file, by its path on the phone. A virtual phone's own files lie below $LEVER_PHONE."""
    try:
        return (Path(os.environ.get("LEVER_PHONE", "/")) / path.lstrip("/")).read_text().strip()
    except OSError as error:
        return Missing(f"{path}: {error.strerror}")


def number(text: str | Missing, within: tuple[float, float], scale: float = 1.0) -> Reading:
    """`text` · `scale`, when it is a number of that range; vendors write 0 or -1 for what they do not measure."""
    if isinstance(text, Missing):
        return text
    try:
        value = float(text) * scale
    except ValueError:
        return Missing(f"{text[:40]!r} is no number")
    low, high = within
    return value if low <= value <= high else Missing(f"{text[:40]} cannot be")


def dump(service: str) -> str | Missing:
    """Text of `dumpsys SERVICE`."""
    try:
        done = subprocess.run(["dumpsys", service], capture_output=True, text=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Missing(f"dumpsys {service}: {error}")
    return done.stdout if done.returncode == 0 else Missing(f"dumpsys {service}: {done.stderr.strip()[:80]}")
