"""What the phone says when its own commands ask: getprop, dumpsys, df."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from device_agent.virtual.battery import Battery, thermal_dump
from device_agent.virtual.profile import Profile

Answer = tuple[int, str]  # exit code, text (on stderr when the code is not 0)


@dataclass(frozen=True)
class Answers:
    properties: dict[str, str]
    battery: Battery
    root: Path
    storage_bytes: int

    def commands(self) -> dict[str, Callable[[list[str]], Answer]]:
        return {"getprop": self._getprop, "dumpsys": self._dumpsys, "df": self._df}

    def _getprop(self, words: list[str]) -> Answer:
        if words:
            default = words[1] if len(words) > 1 else ""
            return 0, self.properties.get(words[0], default) + "\n"
        return 0, "".join(f"[{key}]: [{value}]\n" for key, value in sorted(self.properties.items()))

    def _dumpsys(self, words: list[str]) -> Answer:
        services = {"battery": self.battery.dump, "thermalservice": thermal_dump}
        if not words or words[0] not in services:
            return 1, f"Can't find service: {' '.join(words) or '(none)'}\n"
        return 0, services[words[0]]()

    def _df(self, words: list[str]) -> Answer:
        """toybox's table for the one partition: the profile's size, and no more free than the host has."""
        if unknown := [word for word in words if word.startswith("-") and word not in ("-k", "-P")]:
            return 1, f"df: unknown option {unknown[0]}\n"
        used = sum(_file_bytes(Path(folder) / name) for folder, _, names in os.walk(self.root) for name in names)
        free = max(0, min(self.storage_bytes - used, shutil.disk_usage(self.root).free))
        percent = -(-100 * used // max(1, used + free))
        return 0, (
            f"{'Filesystem':<20} {'1K-blocks':>10} {'Used':>10} {'Available':>10} Use% Mounted on\n"
            f"{'/dev/block/dm-0':<20} {self.storage_bytes // 1024:>10} {used // 1024:>10} {free // 1024:>10} "
            f"{percent:>3}% /data\n"
        )


def phone_properties(profile: Profile, profile_name: str, serial: str, cores: int) -> dict[str, str]:
    """`cores` is what the phone really gets: its profile's or the host's, whichever is fewer."""
    return {
        "ro.product.name": profile.device,
        "ro.product.model": profile.model,
        "ro.product.device": profile.device,
        "ro.product.cpu.abilist": profile.abi,
        "ro.soc.model": profile.soc,
        "ro.board.platform": profile.platform,
        "ro.build.version.sdk": str(profile.sdk),
        "ro.build.fingerprint": f"lever/virtual/{profile_name}:{profile.sdk}/virtual/1:userdebug/test-keys",
        "ro.serialno": serial,
        "ro.lever.virtual": "1",
        "ro.lever.profile": profile_name,
        "ro.lever.flash_mb_s": str(profile.flash_mb_s),
        "ro.lever.power_model": json.dumps(asdict(profile.power)),
        "ro.lever.cores": str(cores),
        "ro.lever.profile_cores": str(profile.cores),
        "ro.lever.ram_mb": str(profile.ram_mb),
        "sys.boot_completed": "1",
    }


def _file_bytes(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0  # gone since
