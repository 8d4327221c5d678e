"""Ratios paired by prompt set, and what is said of several: median, least and most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    median: float
    least: float
    most: float
    n: int


def spread_of(values: Sequence[float]) -> Spread | None:
    return Spread(median(values), min(values), max(values), len(values)) if values else None


def paired(above: Mapping[str, float], below: Mapping[str, float]) -> list[float]:
    """above ÷ below for each prompt set that has both."""
    return [above[name] / below[name] for name in above if name in below]


def best_by_set(*contenders: Mapping[str, float]) -> dict[str, float]:
    """The least seconds a token of each prompt set that all contenders have."""
    names = set(contenders[0]).intersection(*contenders[1:])
    return {name: min(times[name] for times in contenders) for name in contenders[0] if name in names}
