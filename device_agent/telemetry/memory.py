"""Peak memory of this process."""

from __future__ import annotations

from pathlib import Path


def peak_rss_bytes() -> int:
    """Highest resident set so far. From VmHWM: getrusage's ru_maxrss starts with what the parent had before exec."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmHWM")
