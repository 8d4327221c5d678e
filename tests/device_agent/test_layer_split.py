from itertools import combinations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from device_agent.layer_split import (
    MIN_RING_SLOTS,
    FlashCosts,
    LayerSplit,
    ring_only,
    split_layers,
    split_seconds,
    stream_of,
)
from device_agent.pipeline_model import RoundCosts

SPEED = 1000.0


def costs(compute_s: float, draft_s: float = 0.0, prefetch: bool = False) -> FlashCosts:
    return FlashCosts(SPEED, RoundCosts(compute_s, draft_s, 0.1), prefetch)


def size(layers: tuple[int, ...], split: LayerSplit) -> int:
    return split.ring_bytes + sum(layers[index] for index in split.pinned)


def exhaustive(layers: tuple[int, ...], spare: int, usual: FlashCosts) -> float:
    """The shortest round of any set of pins and any depth of ring that fit."""
    everything = range(len(layers))
    sets = [pinned for k in range(len(layers)) for pinned in combinations(everything, k)]
    largest = {pinned: max(layers[index] for index in everything if index not in pinned) for pinned in sets}
    splits = (LayerSplit(n, largest[p], p) for p in sets for n in range(MIN_RING_SLOTS, len(layers) + 1))
    return min(split_seconds(layers, split, usual) for split in splits if size(layers, split) <= spare)


sizes = st.lists(st.sampled_from([880, 1000]), min_size=3, max_size=6).map(tuple)
usual_rounds = st.builds(
    costs, st.sampled_from([0.02, 0.1, 0.3, 0.7, 0.95, 1.3]), st.sampled_from([0.0, 0.5, 2.0, 5.0]), st.booleans()
)


@settings(deadline=None, max_examples=60)
@given(sizes, st.floats(0, 0.9), usual_rounds)
def test_within_2_percent_of_trying_everything(layers: tuple[int, ...], share: float, usual: FlashCosts) -> None:
    spare = int(2 * max(layers) + share * sum(layers))
    assume(spare < sum(layers))
    split = split_layers(layers, spare, usual)
    assert size(layers, split) <= spare
    assert split_seconds(layers, split, usual) <= 1.02 * exhaustive(layers, spare, usual)


@pytest.mark.parametrize("n", [12, 28, 36])
@pytest.mark.parametrize("share", [0.2, 0.25, 0.4])
@pytest.mark.parametrize("usual", [costs(0.1), costs(0.1, 2.0, prefetch=True)], ids=["plain", "ahead"])
def test_pins_lie_evenly(n: int, share: float, usual: FlashCosts) -> None:
    split = split_layers((1000,) * n, int(2000 + share * n * 1000), usual)
    gaps = [b - a for a, b in zip(split.pinned, split.pinned[1:], strict=False)]
    assert max(gaps) - min(gaps) <= 1
    assert len(split.pinned) == int(share * n)


def test_what_the_ring_does_not_need_is_pinned() -> None:
    split = split_layers((1000,) * 10, 5500, costs(0.1, draft_s=3.0, prefetch=True))
    assert (split.slots, len(split.pinned)) == (2, 3)
    assert split_layers((1000,) * 10, 10_000, costs(0.1)) == LayerSplit(0, 0, tuple(range(10)))


def test_of_equally_fast_splits_the_one_that_reads_less() -> None:
    """Compute bounds the round: pins save no time, but the flash's energy."""
    assert len(split_layers((1000,) * 10, 5000, costs(2.0, 1.0, prefetch=True)).pinned) == 3


@pytest.mark.parametrize(("draft_s", "prefetch", "slots"), [(0.0, True, 2), (3.0, True, 4), (3.0, False, 2)])
def test_a_ring_alone_is_as_deep_as_drafting_is_long(draft_s: float, prefetch: bool, slots: int) -> None:
    split = ring_only((1000,) * 10, 8000, costs(0.1, draft_s, prefetch))
    assert split.pinned == ()
    assert split.slots == slots
    assert ring_only((1000,) * 10, 2000, costs(0.1, 9.0, prefetch=True)).slots == 2


def test_the_model_sees_pins_as_layers_without_a_read() -> None:
    stream = stream_of((500, 1000), LayerSplit(2, 500, (1,)), SPEED, prefetch=True)
    assert stream.read_s == (0.5, 0.0)
    assert (stream.slots, stream.prefetch) == (2, True)
