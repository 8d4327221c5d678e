"""Looking for a baseline's best setting: measurements are dear, so few of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def best_of(candidates: Iterable[T], measure: Callable[[T], float]) -> tuple[T, dict[T, float]]:
    """The candidate with the least measure (the first of equals), and all measures."""
    found = {candidate: measure(candidate) for candidate in candidates}
    return min(found, key=lambda candidate: found[candidate]), found


def coarse_to_fine(
    low: int, high: int, step: int, fine: bool, measure: Callable[[int], float]
) -> tuple[int, dict[int, float]]:
    """The whole number in low..high with the least measure, if that has one valley; and all measures.

    A grid of `step` first; if `fine`, halved steps around the best so far then, each number once.
    """
    best, found = best_of(coarse(low, high, step), measure)
    while fine and step > 1:
        step = (step + 1) // 2
        near = [k for k in (best - step, best + step) if low <= k <= high and k not in found]
        found |= {k: measure(k) for k in near}
        best = min(found, key=lambda k: (found[k], k))
    return best, found


def coarse(low: int, high: int, step: int) -> list[int]:
    """Every `step`-th number, beginning so that the grid lies in the middle of the range."""
    start = low + (high - low) % step // 2 if step > 1 else low
    return list(range(start, high + 1, step))
