"""Whether models are brought to a phone, or the trial waits for a phone that has them. Pure."""

from __future__ import annotations

from orchestrator.scheduling.floor import Floor
from orchestrator.scheduling.lane import Lane, LaneKey

PUSH_MB_S = 30.0  # USB 2, and Wi-Fi on a good day


class Pushing:
    """Knows which phones have which models, and since when a phone has been idle for want of a trial that needs no
    push."""

    def __init__(self) -> None:
        self._holders: dict[str, set[str]] = {}  # pair → phones that have its models
        self._idle_since: dict[str, float] = {}
        self._waits: dict[LaneKey, float] = {}  # of this look: how long a phone waits before it pushes

    def note(self, phone: str, pair: str) -> None:
        self._holders.setdefault(pair, set()).add(phone)

    def needed(self, pair: str, phone: str) -> bool:
        return bool(pair) and phone not in self._holders.get(pair, ())

    def look(self) -> None:
        """A new look at the farm begins."""
        self._waits.clear()

    def busy(self, phone: str) -> None:
        self._idle_since.pop(phone, None)

    def pays(self, key: LaneKey, lane: Lane, phones: frozenset[str], floor: Floor, phone: str, now: float) -> bool:
        """When those that have the models have more to do than a push takes; or after waiting as long as one takes (ski
        rental: never more than twice the best)."""
        if key not in self._waits:
            self._waits[key] = self._wait_s(key, lane, phones, floor)
        wait_s = self._waits[key]
        return wait_s <= 0 or now - self._idle_since.setdefault(phone, now) >= wait_s

    def _wait_s(self, key: LaneKey, lane: Lane, phones: frozenset[str], floor: Floor) -> float:
        holders = floor.able(phones) & self._holders.get(key.pair, set()) - key.avoid
        push_s = lane.first().push_mb / PUSH_MB_S
        return 0.0 if not holders or lane.work_s / len(holders) > push_s else push_s
