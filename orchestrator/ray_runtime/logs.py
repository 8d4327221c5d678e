"""Logs of the service's processes: LEVER_HOME/logs/<name>.log, rotated, since the farm may run for weeks."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler

from orchestrator.settings import Settings

LOG_BYTES, LOG_FILES = 2_000_000, 3


def log_to(settings: Settings, name: str) -> None:
    """Send this process's log records to the file; for the start of a process."""
    settings.logs.mkdir(parents=True, exist_ok=True)
    handler = RotatingFileHandler(settings.logs / f"{name}.log", maxBytes=LOG_BYTES, backupCount=LOG_FILES)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
