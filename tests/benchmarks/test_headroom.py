import pytest

from benchmarks.headroom import headroom
from device_agent.protocol import PackManifest
from tests.fakes.measured import measured, round_trace
from tests.fakes.tiny_pair import tiny_pair

FAST, SLOW = 1e6, 1e-2  # MB/s


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> PackManifest:
    store, pair = tiny_pair(tmp_path_factory.mktemp("pair"))
    return store.manifest(pair.target_pack)


def test_where_reading_is_free_what_is_saved_is_gained(target: PackManifest) -> None:
    found = headroom(measured(rounds=(round_trace(),) * 4), target, FAST, prefetch=True)
    assert found["free_drafting"] == pytest.approx(1.0 / 0.5, rel=1e-3)
    assert found["perfect_pruning"] == pytest.approx(1.0 / (1 - 0.4 * (1 - 0.25 / 0.4)), rel=1e-3)
    assert found["perfect_tree"] == pytest.approx(1.0 / (0.1 + 0.25 + 3 * 0.1), rel=1e-3)


def test_where_reading_is_everything_nothing_is_gained(target: PackManifest) -> None:
    found = headroom(measured(rounds=(round_trace(),) * 4), target, SLOW, prefetch=True)
    assert all(value == pytest.approx(1.0, abs=0.05) for value in found.values())


def test_rounds_that_draft_nothing_have_nothing_to_gain(target: PackManifest) -> None:
    plain = round_trace(draft_s=0.0, nodes_verified=1, accepted_tokens=0, acceptance_length=1)
    found = headroom(measured(rounds=(plain,) * 4), target, FAST, prefetch=True)
    assert all(value == pytest.approx(1.0) for value in found.values())
