"""Why trials wait, in words for a person. Pure."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from orchestrator.scheduling.floor import Floor
from orchestrator.scheduling.lane import LaneKey
from orchestrator.scheduling.queue import Queue

EXPLAINED = 200  # oldest waiting trials that get a reason; those behind wait for their turn


def changed_reasons(queue: Queue, floor: Floor) -> dict[str, str]:
    """New reasons by trial id, of those that the registry does not have yet."""
    found: dict[LaneKey, str] = {}
    changed = {}
    for trial in islice(queue.trials.values(), EXPLAINED):
        key = LaneKey.of(trial)
        if key not in found:
            found[key] = _reason(key, queue, floor)
        if found[key] != trial.reason:
            changed[trial.trial_id] = found[key]
    return changed


def _reason(key: LaneKey, queue: Queue, floor: Floor) -> str:
    if key.device is not None:
        phone = floor.devices.get(key.device)
        return floor.obstacle(phone, key.alone) if phone else f"phone {key.device} is not registered"
    phones = [floor.devices[name] for name in sorted(queue.selected(key.phones))]
    if not phones:
        return f"no phone matches phones={key.phones}"
    obstacles = [floor.obstacle(phone, key.alone) for phone in phones]
    if not all(obstacles):
        return f"for a phone that has the models of {key.pair}" if key.pair else "for its turn"
    if len(obstacles) == 1:
        return obstacles[0]
    common, count = Counter(map(_kind, obstacles)).most_common(1)[0]
    if count == len(obstacles):
        return common if common.startswith("another") else f"all {count} phones are {common}"
    return f"none of {len(obstacles)} phones is free: {'; '.join(obstacles[:3])}"


def _kind(obstacle: str) -> str:
    """`busy`, `offline`, …, or the whole of a reason about the host."""
    if obstacle.startswith("phone "):
        return obstacle.split(" is ", 1)[1].split(":", 1)[0]
    return obstacle
