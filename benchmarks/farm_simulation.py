"""A discrete-event simulation of a farm: what the scheduler's choices come to, with no phone and no clock.

Trials' lengths are log-normal (median 120 s, σ = 0.5); what the scheduler believes of them is off by up to 30 %.
"""

from __future__ import annotations

import heapq
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.entities import Device
from orchestrator.scheduling.choose import Scheduler
from orchestrator.scheduling.durations import Durations, Kind
from orchestrator.scheduling.floor import Floor
from orchestrator.scheduling.makespan import lower_bound_s
from orchestrator.scheduling.pushing import PUSH_MB_S
from orchestrator.scheduling.queue import Queue
from orchestrator.scheduling.waiting import Waiting

MEDIAN_S, SIGMA, ERROR = 120.0, 0.5, 0.3


@dataclass(frozen=True)
class Scenario:
    phones: int
    trials: int
    seed: int = 0
    bound: float = 0.0  # share of trials that only one phone may run
    picky: float = 0.0  # share that only a quarter of the phones, one SoC, may run
    pairs: int = 1
    push_mb: float = 0.0  # of a pair's models
    sweeps: int = 1


@dataclass
class Simulated:
    makespan_over_bound: float = 0.0
    decision_s: list[float] = field(default_factory=list)  # one look that started something, per trial started
    ran: dict[str, int] = field(default_factory=dict)  # trial → how often
    pushes: int = 0


class Guesses(Durations):
    """Estimates given in advance, by trial."""

    def __init__(self, seconds: dict[str, float]) -> None:
        super().__init__()
        self._seconds = seconds

    def estimate_s(self, kind: Kind, phone: str = "") -> float | None:  # noqa: ARG002  # an estimator that knows no phones
        return self._seconds[kind.config]


def simulate(of: Scenario) -> Simulated:
    dice = random.Random(of.seed)
    phones = [_phone(i) for i in range(of.phones)]
    lengths = {f"t{i}": MEDIAN_S * math.exp(dice.gauss(0, SIGMA)) for i in range(of.trials)}
    guesses = {name: s * dice.uniform(1 - ERROR, 1 + ERROR) for name, s in lengths.items()}
    trials = [_trial(of, dice, i) for i in range(of.trials)]
    scheduler = Scheduler(Queue(Guesses(guesses)))
    for trial in trials:
        scheduler.queue.add(trial)
    found = Simulated()
    makespan_s = _run(scheduler, Floor(phones), lengths, found)
    found.makespan_over_bound = makespan_s / _bound_s(trials, phones, lengths)
    return found


def _run(scheduler: Scheduler, floor: Floor, lengths: dict[str, float], found: Simulated) -> float:
    """Seconds until the last trial ended."""
    now, ends, models = 0.0, list[tuple[float, str]](), set[tuple[str, str]]()
    while True:
        began = time.perf_counter()
        started = scheduler.assign(floor, now)
        if started:
            found.decision_s.append((time.perf_counter() - began) / len(started))
        for trial, phone in started:
            push_s = 0.0
            if trial.pair and (phone.name, trial.pair) not in models:
                models.add((phone.name, trial.pair))
                scheduler.pushing.note(phone.name, trial.pair)
                push_s, found.pushes = trial.push_mb / PUSH_MB_S, found.pushes + 1
            found.ran[trial.trial_id] = found.ran.get(trial.trial_id, 0) + 1
            heapq.heappush(ends, (now + push_s + lengths[trial.trial_id], phone.name))
        if not ends:
            return now
        now, name = heapq.heappop(ends)
        floor.leave(name)


def _bound_s(trials: Sequence[Waiting], phones: Sequence[Device], lengths: dict[str, float]) -> float:
    """Without pushes: they only make it harder."""
    queue, work = Queue(), dict[frozenset[str], float]()
    queue.look_at({p.name: p for p in phones})
    for trial in trials:
        where = frozenset([trial.device]) if trial.device else queue.selected(trial.phones)
        work[where] = work.get(where, 0.0) + lengths[trial.trial_id]
    return lower_bound_s(work, max(lengths.values()))


def _phone(number: int) -> Device:
    name = f"p{number:04}"
    return Device(name, "tcp:127.0.0.1:1", "usb", "host", name, "/", facts={"soc": f"soc{number % 4}"})


def _trial(of: Scenario, dice: random.Random, number: int) -> Waiting:
    which = dice.random()
    device = f"p{dice.randrange(of.phones):04}" if which < of.bound else None
    return Waiting(
        trial_id=f"t{number}",
        number=number,
        sweep=f"s{number % of.sweeps}",
        device=device,
        phones=f"any:soc:soc{number % 4}" if of.bound <= which < of.bound + of.picky else "any",
        pair=f"m{dice.randrange(of.pairs)}" if of.push_mb else "",
        kind=Kind(config=f"t{number}"),
        order="random",
        push_mb=of.push_mb,
    )
