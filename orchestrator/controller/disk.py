"""Room on the disk that the farm writes to: without it nothing new is started, and what runs can still be recorded."""

from __future__ import annotations

import shutil
from pathlib import Path

SPARE_MB = 200  # results and traces of what runs, logs, MLflow's artifacts


def shortage(home: Path) -> str:
    """Why nothing should be started now; empty when there is room, or no such folder yet."""
    try:
        free_mb = shutil.disk_usage(home).free // 1_000_000
    except OSError:
        return ""
    if free_mb >= SPARE_MB:
        return ""
    return f"the disk of {home} has {free_mb} MB free and {SPARE_MB} MB are needed: free some, and it goes on by itself"
