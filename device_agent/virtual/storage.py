"""The phone's one partition: its size, and the states in which it takes nothing more."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

# In a mount namespace of its own the shell sees the phone's data read-only. $0: the host's mount, which is not on the
# phone's PATH; $1: the folder; then the command.
_READ_ONLY = '"$0" --bind "$1" "$1" && "$0" -o remount,bind,ro "$1" || exit 1; shift; exec "$@"'
_UNLIMITED = resource.RLIM_INFINITY


@dataclass
class Storage:
    root: Path
    size_bytes: int
    full: bool = False
    read_only: bool = False

    def check(self) -> None:
        """Raises OSError when nothing can be written."""
        if self.read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def used_bytes(self) -> int:
        return sum(_file_bytes(Path(folder) / name) for folder, _, names in os.walk(self.root) for name in names)

    def free_bytes(self, used: int) -> int:
        """No more than the host has."""
        return 0 if self.full else max(0, min(self.size_bytes - used, shutil.disk_usage(self.root).free))

    @contextmanager
    def imposed(self) -> Iterator[None]:
        """What is started within can write no file while the partition is full. The kernel then says EFBIG where a full
        disk says ENOSPC: nothing less than a file system of our own could say that."""
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        if self.full:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    def impose_on(self, pids: list[int]) -> None:
        """The same for what runs already, and its end."""
        for pid in pids:
            with suppress(OSError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (0 if self.full else _UNLIMITED, _UNLIMITED))

    def wrapped(self, argv: list[str]) -> list[str]:
        """The command as it has to be started now."""
        unshare, mount = shutil.which("unshare"), shutil.which("mount")
        if not self.read_only or os.getuid() != 0 or not unshare or not mount:
            return argv
        return [unshare, "--mount", "/bin/sh", "-c", _READ_ONLY, mount, str(self.root / "data"), *argv]


def _file_bytes(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0  # gone since
