from __future__ import annotations

from device_agent.protocol import DraftingSpec
from orchestrator.schema import DraftingConf, EngineConf
from orchestrator.sweeps.jobs import engine_spec

DRAFTING = DraftingConf(
    k=7, objective="edp", trim_vocabulary=512, requantize="Q4_0", max_nodes=20, max_depth=5, enabled=False
)


def test_lever_is_told_all_of_its_settings() -> None:
    spec = engine_spec(EngineConf("lever", DRAFTING))
    assert spec.drafting == DraftingSpec(False, "edp", 512, "Q4_0", 20, 5)
    assert spec.draft_k == 0


def test_a_chain_is_told_only_how_to_draft_cheaply() -> None:
    spec = engine_spec(EngineConf("chain", DRAFTING))
    assert spec.drafting == DraftingSpec(trim_vocabulary=512, requantize="Q4_0")
    assert spec.draft_k == 7


def test_plain_decoding_is_told_nothing() -> None:
    assert engine_spec(EngineConf("autoregressive", DRAFTING)).drafting == DraftingSpec()
