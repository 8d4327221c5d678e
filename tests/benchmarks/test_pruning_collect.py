"""Collecting on a tiny pair: several texts in one batch are what each would be alone, and nothing is done twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.pruning import collect, dataset
from device_agent.engine.engine import Engine
from device_agent.model.transformer import open_transformer
from device_agent.model.weights import open_resident
from device_agent.protocol import EngineSpec, PromptSpec
from tests.fakes.tiny_pair import tiny_pair

PROMPTS = [PromptSpec(f"p{n}", tuple(range(5 * n + 3, 5 * n + 5 + n))) for n in range(5)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"LAYERS": (1, 3), "DRAFT_LAYERS": (1,), "LANES": 2, "PROMPT": 20, "OUTPUT": 9, "ROOM": 30}
    for name, value in settings.items():
        monkeypatch.setattr(collect, name, value)
    monkeypatch.setattr(collect, "_prompts", lambda store, pair: list(PROMPTS))


def test_texts_are_plain_decoding_s_and_come_once(tmp_path: Path) -> None:
    store, pair = tiny_pair(tmp_path)
    folder = tmp_path / "places"
    assert sorted(collect.collect(store, pair, folder, threads=1)) == [prompt.id for prompt in PROMPTS]
    (folder / "p3.npz").unlink()
    assert list(collect.collect(store, pair, folder, threads=1)) == ["p3"]

    target = open_transformer(open_resident(store.packs / pair.target_pack), 64, threads=1)
    texts = dataset.load(folder)
    for prompt, text in zip(PROMPTS, texts, strict=True):
        plain = Engine(target, None, EngineSpec()).run_request(prompt, 9, pair.stop_token_ids).result.output_ids
        assert text["output"].tolist() == list(plain)
        assert {
            name: text[name].shape[0] for name in ("layer_1", "layer_3", "final", "full_tokens", "first1_probs")
        } == {name: len(plain) for name in ("layer_1", "layer_3", "final", "full_tokens", "first1_probs")}
        assert target.project(text["final"].astype(np.float32)).argmax(axis=1).tolist() == list(plain)
    target.close()
    assert dataset.by_model(texts, "full").hits.shape == (sum(len(text["output"]) - 1 for text in texts), 6)
