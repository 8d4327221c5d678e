from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from device_agent.engine.engine import Engine
from device_agent.engine.exactness import tie_tolerance
from device_agent.engine.outcome import RequestOutcome
from device_agent.failure import AgentFailure
from device_agent.model.transformer import Transformer, causal_batch
from device_agent.protocol import EngineSpec, PromptSpec, RoundTrace
from tests.fakes.memory_source import MemorySource
from tests.fakes.tiny_engine import CLOSE_DRAFT, TARGET, examined, tiny_transformers

N_CTX = 96
PROMPT = PromptSpec("p", (1, 40, 77, 12, 9, 130, 55))
PLAIN = EngineSpec("autoregressive")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Transformer]]:
    """The target, a draft that agrees sometimes, and the target again as its own draft."""
    folder = tmp_path_factory.mktemp("packs")
    with tiny_transformers(folder, TARGET, CLOSE_DRAFT, TARGET, n_ctx=N_CTX) as opened:
        yield opened


def run(engine: Engine, limit: int = 24, stops: tuple[int, ...] = ()) -> RequestOutcome:
    return engine.run_request(PROMPT, limit, stops)


def plain(models: list[Transformer], limit: int = 24, stops: tuple[int, ...] = ()) -> RequestOutcome:
    return run(Engine(models[0], None, PLAIN), limit, stops)


def test_plain_decoding_takes_the_best_token_each_time(models: list[Transformer]) -> None:
    text = list(PROMPT.token_ids)
    for _ in range(8):
        logits = models[2].project(models[2].forward(causal_batch(text))[-1:])[0]
        text.append(int(logits.argmax()))
    assert plain(models, 8).result.output_ids == tuple(text[len(PROMPT.token_ids) :])


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_a_chain_gives_the_text_of_plain_decoding(models: list[Transformer], k: int) -> None:
    outcome = run(Engine(models[0], models[1], EngineSpec("chain", k)))
    assert outcome.result.output_ids == plain(models).result.output_ids
    accepted = [trace.accepted_tokens for trace in outcome.rounds]
    assert 0 < sum(accepted) < sum(trace.nodes_verified - 1 for trace in outcome.rounds)


def test_one_engine_serves_many_requests(models: list[Transformer]) -> None:
    engine = Engine(models[0], models[1], EngineSpec("chain", 4))
    first = run(engine)
    engine.run_request(PromptSpec("q", (8, 7)), 30, ())
    assert run(engine).result.output_ids == first.result.output_ids


def test_the_target_as_its_own_draft_is_always_accepted(models: list[Transformer]) -> None:
    outcome = run(Engine(models[0], models[2], EngineSpec("chain", 5)), limit=21)
    assert [trace.accepted_tokens for trace in outcome.rounds] == [5, 5, 5, 1]  # 1 + 3·6 + 2 tokens
    assert [trace.nodes_verified for trace in outcome.rounds] == [6, 6, 6, 2]
    assert outcome.result.output_ids == plain(models, 21).result.output_ids


def test_streamed_layers_give_the_same_text(models: list[Transformer], tmp_path: Path) -> None:
    with tiny_transformers(tmp_path, TARGET, n_ctx=N_CTX, ring=2) as (streamed,):
        outcome = run(Engine(streamed, models[1], EngineSpec("chain", 3)))
        assert outcome.result.output_ids == plain(models).result.output_ids
        assert all(trace.read_bytes > 0 for trace in outcome.rounds)


@pytest.mark.parametrize("k", [0, 5])
def test_nothing_follows_a_stop_token(models: list[Transformer], k: int) -> None:
    free = plain(models).result.output_ids
    stop = free[9]
    cut = free.index(stop) + 1
    engine = Engine(models[0], models[2] if k else None, EngineSpec("chain", k) if k else PLAIN)
    result = run(engine, stops=(stop, 999)).result
    assert result.output_ids == free[:cut]
    assert result.stop_reason == "stop_token"
    assert len(result.margins) == cut


@pytest.mark.parametrize("k", [0, 7])
def test_a_full_cache_ends_the_text(models: list[Transformer], k: int) -> None:
    engine = Engine(models[0], models[2] if k else None, EngineSpec("chain", k) if k else PLAIN)
    result = run(engine, limit=1000).result
    assert result.stop_reason == "kv_full"
    assert len(result.output_ids) == N_CTX - len(PROMPT.token_ids) + 1


