"""`probe` and `flash`: what this machine offers the agent, as JSON facts."""

from __future__ import annotations

import errno
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from device_agent.kernels.binding import VERSION
from device_agent.model.flash_probe import scratch_bandwidth
from device_agent.protocol import ENGINE_VERSION, PROTOCOL_VERSION
from device_agent.telemetry.sensors import sensors


def probe(folder: Path) -> dict[str, Any]:
    """`folder`: where packs would lie; a scratch file there tells whether O_DIRECT works."""
    return {
        "protocol_version": PROTOCOL_VERSION,
        "engine_version": ENGINE_VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "ggml": VERSION,
        "ggml_variant": os.environ.get("LEVER_GGML"),  # which of a bundle's kernels; None: built for this machine
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1_000_000,
        "o_direct": _o_direct(folder),
        "sensors": sensors(),
    }


def flash(folder: Path) -> dict[str, Any]:
    """How fast a file in `folder` is read: `mb_s` (10^6 bytes a second) and `io_mode`. Raises AgentFailure, OSError."""
    mb_s, io_mode = scratch_bandwidth(folder)
    return {"mb_s": mb_s, "io_mode": io_mode}


def _o_direct(folder: Path) -> bool:
    with tempfile.NamedTemporaryFile(dir=folder) as scratch:
        try:
            os.close(os.open(scratch.name, os.O_RDONLY | os.O_DIRECT))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return False
    return True
