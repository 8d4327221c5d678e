"""Debian 13's real adbd as a phone: the second ground truth beside the virtual phone. Needs root and apt."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

_SCRIPTS = Path(__file__).parents[1] / "debian_adbd"
_KEPT = Path(__file__).parents[2] / ".lever" / "debian-adbd"
_DEADLINE_S = 20
_SHELL_UID = 2000


@dataclass
class DebianAdbd:
    root: Path  # what its /data lies in, seen from the host
    process: psutil.Process  # adbd itself
    starter: psutil.Popen
    endpoint: str  # HOST:PORT
    model: str = "Debian13"

    def path(self, remote: str) -> Path:
        """Where a path of the phone lies on the host."""
        return self.root / remote.lstrip("/")

    def stop(self) -> None:
        """SIGKILL: it is process 1 of its namespace, so all that it started goes with it."""
        with suppress(psutil.NoSuchProcess):
            self.process.kill()
        self.starter.wait(_DEADLINE_S)


def debian_tools() -> Path:
    """Folder with `root` and `adb` (tests/debian_adbd/fetch.sh), fetched when they are not there.

    Skips where it cannot run, but never in CI."""
    if os.geteuid() or not shutil.which("unshare"):
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Debian's adbd runs in namespaces: needs root, unshare")
    subprocess.run([_SCRIPTS / "fetch.sh", _KEPT], check=True)
    return _KEPT


def start_adbd(root: Path, address: str = "127.0.0.1") -> DebianAdbd:
    """Start adbd with its /data in `root` and wait until it listens; the caller stops it."""
    home = root / "data" / "local" / "tmp"
    home.mkdir(parents=True)
    for folder in (root, root / "data", home.parent, home):
        os.chown(folder, _SHELL_UID, _SHELL_UID)
    port = _free_port(address)
    words = [str(word) for word in (_SCRIPTS / "run.sh", debian_tools() / "root", root / "data", address, port)]
    with (root / "log").open("w") as log:
        starter = psutil.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    _await_port(starter, address, port)
    return DebianAdbd(root, starter.children()[0], starter, f"{address}:{port}")


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _await_port(starter: psutil.Popen, address: str, port: int) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        assert starter.poll() is None, f"adbd's starter ended with {starter.returncode}"
        assert time.monotonic() < deadline, f"adbd does not listen at {address}:{port}"
        try:
            socket.create_connection((address, port), timeout=1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
