"""Which waiting trial goes to which free phone now. Pure: told the time, the phones and what runs.

For every free phone: the sweep whose turn it is; of its trials those bound to the phone, which nobody else can run,
before those that others can; among these, models that the phone has before models that would have to be pushed, and
near the end the longest first (Graham's LPT rule, 1969). A trial that cannot start holds up nobody behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.entities import Device
from orchestrator.scheduling.floor import Floor, Running
from orchestrator.scheduling.lane import Lane, LaneKey
from orchestrator.scheduling.pushing import Pushing
from orchestrator.scheduling.queue import Queue
from orchestrator.scheduling.waiting import Waiting

NEAR_END = 3.0  # when each phone has so many of the longest trial's lengths left, the longest go first

_Lanes = Sequence[tuple[LaneKey, Lane]]


class Scheduler:
    """Keeps what is only known over time: where models are, whose turn was last, which sweeps near their end."""

    def __init__(self, queue: Queue | None = None) -> None:
        self.queue = Queue() if queue is None else queue
        self.pushing = Pushing()
        self._turns: dict[str, int] = {}  # sweep → when it last had its turn, counted
        self._turn = 0
        self._ending: dict[str, float] = {}  # sweep → its shared work when its end began, seconds

    def assign(self, floor: Floor, now: float) -> list[tuple[Waiting, Device]]:
        """Trials to start: they leave the queue and occupy the floor. `now`: seconds of any clock that only grows."""
        self.queue.look_at(floor.devices)
        self.pushing.look()
        started = []
        for phone in self._in_turn(floor, now):
            if (trial := self._offer(phone, floor, now)) is None:
                continue
            self.queue.discard(trial.trial_id)
            floor.occupy(Running(phone.name, trial.alone, trial.sweep))
            self._turn += 1
            self._turns[trial.sweep] = self._turn
            self.pushing.busy(phone.name)
            started.append((trial, phone))
        return started

    def _in_turn(self, floor: Floor, now: float) -> list[Device]:
        """Free phones by name; those that share their host last, in the order of what they would run."""
        phones = [floor.devices[name] for name in sorted(self.queue.wanted(floor.free))]
        sharing = [(p, o) for p in phones if p.simulated and (o := self._offer(p, floor, now))]

        def key(offer: tuple[Device, Waiting]) -> tuple[int, int, int, tuple[int, int, int], int]:
            trial = offer[1]
            turn = self._turns.get(trial.sweep, 0)
            return -trial.priority, floor.shares[trial.sweep], turn, trial.rank, trial.number

        return [p for p in phones if not p.simulated] + [p for p, _ in sorted(sharing, key=key)]

    def _offer(self, phone: Device, floor: Floor, now: float) -> Waiting | None:
        """The phone's best trial: of the sweep with the highest priority, then with the fewest phones. A phone that
        has more to do alone than its share of everything does that first."""
        tops = self.queue.priorities()
        critical = self.queue.bound_s.get(phone.name, 0.0) * len(floor.usable) > self.queue.work_s

        def key(sweep: str) -> tuple[int, bool, int, int]:
            first = critical and bool(self.queue.bound(sweep, phone.name))
            return -tops[sweep], not first, floor.shares[sweep], self._turns.get(sweep, 0)

        offers = (self._pick(sweep, phone, floor, now) for sweep in sorted(tops, key=key))
        return next((trial for trial in offers if trial), None)

    def _pick(self, sweep: str, phone: Device, floor: Floor, now: float) -> Waiting | None:
        own = [v for k, v in self.queue.bound(sweep, phone.name).items() if not floor.host_obstacle(phone, k.alone)]
        if own:
            return _first(own)
        lanes = [(k, v) for k, v in self.queue.shared(sweep, phone.name) if self._fits(k, phone, floor)]
        ready = [(k, v) for k, v in lanes if not self.pushing.needed(k.pair, phone.name)] or [
            (k, v) for k, v in lanes if self.pushing.pays(k, v, self.queue.selected(k.phones), floor, phone.name, now)
        ]
        if not ready:
            return None
        return self._longest(sweep, lanes, ready, floor) or _first([v for _, v in ready])

    def _longest(self, sweep: str, lanes: _Lanes, ready: _Lanes, floor: Floor) -> Waiting | None:
        """The longest trial once the end is near, and then until the last: the short ones fill the gaps."""
        work_s = sum(v.work_s for _, v in lanes)
        phones = max(len(floor.able(self.queue.selected(k.phones))) for k, _ in lanes)
        longest, length_s = max((v.longest() for _, v in ready), key=lambda found: found[1])
        if work_s <= NEAR_END * length_s * phones:
            self._ending.setdefault(sweep, work_s)
        if work_s > self._ending.get(sweep, 0.0):  # not near, or it has grown since
            self._ending.pop(sweep, None)
            return None
        return longest

    def _fits(self, key: LaneKey, phone: Device, floor: Floor) -> bool:
        """A phone where it failed comes last: only when no other is left that could run it."""
        if floor.host_obstacle(phone, key.alone):
            return False
        return phone.name not in key.avoid or not floor.able(self.queue.selected(key.phones)) - key.avoid


def _first(lanes: Sequence[Lane]) -> Waiting:
    return min((lane.first() for lane in lanes), key=lambda t: (-t.priority, t.rank, t.number))
