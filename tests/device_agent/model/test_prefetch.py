"""Reading across rounds, over a real pack on a real disk."""

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from device_agent.failure import AgentFailure
from device_agent.model.weights import PackWeights, open_streamed
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

MODEL = TinyModel("qwen2", n_layers=5, tied=False)


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pack(tmp_path_factory.mktemp("pack"), MODEL)


@pytest.fixture
def ahead(pack: Path) -> Iterator[PackWeights]:
    with closing(open_streamed(pack, 3, 4, None, prefetch=True, reader_threads=2)) as weights:
        yield weights


def on_disk(pack: Path) -> list[bytes]:
    return [(pack / f"layer.{index}.0.bin").read_bytes() for index in range(MODEL.n_layers)]


def a_pass(weights: PackWeights, layers: list[bytes]) -> None:
    weights.begin_pass()
    for index, content in enumerate(layers):
        with weights.layer(index) as address:
            assert ctypes.string_at(address, len(content)) == content


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def reader_bytes(weights: PackWeights) -> int:
    return weights._streamer.read_bytes


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pinned=st.sets(st.integers(0, 4)), slots=st.integers(2, 6), passes=st.integers(1, 4), threads=st.integers(1, 4))
def test_every_pass_sees_every_layer_and_counts_what_it_took(
    pack: Path, pinned: set[int], slots: int, passes: int, threads: int
) -> None:
    layers = on_disk(pack)
    with closing(open_streamed(pack, slots, 4, None, pinned, prefetch=True, reader_threads=threads)) as weights:
        for number in range(1, passes + 1):
            a_pass(weights, layers)
            streamed = [content for index, content in enumerate(layers) if index not in pinned]
            assert weights.read_bytes == number * sum(map(len, streamed))


def test_the_ring_fills_while_nobody_asks_and_the_bytes_count_when_consumed(ahead: PackWeights, pack: Path) -> None:
    layers = on_disk(pack)
    a_pass(ahead, layers)
    consumed = ahead.read_bytes
    assert consumed == sum(map(len, layers))
    eventually(lambda: reader_bytes(ahead) == consumed + sum(map(len, layers[:3])))  # three slots
    assert ahead.read_bytes == consumed
    a_pass(ahead, layers)
    assert ahead.read_bytes == 2 * consumed


def test_without_it_the_reader_stops_at_the_pass_s_end(pack: Path) -> None:
    layers = on_disk(pack)
    with closing(open_streamed(pack, 3, 4, None)) as weights:
        a_pass(weights, layers)
        assert reader_bytes(weights) == weights.read_bytes
        assert weights._ring is not None
        assert weights._ring.outstanding == 0


def test_a_pass_that_was_left_early_is_refused(ahead: PackWeights) -> None:
    ahead.begin_pass()
    with ahead.layer(0):
        pass
    with pytest.raises(AgentFailure, match="had taken all its layers"):
        ahead.begin_pass()


def test_a_pass_of_which_nothing_was_taken_is_refused(ahead: PackWeights) -> None:
    ahead.begin_pass()
    with pytest.raises(AgentFailure, match="had taken all its layers"):
        ahead.begin_pass()


def test_closing_while_the_ring_is_full_ends_the_reader(pack: Path) -> None:
    weights = open_streamed(pack, 2, 4, 1.0, prefetch=True)
    a_pass(weights, on_disk(pack))
    weights.close()
    assert weights._ring is not None
    assert not any(thread.is_alive() for thread in weights._ring._threads)


def test_threads_read_pieces_side_by_side_within_the_cap(pack: Path) -> None:
    layers = on_disk(pack)
    size = sum(map(len, layers))
    cap = size / 1e6 / 0.1  # a pass lasts 0.1 s
    with closing(open_streamed(pack, 3, 4, cap, reader_threads=3)) as weights:
        started = time.perf_counter()
        for _ in range(3):
            a_pass(weights, layers)
        assert time.perf_counter() - started >= 0.3 * 0.97
        assert weights.measured_mb_s is not None
        assert weights.measured_mb_s <= cap * 1.03


def test_a_short_file_is_told_from_a_short_read(tmp_path: Path) -> None:
    pack = write_pack(tmp_path, MODEL)
    with closing(open_streamed(pack, 2, 64, None, reader_threads=2)) as weights:
        os.truncate(pack / "layer.3.0.bin", 5000)
        with pytest.raises(AgentFailure, match=r"layer\.3\.0\.bin ends at byte 5000 of \d+"):
            a_pass(weights, [content[:0] for content in on_disk(pack)])
