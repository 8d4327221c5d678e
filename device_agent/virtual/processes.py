"""Every process of one phone: the shells that we start and whatever they leave behind.

The phone is a subreaper (prctl(2)), so that detached jobs stay in its family: their CPU time counts for the battery
and all of them end with the phone.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_BLOCK_BYTES = 512  # unit of ru_inblock
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    cpu_s: float
    read_bytes: int  # from the disk


@dataclass(frozen=True)
class Child:
    pid: int  # leader of its own session and process group
    exit_code: asyncio.Future[int]  # 128 + signal when it was killed


@dataclass(frozen=True)
class Member:
    """A living process of the phone's."""

    pid: int
    session: int
    cpu_s: float  # its own and that of its children that have ended


class Processes:
    def __init__(self) -> None:
        self._running: dict[int, asyncio.Future[int]] = {}
        self._ended = Usage(0.0, 0)
        self._started = asyncio.Event()

    def start(self) -> None:
        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def spawn(self, argv: list[str], env: Mapping[str, str], stdin: int, stdout: int, stderr: int) -> Child:
        """Start argv[0] (a path) in a session of its own, in our working folder; the descriptors stay the caller's."""
        actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate((stdin, stdout, stderr))]
        # Python ignores SIGPIPE, and children would inherit that
        defaults = [signal.SIGPIPE]
        pid = os.posix_spawn(argv[0], argv, env, file_actions=actions, setsid=True, setsigdef=defaults)
        child = Child(pid, asyncio.get_running_loop().create_future())
        self._running[pid] = child.exit_code
        self._started.set()
        return child

    async def wait_for_any(self) -> None:
        """Returns at once while a process lives, shells and detached jobs alike."""
        while not self.family():
            self._started.clear()
            await self._started.wait()

    def usage(self) -> Usage:
        """Of all processes since the start, those that have ended and those that live."""
        family = self.family()
        cpu_s = self._ended.cpu_s + sum(member.cpu_s for member in family)
        return Usage(cpu_s, self._ended.read_bytes + sum(_read_bytes(member.pid) for member in family))

    def family(self) -> list[Member]:
        return _descendants(os.getpid())

    def hang_up(self, child: Child) -> None:
        """What closing a terminal does: SIGHUP to the shell and to everything still in its group."""
        if child.pid in self._running:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGHUP)

    def end_all(self, patience_s: float = 5.0) -> None:
        """Kill the whole family, detached jobs too; returns when none is left or patience is."""
        deadline = time.monotonic() + patience_s
        while (family := self.family()) and time.monotonic() < deadline:
            for member in family:
                with suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGKILL)
            self._reap()
            time.sleep(0.005)  # a killed grandchild becomes ours only when its parent is gone

    def _reap(self) -> None:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            self._bury(ended.si_pid)

    def _bury(self, pid: int) -> None:
        if pid in self._running:
            # Its group lost its leader: hung up as by a closing terminal, and before the pid can be used again.
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGHUP)
        _, status, usage = os.wait4(pid, 0)
        cpu_s = self._ended.cpu_s + usage.ru_utime + usage.ru_stime
        self._ended = Usage(cpu_s, self._ended.read_bytes + usage.ru_inblock * _BLOCK_BYTES)
        code = os.waitstatus_to_exitcode(status)
        future = self._running.pop(pid, None)
        if future is not None and not future.done():
            future.set_result(code if code >= 0 else 128 - code)


def _descendants(root: int) -> list[Member]:
    """Without those below a zombie: they are given to us when it is buried."""
    found: list[Member] = []
    open_list = _children(root)
    while open_list:
        pid = open_list.pop()
        with suppress(OSError):
            # "pid (name) state ppid group session …", and the name may hold anything
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
            found.append(Member(pid, int(fields[3]), sum(map(int, fields[11:15])) / _TICKS_PER_S))
            open_list += _children(pid)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, file.read_text().split())
    return found


def _read_bytes(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/io").read_text().splitlines():
            if line.startswith("read_bytes:"):
                return int(line.split()[1])
    return 0
