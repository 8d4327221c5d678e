"""What a virtual phone pretends to be: profiles/*.json, every number with the source that it comes from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from device_agent.wire import from_json

_FOLDER = Path(__file__).parent / "profiles"


@dataclass(frozen=True)
class PowerModel:
    """P = idle_w + cpu_w_per_core · busy cores + flash_j_per_gb · GB/s read."""

    idle_w: float
    cpu_w_per_core: float
    flash_j_per_gb: float


@dataclass(frozen=True)
class Profile:
    model: str
    device: str  # code name
    soc: str
    platform: str
    abi: str
    sdk: int
    cores: int
    ram_mb: int
    flash_mb_s: int  # sequential read, 10^6 bytes/s
    storage_gb: int
    battery_mah: int
    battery_v: float
    idle_w: float
    cpu_w_per_core: float
    flash_j_per_gb: float

    @property
    def power(self) -> PowerModel:
        return PowerModel(self.idle_w, self.cpu_w_per_core, self.flash_j_per_gb)


def profile_names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def load_profile(name: str) -> Profile:
    """Raises KeyError naming the known profiles."""
    if name not in profile_names():
        raise KeyError(f"no profile {name!r}; there are {', '.join(profile_names())}")
    stated: dict[str, dict[str, Any]] = json.loads((_FOLDER / f"{name}.json").read_text())
    return from_json(Profile, {key: entry["value"] for key, entry in stated.items()}, name)
