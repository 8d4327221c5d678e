import pytest

from benchmarks import contenders as c
from benchmarks.contenders import Condition
from device_agent.protocol import EdgeCalibration, EngineSpec, StorageSpec

CAPPED = Condition("cap_500", "flash", 500.0)
LEVER = c.lever(CAPPED, EdgeCalibration())


def test_as_practised_has_none_of_the_features() -> None:
    for engine in (c.chain(CAPPED, 4, False), c.static_tree(CAPPED, (2, 1), False)):
        assert engine.storage == StorageSpec(flash_bandwidth_mb_s=500.0)
        assert engine.drafting.trim_vocabulary == 0


def test_equal_features_are_those_of_lever() -> None:
    for engine in (c.chain(CAPPED, 4, True), c.static_tree(CAPPED, (2, 1), True)):
        assert engine.storage == LEVER.storage
        assert engine.drafting.trim_vocabulary == LEVER.drafting.trim_vocabulary
    assert c.plain(CAPPED, True).storage == LEVER.storage


@pytest.mark.parametrize("part", ["drafting", "prefetch", "pinning", "trimming"])
def test_without_switches_one_part_off(part: str) -> None:
    engine = c.without(LEVER, part)
    assert engine is not None
    changed = {
        "drafting": engine.drafting.enabled != LEVER.drafting.enabled,
        "prefetch": engine.storage.prefetch != LEVER.storage.prefetch,
        "pinning": engine.storage.pinning != LEVER.storage.pinning,
        "trimming": engine.drafting.trim_vocabulary != LEVER.drafting.trim_vocabulary,
    }
    assert [name for name, different in changed.items() if different] == [part]


def test_without_skips_parts_that_are_off_or_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert c.without(EngineSpec(), "prefetch") is None
    monkeypatch.setitem(c.PARTS, "magic", ("drafting.magic", False))
    assert c.without(LEVER, "magic") is None
