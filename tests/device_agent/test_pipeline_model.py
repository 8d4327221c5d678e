"""The pipeline's arithmetic against a discrete simulation that knows slots, a reader and a consumer as processes."""

import heapq
from collections import deque
from collections.abc import Generator
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_agent.pipeline_model import RoundCosts, Stream, round_seconds, total_seconds

Process = Generator[float | str, None, None]  # yields seconds to sleep, or "wait" until another process did something


class Simulation:
    """Two processes that share a ring; whoever waits looks again after every step of the other."""

    def __init__(self, stream: Stream, rounds: list[RoundCosts]) -> None:
        self.now = 0.0
        self.ends: list[float] = []
        self._stream, self._rounds = stream, rounds
        self._free = stream.slots
        self._ready: deque[int] = deque()
        self._drafted = 0  # rounds whose tree stands

    def run(self) -> list[float]:
        """Each round's end."""
        order, sleeping = count(), [(0.0, -1, self._consumer()), (0.0, -2, self._reader())]
        awake: list[Process] = []
        while len(self.ends) < len(self._rounds):
            self.now, _, process = heapq.heappop(sleeping)
            awake.append(process)
            for other in awake * 2:  # twice: what one does at this moment may be what the other waits for
                if other in awake and (step := next(other, "wait")) != "wait":
                    awake.remove(other)
                    heapq.heappush(sleeping, (self.now + float(step), next(order), other))
        return self.ends

    def _reader(self) -> Process:
        for number in range(len(self._rounds)):
            for index, seconds in enumerate(self._stream.read_s):
                if seconds:
                    while not self._free or not (self._stream.prefetch or number < self._drafted):
                        yield "wait"
                    self._free -= 1
                    yield seconds
                    self._ready.append(index)

    def _consumer(self) -> Process:
        for costs in self._rounds:
            yield costs.draft_s
            self._drafted += 1
            for index, seconds in enumerate(self._stream.read_s):
                while seconds and not self._ready:
                    yield "wait"
                assert not seconds or self._ready.popleft() == index
                yield costs.compute_s
                self._free += 1 if seconds else 0
            yield costs.projection_s
            self.ends.append(self.now)


def simulated(stream: Stream, rounds: list[RoundCosts]) -> list[float]:
    return Simulation(stream, rounds).run()


reads = st.lists(st.sampled_from([0.0, 0.0, 0.7, 1.0, 1.1]), min_size=1, max_size=8).map(tuple)
seconds = st.sampled_from([0.0, 0.05, 0.3, 0.9, 1.0, 1.2, 4.0])
streams = st.builds(Stream, reads, st.integers(1, 5), st.booleans())
costs = st.builds(RoundCosts, seconds, seconds, seconds)


@settings(deadline=None)  # the machine may be busy
@given(streams, costs)
def test_the_simulation_s_rounds_settle_to_the_model_s(stream: Stream, each: RoundCosts) -> None:
    """Long enough that an early or late start does not count."""
    ends = simulated(stream, [each] * 60)
    settled = (ends[59] - ends[29]) / 30
    assert round_seconds(stream, each.compute_s, each.draft_s, each.projection_s) == pytest.approx(settled, rel=1e-6)


@settings(deadline=None)  # the machine may be busy
@given(streams, st.lists(costs, min_size=1, max_size=6))
def test_unlike_rounds_in_a_row_take_what_the_simulation_takes(stream: Stream, rounds: list[RoundCosts]) -> None:
    """The round before fills the ring, as a prefill does."""
    idle = RoundCosts(0.0, 0.0, 100.0)
    ends = simulated(stream, [idle, *rounds])
    assert total_seconds(stream, rounds) == pytest.approx(ends[-1] - ends[0], rel=1e-6, abs=1e-9)


def test_reading_across_rounds_hides_drafting_as_far_as_the_ring_has_room() -> None:
    layers = (1.0,) * 10
    alone, ahead = Stream(layers, 3), Stream(layers, 3, prefetch=True)
    assert round_seconds(alone, 0.1, draft_s=2.0) == pytest.approx(2 + 10 + 0.1)
    assert round_seconds(ahead, 0.1, draft_s=2.0) == pytest.approx(10)
    assert round_seconds(ahead, 0.1, draft_s=8.0) == pytest.approx(8 + 7 + 0.2)  # the ring was full after three


def test_a_pinned_layer_saves_its_read_and_resident_layers_only_compute() -> None:
    assert round_seconds(Stream((1.0, 0.0, 1.0, 0.0), 2), 0.1) == pytest.approx(2 + 0.2)
    assert round_seconds(Stream((0.0,) * 4, 0), 0.1, 0.5, 0.2) == pytest.approx(0.4 + 0.5 + 0.2)
