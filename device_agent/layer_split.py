"""Splitting spare DRAM between ring slots and pinned layers: pure, the same on host and phone.

A pinned byte saves as much time as a byte of ring, and the read besides; the ring must only be deep enough to keep the
flash busy. So for every depth of the ring the rest is pinned, spread evenly, and the model of the pipeline chooses;
then single pins move as long as that helps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from device_agent.pipeline_model import RoundCosts, Stream, round_seconds

MIN_RING_SLOTS = 2  # one to read into while the other is computed on
MAX_DEPTH = 8  # slots worth trying beside pins: a deeper ring's bytes do more as pins
WORTH_A_MOVE = 0.995  # how much shorter a round must become for a pin to leave the even spread
READ_WEIGHT = 0.001  # of its seconds that a hidden read counts: of equally fast splits the one that reads less


@dataclass(frozen=True)
class LayerSplit:
    slots: int  # ring slots of `slot_bytes`; 0: all layers pinned
    slot_bytes: int
    pinned: tuple[int, ...]  # layers, ascending

    @property
    def ring_bytes(self) -> int:
        return self.slots * self.slot_bytes


@dataclass(frozen=True)
class FlashCosts:
    """A usual round on a phone, as calibrated."""

    bytes_per_s: float
    round: RoundCosts  # its `compute_s` is that of an average layer
    prefetch: bool


@lru_cache(maxsize=64)
def split_layers(layers: tuple[int, ...], spare: int, costs: FlashCosts) -> LayerSplit:
    """The split of `spare` bytes with the shortest modelled round; `layers`: bytes of each.

    `spare` holds at least MIN_RING_SLOTS of the largest layer.
    """
    if sum(layers) <= spare:
        return LayerSplit(0, 0, tuple(range(len(layers))))
    best = _fastest(layers, [_unpinned(layers, MIN_RING_SLOTS), *_candidates(layers, spare)], costs)
    while (better := _fastest(layers, [best, *_neighbours(layers, best, spare)], costs)) != best:
        if split_seconds(layers, better, costs) > split_seconds(layers, best, costs) * WORTH_A_MOVE:
            break
        best = better
    return best


def ring_only(layers: Sequence[int], spare: int, costs: FlashCosts) -> LayerSplit:
    """As split_layers, with nothing pinned: the shallowest ring that is as good as the deepest."""
    splits = [_unpinned(layers, slots) for slots in _depths(layers, spare)]
    seconds = [split_seconds(layers, split, costs) for split in splits]
    return next(split for split, s in zip(splits, seconds, strict=True) if s <= min(seconds) * (1 + READ_WEIGHT))


def _depths(layers: Sequence[int], spare: int) -> range:
    return range(MIN_RING_SLOTS, max(MIN_RING_SLOTS, min(len(layers), spare // max(layers))) + 1)


def split_seconds(layers: Sequence[int], split: LayerSplit, costs: FlashCosts) -> float:
    """Modelled seconds of the usual round."""
    usual = costs.round
    stream = stream_of(layers, split, costs.bytes_per_s, costs.prefetch)
    return round_seconds(stream, usual.compute_s, usual.draft_s, usual.projection_s)


def stream_of(layers: Sequence[int], split: LayerSplit, bytes_per_s: float, prefetch: bool) -> Stream:
    """What the pipeline model asks of a plan."""
    pinned = set(split.pinned)
    reads = tuple(0.0 if index in pinned else nbytes / bytes_per_s for index, nbytes in enumerate(layers))
    return Stream(reads, split.slots, prefetch)


def _unpinned(layers: Sequence[int], slots: int) -> LayerSplit:
    return LayerSplit(slots, max(layers), ())


def _fastest(layers: Sequence[int], splits: Sequence[LayerSplit], costs: FlashCosts) -> LayerSplit:
    """The first of the best."""

    def cost(split: LayerSplit) -> float:
        read = sum(layers) - sum(layers[index] for index in split.pinned)
        return split_seconds(layers, split, costs) + READ_WEIGHT * read / costs.bytes_per_s

    return min(splits, key=cost)


def _candidates(layers: Sequence[int], spare: int) -> Iterator[LayerSplit]:
    """Shallow rings first. Of each depth as many pins as fit, and one fewer, at the phases of an even spread.

    Once more with all heavy layers pinned, so that slots can be smaller.
    """
    for slots in _depths(layers, spare)[: MAX_DEPTH - MIN_RING_SLOTS + 1]:
        for largest in sorted(set(layers), reverse=True):
            heavy = {index for index, nbytes in enumerate(layers) if nbytes > largest}
            counts = range(len(layers) - slots - len(heavy), -1, -1)
            fitting = ([*_fitting(layers, slots, heavy, count, spare)] for count in counts)
            for splits in islice(filter(None, fitting), 2):
                yield from splits


def _fitting(layers: Sequence[int], slots: int, heavy: set[int], count: int, spare: int) -> Iterator[LayerSplit]:
    for pins in _spreads(layers, heavy, count):
        if split := _lightened(layers, slots, heavy | pins, spare):
            yield split


def _spreads(layers: Sequence[int], taken: set[int], count: int) -> list[set[int]]:
    """`count` pins spread evenly over the layers that are not `taken`, at each phase."""
    free = [index for index in range(len(layers)) if index not in taken]
    phases = range(0, len(free), count) if count else ()
    return [{free[(i * len(free) + phase) // count] for i in range(count)} for phase in phases] or [set()]


def _lightened(layers: Sequence[int], slots: int, pins: set[int], spare: int) -> LayerSplit | None:
    """`pins`, some moved to the nearest lighter layer until they fit; None if they never do."""
    while (split := _split(layers, slots, pins)) and _size(layers, split) > spare:
        free = [index for index in range(len(layers)) if index not in pins]
        moves = [(abs(pin - to), pin, to) for pin in pins for to in free if layers[to] < layers[pin]]
        if not moves:
            return None
        _, pin, to = min(moves)
        pins = pins - {pin} | {to}
    return split


def _neighbours(layers: Sequence[int], split: LayerSplit, spare: int) -> Iterator[LayerSplit]:
    """One pin moved anywhere."""
    pins = set(split.pinned)
    for pin in split.pinned:
        for to in range(len(layers)):
            moved = _split(layers, split.slots, pins - {pin} | {to})
            if to not in pins and _size(layers, moved) <= spare:
                yield moved


def _split(layers: Sequence[int], slots: int, pins: set[int]) -> LayerSplit:
    largest = max(nbytes for index, nbytes in enumerate(layers) if index not in pins)
    return LayerSplit(slots, largest, tuple(sorted(pins)))


def _size(layers: Sequence[int], split: LayerSplit) -> int:
    return split.ring_bytes + sum(layers[index] for index in split.pinned)
