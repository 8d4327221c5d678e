"""Who is where: which phones and hosts are at work, and what keeps a trial from starting on a phone. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.entities import Device, DeviceState

AT_WORK = (DeviceState.READY, DeviceState.BUSY)


@dataclass(frozen=True)
class Running:
    """An attempt that runs: on which phone, whether it wants the phone's host for itself, for which sweep."""

    device: str
    alone: bool
    sweep: str = ""


class Floor:
    """Changes as trials come and go. Only virtual phones share their host's cores and disk."""

    def __init__(self, devices: Sequence[Device], running: Iterable[Running] = ()) -> None:
        self.devices = {d.name: d for d in devices}
        self.usable = frozenset(d.name for d in devices if d.state in AT_WORK)  # take their turns without help
        self.free = {d.name for d in devices if d.state is DeviceState.READY}  # something could start there
        self.shares: Counter[str] = Counter()  # attempts that run, by sweep
        self._running: dict[str, Running] = {}
        self._able: dict[frozenset[str], frozenset[str]] = {}
        self._hosts: dict[str, Counter[bool]] = {}  # host → attempts on its virtual phones, by whether they are alone
        for attempt in running:
            self.occupy(attempt)

    def occupy(self, attempt: Running) -> None:
        self._running[attempt.device] = attempt
        self.free.discard(attempt.device)
        self.shares[attempt.sweep] += 1
        if (phone := self.devices.get(attempt.device)) and phone.simulated:
            self._hosts.setdefault(phone.host, Counter())[attempt.alone] += 1

    def leave(self, device: str) -> None:
        """The phone's attempt ended."""
        attempt = self._running.pop(device)
        self.shares[attempt.sweep] -= 1
        phone = self.devices[device]
        if phone.state is DeviceState.READY:
            self.free.add(device)
        if phone.simulated:
            self._hosts[phone.host][attempt.alone] -= 1

    def able(self, phones: frozenset[str]) -> frozenset[str]:
        """Those of the phones that are usable; remembered, for there can be a thousand."""
        if phones not in self._able:
            self._able[phones] = phones & self.usable
        return self._able[phones]

    def obstacle(self, phone: Device, alone: bool) -> str:
        """Why a trial cannot start on this phone now; empty when it can. The host's reason first, which stays the same
        while the host's phones take turns."""
        if phone.state in AT_WORK and (found := self.host_obstacle(phone, alone)):
            return found
        if phone.state is DeviceState.BUSY or phone.name in self._running:
            return f"phone {phone.name} is busy"
        if phone.state is not DeviceState.READY:
            detail = f": {phone.state_reason}" if phone.state_reason else ""
            return f"phone {phone.name} is {phone.state.value}{detail}"
        return ""

    def host_obstacle(self, phone: Device, alone: bool) -> str:
        at_work = self._hosts.get(phone.host) if phone.simulated else None
        if at_work and (at_work[True] or (alone and at_work[False])):
            return f"another timed run on host {phone.host}"
        return ""
