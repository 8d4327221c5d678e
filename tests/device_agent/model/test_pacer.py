import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_agent.model.pacer import Pacer

MB = 1_000_000


class FakeTime:
    """A clock that moves when somebody sleeps, or reads."""

    def __init__(self, overshoot: float = 0.0) -> None:
        self.now, self.overshoot = 100.0, overshoot

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds + self.overshoot


def read(pacer: Pacer, time: FakeTime, nbytes: int, takes: float) -> None:
    started = pacer.start()
    time.now += takes
    pacer.finish(started, nbytes)


@pytest.mark.parametrize("overshoot", [0.0, 0.002])
def test_a_fast_disk_is_held_to_the_cap(overshoot: float) -> None:
    time = FakeTime(overshoot)
    pacer = Pacer(100 * MB, time.clock, time.sleep)
    for _ in range(100):
        read(pacer, time, MB, takes=0.001)
    assert time.now - 100.0 == pytest.approx(1.0, rel=0.005)  # sleeps that overshoot do not add up


def test_idle_time_earns_nothing() -> None:
    time = FakeTime()
    pacer = Pacer(100 * MB, time.clock, time.sleep)
    read(pacer, time, MB, takes=0.0)
    time.now += 5.0
    before = time.now
    for _ in range(10):
        read(pacer, time, MB, takes=0.0)
    assert time.now - before == pytest.approx(0.1)


def test_a_slow_disk_is_made_up_for_by_one_piece_at_most() -> None:
    time = FakeTime()
    pacer = Pacer(100 * MB, time.clock, time.sleep)
    read(pacer, time, MB, takes=1.0)
    before = time.now
    for _ in range(10):
        read(pacer, time, MB, takes=0.0)
    assert time.now - before == pytest.approx(0.09)


def test_threads_share_one_cap() -> None:
    time = FakeTime()
    pacer = Pacer(100 * MB, time.clock, time.sleep)
    started = pacer.start(), pacer.start()
    for start in started:
        pacer.finish(start, MB)
    assert time.now - 100.0 == pytest.approx(0.02)


@given(st.lists(st.tuples(st.floats(0, 0.05), st.floats(0, 0.05)), min_size=1, max_size=50), st.floats(0, 0.005))
def test_no_stretch_is_faster_than_the_cap_by_more_than_a_piece(
    reads: list[tuple[float, float]], overshoot: float
) -> None:
    time = FakeTime(overshoot)
    pacer = Pacer(100 * MB, time.clock, time.sleep)
    ends = []
    for idle, takes in reads:
        time.now += idle
        read(pacer, time, MB, takes)
        ends.append(time.now)
    for first in range(len(ends)):
        for last in range(first, len(ends)):
            pieces = last - first
            assert ends[last] - ends[first] >= (pieces - 1) * 0.01 - 1e-9


def test_cancelling_ends_all_waiting() -> None:
    pacer = Pacer(1.0)
    pacer.cancel()
    pacer.finish(pacer.start(), 1_000_000)  # a million seconds otherwise
