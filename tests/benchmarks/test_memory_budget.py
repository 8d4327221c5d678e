from dataclasses import replace

import pytest

from benchmarks.memory_budget import SHARE, budget_mb
from device_agent.dram_plan import MB, layer_sizes, plan_dram
from device_agent.protocol import EngineSpec, PackManifest, StorageSpec
from tests.fakes.tiny_gguf import TinyModel
from tests.fakes.tiny_pair import tiny_pair

PLANNED = EngineSpec(storage=StorageSpec(prefetch=True, pinning=True))


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> tuple[PackManifest, PackManifest]:
    big = TinyModel(n_layers=12, d_model=256, d_ff=1024)
    store, pair = tiny_pair(tmp_path_factory.mktemp("pair"), big, TinyModel(n_layers=2))
    return store.manifest(pair.target_pack), store.manifest(pair.draft_pack)


def test_a_quarter_of_the_layers_is_over_and_above_two_slots(manifests: tuple[PackManifest, PackManifest]) -> None:
    target, draft = manifests
    layers = layer_sizes(target)
    for drafter in (None, draft):
        engine = replace(PLANNED, dram_budget_mb=budget_mb(target, drafter, PLANNED))
        plan = plan_dram(target, drafter, engine)
        over = plan.layers.ring_bytes + sum(layers[i] for i in plan.layers.pinned) - 2 * max(layers)
        assert abs(over - SHARE * sum(layers)) < max(layers) + MB


def test_who_drafts_gets_what_the_draft_takes(manifests: tuple[PackManifest, PackManifest]) -> None:
    target, draft = manifests
    assert budget_mb(target, draft, PLANNED) > budget_mb(target, None, PLANNED)
