"""The order of one interleaved run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def rotated(items: Sequence[T], turn: int) -> list[T]:
    """Each turn begins with the next one, so that no contender is always the first."""
    start = turn % max(1, len(items))
    return [*items[start:], *items[:start]]
