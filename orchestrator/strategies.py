"""Which decoding strategies the agent has: one module each, found where the agent's bundle is made from."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import device_agent

FOLDER = Path(device_agent.__file__).parent / "engine" / "strategies"


def strategy_names() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules([str(FOLDER)])))
