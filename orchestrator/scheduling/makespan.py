"""When the work will be done: an estimate for people, and the bound that no schedule beats. Pure."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.entities import Device, DeviceState

GONE = (DeviceState.RETIRED, DeviceState.QUARANTINED)


@dataclass(frozen=True)
class Work:
    """Trials that wait or run: `seconds` in all, on these phones; `alone` on a virtual phone means one at a time on its
    whole host."""

    seconds: float
    phones: frozenset[str]
    alone: bool = False


def expected_s(work: Iterable[Work], devices: Sequence[Device]) -> float:
    """Spread what several phones may run over the least busy of them, those with the least choice first. Work without
    any phone is left out."""
    by_name = {d.name: d for d in devices if d.state not in GONE}
    loads: dict[str, float] = defaultdict(float)
    for one in sorted(work, key=lambda w: len(w.phones)):
        machines = sorted({_machine(by_name[name], one.alone) for name in one.phones if name in by_name})
        if machines:
            _pour(loads, machines, one.seconds)
    return max(loads.values(), default=0.0)


def _machine(device: Device, alone: bool) -> str:
    return f"host {device.host}" if alone and device.simulated else f"phone {device.name}"


def _pour(loads: dict[str, float], machines: Sequence[str], seconds: float) -> None:
    """Raise the lowest until all is spread."""
    heap = [(loads[m], m) for m in machines]
    heapq.heapify(heap)
    filled: list[str] = []
    level = heap[0][0]
    while heap and seconds > 0:
        level, machine = heapq.heappop(heap)
        filled.append(machine)
        room = (heap[0][0] - level) * len(filled) if heap else seconds
        step = min(room, seconds)
        level, seconds = level + step / len(filled), seconds - step
    for machine in filled:
        loads[machine] = max(loads[machine], level)


def lower_bound_s(work: Mapping[frozenset[str], float], longest: float) -> float:
    """No schedule ends sooner: `work` holds the seconds that each set of phones has to share; `longest` is the longest
    trial. The bound is the largest of: the longest, and for each union of nested sets its work over its phones."""
    bounds = [longest]
    for phones in set(work) | {frozenset().union(*work)}:
        within = sum(seconds for other, seconds in work.items() if other <= phones)
        bounds.append(within / max(1, len(phones)))
    return max(bounds)
