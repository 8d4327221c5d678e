"""Which waiting trial goes to which free phone now, and why the others wait. Pure: no clock, no registry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.entities import Device, DeviceState, Trial
from orchestrator.errors import ConfigError
from orchestrator.scheduling.selector import select


@dataclass(frozen=True)
class Occupied:
    """A running attempt: on which phone, and whether it wants the phone's host for itself."""

    device: str
    exclusive: bool


@dataclass(frozen=True)
class Plan:
    start: list[tuple[Trial, Device]] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)  # of every trial that goes on waiting, by id


def choose(
    waiting: Sequence[Trial],
    devices: Sequence[Device],
    running: Sequence[Occupied],
    avoid: Mapping[str, frozenset[str]],
) -> Plan:
    """Give each trial, oldest first, a free phone that it may run on. A trial that cannot run now holds up nobody
    behind it. `avoid`: phones on which a trial failed; they come last. A trial bound to no phone leaves alone, while
    it has a choice, the phones that more others are bound to."""
    floor = _Floor(devices, running)
    bound = Counter(t.spec.device for t in waiting)
    plan = Plan()
    for trial in waiting:
        candidates = candidates_of(trial, devices)
        free = [d for d in candidates if not floor.obstacle(d, exclusive(trial))]
        if not free:
            plan.reasons[trial.spec.trial_id] = _reason(trial, candidates, floor)
            continue
        shunned = avoid.get(trial.spec.trial_id, frozenset())
        phone = min(free, key=lambda d: (d.name in shunned, bound[d.name], d.name))
        floor.occupy(phone, exclusive(trial))
        plan.start.append((trial, phone))
    return plan


def exclusive(trial: Trial) -> bool:
    """Whether its figures need the host's cores and disk: `schedule.exclusive_host`, on unless switched off."""
    return bool(trial.spec.config.get("schedule", {}).get("exclusive_host", True))


def candidates_of(trial: Trial, devices: Sequence[Device]) -> list[Device]:
    """Phones that the trial may ever run on, as far as they are registered now."""
    if trial.spec.device is not None:
        return [d for d in devices if d.name == trial.spec.device]
    try:
        return select(devices, str(trial.spec.config.get("phones", "any")))
    except ConfigError:
        return []  # what it selected is gone: it waits, and says so


class _Floor:
    """Who is where while the plan grows. Only virtual phones share their host's cores and disk."""

    def __init__(self, devices: Sequence[Device], running: Sequence[Occupied]) -> None:
        by_name = {d.name: d for d in devices}
        self._taken: set[str] = set()
        self._hosts: dict[str, bool] = {}  # hosts at work → whether exclusively
        for attempt in running:
            self._taken.add(attempt.device)
            if phone := by_name.get(attempt.device):
                self._use_host(phone, attempt.exclusive)

    def occupy(self, phone: Device, alone: bool) -> None:
        self._taken.add(phone.name)
        self._use_host(phone, alone)

    def _use_host(self, phone: Device, alone: bool) -> None:
        if phone.simulated:
            self._hosts[phone.host] = self._hosts.get(phone.host, False) or alone

    def obstacle(self, phone: Device, alone: bool) -> str:
        """Why nothing can start on this phone now; empty when it can."""
        if phone.state is DeviceState.BUSY or phone.name in self._taken:
            return f"phone {phone.name} is busy"
        if phone.state is not DeviceState.READY:
            detail = f": {phone.state_reason}" if phone.state_reason else ""
            return f"phone {phone.name} is {phone.state.value}{detail}"
        if phone.simulated and phone.host in self._hosts and (alone or self._hosts[phone.host]):
            return f"another timed run on host {phone.host}"
        return ""


def _reason(trial: Trial, candidates: Sequence[Device], floor: _Floor) -> str:
    if trial.spec.device is not None and not candidates:
        return f"phone {trial.spec.device} is not registered"
    if not candidates:
        return f"no phone matches phones={trial.spec.config.get('phones', 'any')}"
    obstacles = [floor.obstacle(d, exclusive(trial)) for d in candidates]
    if len(obstacles) == 1:
        return obstacles[0]
    common, count = Counter(_kind(o) for o in obstacles).most_common(1)[0]
    if count == len(obstacles):
        return common if common.startswith("another") else f"all {count} phones are {common}"
    return f"none of {len(candidates)} phones is free: {'; '.join(obstacles[:3])}"


def _kind(obstacle: str) -> str:
    """`busy`, `offline`, …, or the whole of a reason about the host."""
    if obstacle.startswith("phone "):
        return obstacle.split(" is ", 1)[1].split(":", 1)[0]
    return obstacle
