"""How long what waits will take, from how long its like took before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.entities import Device, Trial, TrialState
from orchestrator.registry.contract import Registry
from orchestrator.scheduling.durations import REMEMBERED, Durations, Kind
from orchestrator.scheduling.makespan import Work, expected_s
from orchestrator.scheduling.selector import candidates
from orchestrator.scheduling.waiting import alone

OPEN = (TrialState.WAITING, TrialState.RUNNING)


@dataclass(frozen=True)
class Planned:
    """A trial that is to run: `device` None: on one of those that `phones` selects."""

    kind: Kind
    device: str | None
    phones: str
    alone: bool


@dataclass(frozen=True)
class Forecast:
    """`seconds` until the last one ends, None when nothing is known; `unknown` trials are not in it."""

    seconds: float | None
    unknown: int = 0

    def __str__(self) -> str:
        """`about 1.5 h`, `about 40 min`; what is not known is said."""
        if self.seconds is None:
            return "not known: nothing like it ever ran here"
        hours = f"about {self.seconds / 3600:.1f} h" if self.seconds >= 3600 else f"about {self.seconds / 60:.0f} min"
        if self.seconds < 60:
            hours = "less than a minute"
        return f"{hours}, without {self.unknown} trials of unknown length" if self.unknown else hours


def durations(registry: Registry) -> Durations:
    found = Durations()
    for labels, device, wall_s in registry.lasted(REMEMBERED):
        found.observe(Kind.of(labels), device, wall_s)
    return found


def planned(trials: Iterable[Trial]) -> list[Planned]:
    """Those that have not ended; one that runs counts whole, for nobody knows how far it is."""
    return [of_spec(t.spec.labels, t.spec.device, t.spec.config) for t in trials if t.state in OPEN]


def of_spec(labels: dict[str, str], device: str | None, config: dict[str, object]) -> Planned:
    return Planned(Kind.of(labels), device, str(config.get("phones", "any")), alone(config))


def forecast(trials: Sequence[Planned], devices: Sequence[Device], known: Durations) -> Forecast:
    work: dict[tuple[frozenset[str], bool], float] = defaultdict(float)
    unknown = 0
    selected: dict[str, frozenset[str]] = {}
    for one in trials:
        seconds = known.estimate_s(one.kind, one.device or "")
        if seconds is None:
            unknown += 1
            continue
        if one.phones not in selected:
            selected[one.phones] = frozenset(d.name for d in candidates(devices, one.phones))
        work[frozenset([one.device]) if one.device else selected[one.phones], one.alone] += seconds
    if trials and unknown == len(trials):
        return Forecast(None, unknown)
    return Forecast(expected_s([Work(s, phones, alone) for (phones, alone), s in work.items()], devices), unknown)
