"""What a virtual phone pretends to be: profiles/*.json, every number with the source that it comes from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from device_agent.wire import from_json

HOST, ARM64 = "host", "arm64"
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
    userland: str  # whose shell and tools: userland.ANDROID or HOST
    cores: int
    ram_mb: int
    flash_mb_s: int  # sequential read, 10^6 bytes/s
    storage_gb: int
    battery_mah: int
    battery_v: float
    idle_w: float
    cpu_w_per_core: float
    flash_j_per_gb: float
    max_khz: int  # of the fastest core; all are shown with it
    ambient_c: float
    heat_c_per_w: float  # above ambient, for each watt that goes on
    heat_tau_s: float
    throttle_c: float  # where thermal status 1 begins
    current_unit: str  # of power_supply's current_now: uA, as the kernel says, or mA
    discharge_sign: int  # of current_now while discharging: -1, as the kernel says, or 1
    denied_nodes: tuple[str, ...]  # of power_supply/battery, to the shell user
    arch: str = HOST  # whose programs it runs: the host's, or arm64's under an emulator

    @property
    def power(self) -> PowerModel:
        return PowerModel(self.idle_w, self.cpu_w_per_core, self.flash_j_per_gb)


def profile_names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def load_profile(name: str) -> Profile:
    """One of ours, or a file of one's own: a path that ends in .json. Raises KeyError naming the known profiles."""
    if name not in profile_names() and not name.endswith(".json"):
        raise KeyError(f"no profile {name!r}; there are {', '.join(profile_names())}")
    path = _FOLDER / f"{name}.json" if name in profile_names() else Path(name)
    stated: dict[str, dict[str, Any]] = json.loads(path.read_text())
    profile = from_json(Profile, {key: entry["value"] for key, entry in stated.items()}, name)
    if profile.arch not in (HOST, ARM64):
        raise ValueError(f"profile {name}: arch {profile.arch!r} is neither {HOST} nor {ARM64}")
    return profile
