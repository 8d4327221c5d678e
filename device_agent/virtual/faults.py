"""What a test or a person can do to a phone over its control socket (`lever phones fault NAME FAULT …`).

A fault is one word and perhaps a number. Lasting ones hold until `clear`, or until their opposite.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from device_agent.virtual.answers import Answer, Answers
from device_agent.virtual.auth import Access, Policy
from device_agent.virtual.fault_list import FAULTS
from device_agent.virtual.link import Link
from device_agent.virtual.listener import Listener
from device_agent.virtual.processes import Member, Processes

_JOB_PIDS = "data/local/tmp/*/jobs/*/pid"
_OTHER_SERIAL = "VPIMPOSTOR"


@dataclass
class Faults:
    listener: Listener
    link: Link
    access: Access
    processes: Processes
    answers: Answers
    restart: Callable[[float, bool], None]  # seconds away, whether the whole phone restarts rather than adbd alone
    active: dict[str, str] = field(default_factory=dict)  # lasting fault → its number

    def __post_init__(self) -> None:
        self._policy, self._serial = self.access.policy, self.answers.properties["ro.serialno"]

    def commands(self) -> dict[str, Callable[[list[str]], Answer]]:
        faults = {name: self._command(name) for name in FAULTS}
        return {**faults, "authorize": self._authorize, "clear": self._clear, "active": self._tell_active}

    def _command(self, name: str) -> Callable[[list[str]], Answer]:
        fault, act = FAULTS[name], getattr(self, "_" + name.replace("-", "_"))

        def command(words: list[str]) -> Answer:
            try:
                number = float(words[0]) if words else fault.default
            except ValueError:
                number = None if fault.number else 0.0
            if len(words) > (1 if fault.number else 0) or number is None or not 0 <= number < 1e9:
                takes = fault.number or "nothing"
                return 2, f"{name} takes {takes}, got {' '.join(words) or 'nothing'}\n"
            answer: Answer | None = act(number)
            if answer is None and fault.lasts:
                self.active[name] = f"{number:g}" if fault.number else ""
            return answer or (0, "")

        return command

    # --- the cable
    def _cut(self, _: float) -> None:
        self.listener.cut()

    def _offline(self, seconds: float) -> None:
        self.listener.go_offline(seconds)

    def _stall(self, _: float) -> None:
        self.link.stall()

    def _slow(self, kb_per_s: float) -> None:
        self.link.slow_down(max(1.0, kb_per_s) * 1000)

    def _garbage(self, _: float) -> None:
        self.link.garbage = True
        self.listener.babble()

    def _lose_ends(self, commands: float) -> None:
        self.link.lost_ends += int(commands)

    def _unauthorized(self, _: float) -> None:
        self.access.policy = Policy.ASK
        self.access.revoke_all()
        self.listener.cut()

    def _authorize(self, _: list[str]) -> Answer:
        """Allow the keys that wait, and from now on every key that is offered."""
        self.active.pop("unauthorized", None)
        self.access.policy = Policy.ACCEPT
        self.listener.allow_offered_keys()
        return 0, ""

    # --- its processes
    def _kill_agent(self, _: float) -> Answer | None:
        return self._kill(lambda member, leaders: member.pid not in leaders)

    def _vanish_agent(self, _: float) -> Answer | None:
        return self._kill(lambda _member, _leaders: True)

    def _oom_kill(self, _: float) -> Answer | None:
        if (answer := self._kill_agent(0)) is None:
            self.answers.nodes.oom_kills += 1
            self.answers.nodes.refresh()
        return answer

    def _restart_adbd(self, seconds: float) -> None:
        self.restart(seconds, False)

    def _reboot(self, seconds: float) -> None:
        self.restart(seconds, True)

    def _kill(self, chosen: Callable[[Member, set[int]], bool]) -> Answer | None:
        """Members of jobs' sessions. Their leader is the shell that would write down how the agent ended."""
        leaders = {pid for file in self.answers.storage.root.glob(_JOB_PIDS) if (pid := _number(file))}
        victims = [m.pid for m in self.processes.family() if m.session in leaders and chosen(m, leaders)]
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return None if victims else (1, "no agent runs on this phone\n")

    # --- its storage
    def _disk_full(self, _: float) -> None:
        self.answers.storage.full = True
        self._impose_storage()

    def _read_only(self, _: float) -> None:
        self.answers.storage.read_only = True

    def _impose_storage(self) -> None:
        self.answers.storage.impose_on([member.pid for member in self.processes.family()])

    # --- heat, battery, identity
    def _hot(self, celsius: float) -> None:
        self.answers.battery.body.pinned_c = celsius

    def _low_battery(self, percent: float) -> None:
        self.answers.battery.pinned_level = min(100, int(percent))

    def _charging(self, _: float) -> None:
        self.answers.battery.plugged = True

    def _faked_battery(self, percent: float) -> None:
        self.answers.battery.command(["set", "level", str(int(percent))])

    def _faked_thermal(self, status: float) -> None:
        self.answers.thermal.override = int(status)

    def _denied_gauge(self, _: float) -> None:
        self.answers.nodes.denied = {"current_now", "voltage_now"}

    def _wrong_serial(self, _: float) -> None:
        """Another phone took its place: connections to the one before are gone."""
        self.answers.properties["ro.serialno"] = _OTHER_SERIAL
        self.listener.cut()

    # --- and back
    def _clear(self, _: list[str]) -> Answer:
        """Everything as it was made; what was killed or lost stays so."""
        answers = self.answers
        self.link.mend()
        self.listener.come_back()
        self.access.policy = self._policy
        self.listener.allow_offered_keys()
        answers.storage.full = answers.storage.read_only = False
        self._impose_storage()
        answers.battery.body.pinned_c = answers.battery.pinned_level = answers.thermal.override = None
        answers.battery.plugged = False
        answers.battery.command(["reset"])
        answers.nodes.denied = set()
        answers.properties["ro.serialno"] = self._serial
        self.active.clear()
        return 0, ""

    def _tell_active(self, _: list[str]) -> Answer:
        """JSON: lasting fault → its number."""
        return 0, json.dumps(self.active)


def _number(file: Path) -> int:
    """0 for what is none, or gone."""
    with suppress(OSError, ValueError):
        return int(file.read_text())
    return 0
