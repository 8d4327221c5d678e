"""How long a round lasts when layers stream through a ring: arithmetic, for planner, tree growth and metrics alike.

The flash is one reader. It reads streamed layers in order, a layer as soon as the one before is read and a slot is
free; a slot is free again when its layer was computed. Layers are computed in order, pinned ones without waiting.
Without `prefetch` the reader stops at a round's end and goes on when the next tree is drafted; with it, it goes on
while the projection and the next draft run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

SETTLED = 1e-9  # relative difference between two rounds that counts as none
MAX_ROUNDS = 32


@dataclass(frozen=True)
class Stream:
    """A plan for the target's layers 0..L-1 on a flash of known speed."""

    read_s: tuple[float, ...]  # seconds to read each layer; 0: pinned in DRAM
    slots: int  # layers that the ring holds, at least 1 if anything is streamed
    prefetch: bool = False  # read across rounds


@dataclass(frozen=True)
class RoundCosts:
    """Seconds of computing in one round."""

    compute_s: float  # of one layer, for this tree
    draft_s: float = 0.0
    projection_s: float = 0.0  # and whatever else follows the last layer


class Pipeline:
    """The reader and the kernels on one clock, from an empty ring on, or from what prefetch left in it."""

    def __init__(self, stream: Stream, ring_full: bool = False) -> None:
        self.now_s = 0.0
        self._stream = stream
        since = -stream.slots * max(stream.read_s) if ring_full and stream.prefetch else 0.0
        self._read_s = since  # when the reader finished its last layer
        self._freed = deque([since] * stream.slots, stream.slots)  # when the last `slots` layers were given back

    def round(self, costs: RoundCosts) -> float:
        """Seconds of the next round."""
        started, freed, read = self.now_s, self._freed, self._read_s
        now = started + costs.draft_s
        if not self._stream.prefetch:
            read = max(read, now)
        for seconds in self._stream.read_s:
            if seconds:
                read = max(read, freed[0]) + seconds
                now = max(now, read) + costs.compute_s
                freed.append(now)
            else:
                now += costs.compute_s
        self._read_s, self.now_s = read, now + costs.projection_s
        return self.now_s - started


def round_seconds(stream: Stream, compute_s: float, draft_s: float = 0.0, projection_s: float = 0.0) -> float:
    """Seconds of one round among many alike. `compute_s`: of one layer over this round's tree.

    Some 50 µs: keep the results where they are asked for often.
    """
    pipeline, costs = Pipeline(stream), RoundCosts(compute_s, draft_s, projection_s)
    last = pipeline.round(costs)
    for _ in range(MAX_ROUNDS):
        before, last = last, pipeline.round(costs)
        if abs(last - before) <= SETTLED * before:
            break
    return last


def total_seconds(stream: Stream, rounds: Iterable[RoundCosts]) -> float:
    """Seconds of these rounds one after another, right after another pass."""
    pipeline = Pipeline(stream, ring_full=True)
    return sum(pipeline.round(costs) for costs in rounds)