def test_one_token_needs_no_round(models: list[Transformer]) -> None:
    outcome = run(Engine(models[0], models[1], EngineSpec("chain", 4)), limit=1)
    assert outcome.result.stop_reason == "max_new_tokens"
    assert outcome.rounds == ()
    assert outcome.result.tpot_s is None


def test_rounds_are_told_and_add_up(models: list[Transformer]) -> None:
    told: list[RoundTrace] = []
    engine = Engine(models[0], models[1], EngineSpec("chain", 4))
    outcome = engine.run_request(PROMPT, 24, (), lambda trace, _: told.append(trace))
    assert tuple(told) == outcome.rounds
    assert [trace.round for trace in told] == list(range(len(told)))
    assert 1 + sum(trace.acceptance_length for trace in told) == len(outcome.result.output_ids)
    assert all(trace.draft_passes == trace.nodes_drafted == trace.nodes_verified - 1 for trace in told)
    spent = sum(trace.round_s for trace in told)
    assert spent <= outcome.decode_end_s - outcome.decode_start_s
    assert all(t.draft_s + t.verify_compute_s + t.projection_s <= t.round_s for t in told)


def test_the_best_five_after_the_prompt(models: list[Transformer]) -> None:
    result = plain(models, 2).result
    ids, logits = zip(*result.top5_after_prompt, strict=True)
    assert ids[0] == result.output_ids[0]
    assert logits[0] - logits[1] == pytest.approx(result.margins[0])
    assert list(logits) == sorted(logits, reverse=True)


@pytest.mark.parametrize(
    ("prompt", "limit", "named"),
    [
        (PromptSpec("long", (1,) * (N_CTX + 1)), 4, f"'long' has {N_CTX + 1} tokens"),
        (PromptSpec("empty", ()), 4, "'empty' has 0 tokens"),
        (PromptSpec("odd", (1, 100_000)), 4, "token id 100000"),
        (PROMPT, 0, "max_new_tokens=0"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused(
    models: list[Transformer], prompt: PromptSpec, limit: int, named: str
) -> None:
    with pytest.raises(AgentFailure, match=named) as caught:
        Engine(models[0], None, PLAIN).run_request(prompt, limit, ())
    assert caught.value.kind == "bad_spec"


def test_broken_weights_are_named(tmp_path: Path) -> None:
    with tiny_transformers(tmp_path, TARGET, n_ctx=N_CTX) as (model,):
        assert isinstance(model.source, MemorySource)
        model.source.poison("globals")
        with pytest.raises(AgentFailure, match="tiny qwen2") as caught:
            run(Engine(model, None, PLAIN))
    assert caught.value.kind == "nan_logits"


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (EngineSpec("oracle"), "autoregressive, chain"),
        (EngineSpec("chain", 5), "needs a draft"),
        (EngineSpec("chain", 0), "not 0"),
    ],
)
def test_a_strategy_that_cannot_work_is_refused(models: list[Transformer], spec: EngineSpec, named: str) -> None:
    with pytest.raises(AgentFailure, match=named):
        Engine(models[0], None if spec.draft_k else models[1], spec)


def test_a_decoded_text_is_exact(models: list[Transformer]) -> None:
    outcome = run(Engine(models[0], models[1], EngineSpec("chain", 4)), limit=80)
    output = outcome.result.output_ids
    tolerance = tie_tolerance(models[0], (*PROMPT.token_ids, *output[:-1]), round_tokens=5)
    assert tolerance < 0.05
    count = examined(models[0], PROMPT.token_ids, output, tolerance)
    assert (count.exact_tokens + count.tie_tokens, count.diverged_tokens, count.diverged_at) == (80, 0, None)


def test_a_changed_token_diverges_and_a_close_one_ties(models: list[Transformer]) -> None:
    result = plain(models).result
    second = result.top5_after_prompt[1][0]
    changed = (second,)
    margin = result.margins[0]
    count = examined(models[0], PROMPT.token_ids, changed, tolerance=margin * 0.9)
    assert (count.exact_tokens, count.tie_tokens, count.diverged_tokens, count.diverged_at) == (0, 0, 1, 0)
    count = examined(models[0], PROMPT.token_ids, changed, tolerance=margin * 1.1)
    assert (count.exact_tokens, count.tie_tokens, count.diverged_tokens, count.diverged_at) == (0, 1, 0, None)
