"""Long prompts, full caches, and how a request ends."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from device_agent.engine.engine import Engine
from device_agent.model.transformer import open_transformer
from device_agent.model.weights import open_resident, open_streamed
from device_agent.protocol import EngineSpec, PromptSpec
from tests.fakes.engines import TARGET, TinyPair, opened_pair, tiny_models
from tests.fakes.memory_source import MemorySource
from tests.fakes.packs import write_pack

__all__ = ["tiny_models"]

SPECS = [
    EngineSpec(),
    EngineSpec("chain", draft_k=4),
    EngineSpec("static_tree", draft_widths=(3, 2, 1)),
    EngineSpec("prompt_lookup", draft_k=5, draft_ngram=2),
]
by_strategy = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.strategy)


@pytest.mark.parametrize("length", [1, 63, 64, 65, 700])
def test_a_prompt_of_any_length_reads_each_layer_once(tmp_path: Path, length: int) -> None:
    source = MemorySource(write_pack(tmp_path, TARGET), ring=2)
    with closing(open_transformer(source, n_ctx=1024, threads=1)) as target:
        outcome = Engine(target, None, EngineSpec()).run_request(PromptSpec("p", tuple([7, 9] * 400)[:length]), 1, ())
        assert len(outcome.result.output_ids) == 1
        layer_bytes = [e.nbytes for e in source.manifest.extents if e.name.startswith("layer.")]
        assert (source.layers_asked, source.read_bytes) == ([0, 1, 2], sum(layer_bytes))


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("spec", [EngineSpec(), EngineSpec("chain", draft_k=3)], ids=lambda spec: spec.strategy)
def test_a_prompt_of_200_tokens_is_one_pass_over_the_flash(tmp_path: Path, spec: EngineSpec, prefetch: bool) -> None:
    pack = write_pack(tmp_path, TARGET)
    weights = open_streamed(pack, 2, 16, None, prefetch=prefetch)
    with (
        closing(open_transformer(weights, n_ctx=256, threads=1)) as target,
        closing(open_transformer(open_resident(pack), n_ctx=256, threads=1)) as draft,
    ):
        prompt = PromptSpec("p", tuple(range(20, 220)))
        outcome = Engine(target, draft, spec).run_request(prompt, 1, ())
        assert (len(outcome.result.output_ids), outcome.rounds) == (1, ())
        layer_bytes = sum(e.nbytes for e in weights.manifest.extents if e.name.startswith("layer."))
        assert weights.read_bytes == layer_bytes


@by_strategy
def test_a_full_cache_ends_the_text_where_plain_decoding_would(tmp_path: Path, spec: EngineSpec) -> None:
    prompt = PromptSpec("p", tuple(range(20, 60)))
    with opened_pair(tmp_path, n_ctx=64) as pair:
        plain = pair.engine(EngineSpec()).run_request(prompt, 200, ()).result
        found = pair.engine(spec).run_request(prompt, 200, ()).result
    assert found.stop_reason == plain.stop_reason == "kv_full"
    assert found.output_ids == plain.output_ids
    assert len(found.output_ids) == 64 - 40 + 1, "the last token needs no slot"


@by_strategy
@pytest.mark.parametrize("limit", [1, 2, 7])
def test_the_limit_is_kept_to_the_token(tiny_models: TinyPair, spec: EngineSpec, limit: int) -> None:
    found = tiny_models.engine(spec).run_request(PromptSpec("p", (5, 17, 90)), limit, ()).result
    assert (len(found.output_ids), found.stop_reason) == (limit, "max_new_tokens")


@by_strategy
def test_a_stop_token_is_the_last_wherever_in_a_round_it_comes(tiny_models: TinyPair, spec: EngineSpec) -> None:
    engine, prompt = tiny_models.engine(spec), PromptSpec("p", (5, 17, 90))
    whole = engine.run_request(prompt, 30, ()).result.output_ids
    for stop in dict.fromkeys(whole):
        found = engine.run_request(prompt, 30, (stop,)).result
        assert found.output_ids == whole[: whole.index(stop) + 1]
        assert found.stop_reason == "stop_token"
