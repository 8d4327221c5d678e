"""What holds a phone's processes to its cores, memory and flash: cgroups (version 1) where this host permits them, else
CPU affinity, a limit on each process's data, and the agent's own pacing of its reads.

A group is made below the one that we are in, so that whatever limits us still does. Version 2 is not tried: there a
group with processes in it, such as ours, can have no limited groups below it.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_MOUNT = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000


@dataclass
class Limits:
    """How each limit binds, in words; the first word is the mechanism."""

    cores: int  # of the host's, that we get
    how: dict[str, str] = field(default_factory=dict)  # cores, memory, flash, throttling → words
    _groups: dict[str, Path] = field(default_factory=dict)  # controller → our group

    def oom_kills(self) -> int:
        """Processes of this phone that the kernel killed for want of memory."""
        with suppress(KeyError, OSError):
            control = (self._groups["memory"] / "memory.oom_control").read_text()
            return next((int(line.split()[1]) for line in control.splitlines() if line.startswith("oom_kill ")), 0)
        return 0

    def throttle(self, share: float) -> None:
        """Leave so much of the cores' time."""
        if group := self._groups.get("cpu"):
            quota = -1 if share >= 1 else round(share * self.cores * _PERIOD_US)
            with suppress(OSError):
                (group / "cpu.cfs_quota_us").write_text(str(quota))

    def release(self) -> None:
        """Leave our groups and remove them."""
        for group in self._groups.values():
            with suppress(OSError):  # a group in use is found again at the next start
                (group.parent / "cgroup.procs").write_text(str(os.getpid()))
                group.rmdir()
        self._groups.clear()


def bind(name: str, cores: int, ram_mb: int, flash_mb_s: int, root: Path, cgroups: bool = True) -> Limits:
    """Binds this process and all that it starts. `name` is the groups': the same phone finds those it left behind."""
    available = sorted(os.sched_getaffinity(0))[:cores]
    os.sched_setaffinity(0, available)
    limits = Limits(len(available), {"throttling": "stated: clocks are shown lower, nothing runs slower"})
    cpus = ",".join(map(str, available))
    wanted = {
        "cpuset": {"cpuset.mems": _inherited("cpuset", "cpuset.mems"), "cpuset.cpus": cpus},
        "memory": {"memory.limit_in_bytes": str(ram_mb << 20)},
        "blkio": {"blkio.throttle.read_bps_device": f"{_device(root)} {flash_mb_s * 1_000_000}"},
        "cpu": {},
    }
    if cgroups:
        for controller, settings in wanted.items():
            _join(limits, controller, f"lever-{name}", settings)
    return _worded(limits, ram_mb, flash_mb_s)


def _join(limits: Limits, controller: str, name: str, settings: dict[str, str]) -> None:
    """Nothing happens where the host does not permit it."""
    with suppress(OSError):
        parent = _MOUNT / controller / _own_group(controller).lstrip("/")
        if not (parent / "cgroup.procs").exists():
            return
        group = parent / name
        group.mkdir(exist_ok=True)
        try:
            for file, value in settings.items():
                (group / file).write_text(value)
            (group / "cgroup.procs").write_text(str(os.getpid()))
        except OSError:
            group.rmdir()
            raise
        limits._groups[controller] = group


def _worded(limits: Limits, ram_mb: int, flash_mb_s: int) -> Limits:
    joined = limits._groups
    limits.how["cores"] = f"cgroup cpuset: {limits.cores}" if "cpuset" in joined else f"affinity: {limits.cores}"
    limits.how["memory"] = f"cgroup memory: {ram_mb} MiB for all processes"
    if "memory" not in joined:
        resource.setrlimit(resource.RLIMIT_DATA, (ram_mb << 20, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        limits.how["memory"] = f"prlimit data: {ram_mb} MiB for each process"
    limits.how["flash"] = f"cgroup blkio and pacer: {flash_mb_s} MB/s"
    if "blkio" not in joined:
        limits.how["flash"] = f"pacer: the agent holds its own reads to {flash_mb_s} MB/s"
    if "cpu" in joined:
        limits.how["throttling"] = "cgroup cpu: less CPU time when hot"
    return limits


def _own_group(controller: str) -> str:
    """Raises OSError when this host has no such controller."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    raise FileNotFoundError(controller)


def _inherited(controller: str, file: str) -> str:
    with suppress(OSError):
        return (_MOUNT / controller / _own_group(controller).lstrip("/") / file).read_text().strip()
    return ""


def _device(root: Path) -> str:
    """The whole disk that `root` lies on, as major:minor: partitions have no limits of their own."""
    number = root.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    if (device / "partition").exists():
        return (device.parent / "dev").read_text().strip()
    return f"{os.major(number)}:{os.minor(number)}"
