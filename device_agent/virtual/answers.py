"""What the phone says when its own commands ask: getprop, dumpsys, settings, df."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from device_agent.virtual.battery import Battery
from device_agent.virtual.limits import Limits
from device_agent.virtual.nodes import Nodes
from device_agent.virtual.profile import Profile
from device_agent.virtual.storage import Storage
from device_agent.virtual.thermal import Thermal

# As their owner has them; whether the light adapts was never chosen, so that it is not there.
OWNERS_SETTINGS = {"screen_off_timeout": "30000", "screen_brightness": "102"}

Answer = tuple[int, str]  # exit code, text (on stderr when the code is not 0)


@dataclass(frozen=True)
class Answers:
    properties: dict[str, str]
    battery: Battery
    thermal: Thermal
    storage: Storage
    nodes: Nodes
    settings: dict[str, str] = field(default_factory=lambda: dict(OWNERS_SETTINGS))  # of the namespace system

    def commands(self) -> dict[str, Callable[[list[str]], Answer]]:
        return {
            "getprop": self._getprop,
            "dumpsys": self._dumpsys,
            "cmd": self._cmd,
            "df": self._df,
            "uptime": self._uptime,
            "settings": self._settings,
        }

    def _getprop(self, words: list[str]) -> Answer:
        if words:
            default = words[1] if len(words) > 1 else ""
            return 0, self.properties.get(words[0], default) + "\n"
        return 0, "".join(f"[{key}]: [{value}]\n" for key, value in sorted(self.properties.items()))

    def _dumpsys(self, words: list[str]) -> Answer:
        match words:
            case ["battery", *rest]:
                return _said(self.battery.command(rest), words)
            case ["thermalservice"]:
                return 0, self.thermal.dump()
        return 1, f"Can't find service: {' '.join(words) or '(none)'}\n"

    def _cmd(self, words: list[str]) -> Answer:
        if words[:1] == ["thermalservice"]:
            return _said(self.thermal.command(words[1:]), words)
        return 20, f"cmd: Can't find service: {' '.join(words[:1])}\n"

    def _settings(self, words: list[str]) -> Answer:
        match words:
            case ["get", "system", name]:
                return 0, self.settings.get(name, "null") + "\n"
            case ["put", "system", name, value]:
                self.settings[name] = value
                return 0, ""
            case ["delete", "system", name]:
                return 0, f"Deleted {int(self.settings.pop(name, None) is not None)} rows\n"
        return 255, f"Invalid command: {' '.join(words)}\n"

    def _uptime(self, _: list[str]) -> Answer:
        minutes = int(self.nodes.uptime_s()) // 60
        return 0, f" up {minutes // 60}:{minutes % 60:02}, 0 users\n"

    def _df(self, words: list[str]) -> Answer:
        """toybox's table for the one partition: the profile's size, and no more free than the host has."""
        if unknown := [word for word in words if word.startswith("-") and word not in ("-k", "-P")]:
            return 1, f"df: unknown option {unknown[0]}\n"
        used = self.storage.used_bytes()
        free = self.storage.free_bytes(used)
        used = self.storage.size_bytes - free if self.storage.full else used
        percent = -(-100 * used // max(1, used + free))
        return 0, (
            f"{'Filesystem':<20} {'1K-blocks':>10} {'Used':>10} {'Available':>10} Use% Mounted on\n"
            f"{'/dev/block/dm-0':<20} {self.storage.size_bytes // 1024:>10} {used // 1024:>10} {free // 1024:>10} "
            f"{percent:>3}% /data\n"
        )


def _said(output: str | None, words: list[str]) -> Answer:
    return (0, output) if output is not None else (255, f"Unknown command: {' '.join(words)}\n")


ADBD_PID = "init.svc_debug_pid.adbd"  # another one whenever it restarts


def phone_properties(profile: Profile, name: str, serial: str, limits: Limits, userland: str) -> dict[str, str]:
    """`name` is the profile's. Cores: what the phone really gets, its profile's or the host's, whichever is fewer."""
    return {
        "ro.product.name": profile.device,
        "ro.product.model": profile.model,
        "ro.product.device": profile.device,
        "ro.product.cpu.abilist": profile.abi,
        "ro.soc.model": profile.soc,
        "ro.board.platform": profile.platform,
        "ro.build.version.sdk": str(profile.sdk),
        "ro.build.fingerprint": f"lever/virtual/{name}:{profile.sdk}/virtual/1:userdebug/test-keys",
        "ro.serialno": serial,
        "ro.lever.virtual": "1",
        "ro.lever.profile": name,
        "ro.lever.arch": profile.arch,
        "ro.lever.flash_mb_s": str(profile.flash_mb_s),
        "ro.lever.power_model": json.dumps(asdict(profile.power)),
        "ro.lever.userland": userland,
        "ro.lever.limits": json.dumps(limits.how),
        "ro.lever.cores": str(limits.cores),
        "ro.lever.profile_cores": str(profile.cores),
        "ro.lever.ram_mb": str(profile.ram_mb),
        "sys.boot_completed": "1",
        ADBD_PID: "2",
    }
