"""Lever on tiny models: the text is the target's own whatever is drafted, and drafting stops where it does not pay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from device_agent.engine.costs import FlashLoad
from device_agent.engine.engine import Engine
from device_agent.engine.outcome import RequestOutcome
from device_agent.engine.strategy import Conditions
from device_agent.failure import AgentFailure
from device_agent.model.transformer import Transformer, open_transformer
from device_agent.protocol import DraftingSpec, EnergySpec, EngineSpec, PromptSpec
from tests.fakes.memory_source import MemorySource
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

TARGET = TinyModel(n_layers=4)
DRAFTS = {
    "target": TARGET,
    "akin": TinyModel(n_layers=4, noise=0.1),
    "random": TinyModel(n_layers=2, seed=5),
}
PROMPTS = ([5, 9, 30, 77], [100, 4, 100, 4, 100], list(range(20, 60)))
SLOW_FLASH = FlashLoad(1000, 4, 2), lambda: 2_000.0  # half a second a round: any drafting pays that hits


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("packs")
    return {name: write_pack(folder / name, model) for name, model in DRAFTS.items()}


@pytest.fixture
def models(packs: dict[str, Path]) -> Iterator[dict[str, Transformer]]:
    with ExitStack() as opened:
        yield {
            name: opened.enter_context(closing(open_transformer(MemorySource(pack), n_ctx=160, threads=1)))
            for name, pack in [*packs.items(), ("verifier", packs["target"])]
        }


def run(
    models: dict[str, Transformer],
    spec: EngineSpec,
    draft: str | None,
    slow: bool = True,
    tokens: int = 24,
    prompts: int = 3,
) -> list[RequestOutcome]:
    target = models["verifier"]
    load, bandwidth = SLOW_FLASH if slow else (FlashLoad(), lambda: None)
    conditions = Conditions(target, load, bandwidth, EnergySpec("model", 1.0, 2.0, 0.5))
    engine = Engine(target, models[draft] if draft else None, spec, conditions=conditions)
    return [engine.run_request(PromptSpec(str(i), tuple(ids)), tokens, ()) for i, ids in enumerate(PROMPTS[-prompts:])]


def texts(outcomes: list[RequestOutcome]) -> list[tuple[int, ...]]:
    return [outcome.result.output_ids for outcome in outcomes]


def lever(**drafting: object) -> EngineSpec:
    return EngineSpec("lever", drafting=DraftingSpec(**drafting), threads=1, n_ctx=160)  # type: ignore[arg-type]


@pytest.mark.parametrize(("objective", "trim"), [("latency", 0), ("energy", 64), ("edp", 64)])
@pytest.mark.parametrize("draft", DRAFTS)
def test_the_text_is_that_of_plain_decoding(
    models: dict[str, Transformer], draft: str, objective: str, trim: int
) -> None:
    plain = texts(run(models, EngineSpec(n_ctx=160, threads=1), None))
    found = run(models, lever(objective=objective, trim_vocabulary=trim), draft)
    assert texts(found) == plain


def test_a_good_draft_is_drafted_from_while_the_flash_reads(models: dict[str, Transformer]) -> None:
    rounds = [trace for outcome in run(models, lever(), "target") for trace in outcome.rounds]
    emitted = sum(trace.acceptance_length for trace in rounds)
    assert emitted / len(rounds) > 4


def test_a_useless_draft_is_left_alone(models: dict[str, Transformer]) -> None:
    """It agrees with the target by chance only; without reading to hide behind, rounds verify the root alone."""
    rounds = [trace for outcome in run(models, lever(), "random", slow=False) for trace in outcome.rounds]
    later = rounds[len(rounds) // 2 :]
    assert sum(trace.nodes_verified == 1 for trace in later) > 0.8 * len(later)


def test_drafting_can_be_switched_off(models: dict[str, Transformer]) -> None:
    rounds = [trace for outcome in run(models, lever(enabled=False), "target") for trace in outcome.rounds]
    assert {(trace.nodes_verified, trace.draft_passes) for trace in rounds} == {(1, 0)}


def test_the_caps_hold(models: dict[str, Transformer]) -> None:
    rounds = [trace for o in run(models, lever(max_nodes=5, max_depth=2), "target") for trace in o.rounds]
    assert max(trace.nodes_verified for trace in rounds) <= 6
    assert max(trace.acceptance_length for trace in rounds) <= 3


def test_the_report_says_what_drafting_rested_on(models: dict[str, Transformer]) -> None:
    engine = Engine(models["verifier"], models["akin"], lever())
    engine.run_request(PromptSpec("p", (5, 6, 7)), 12, ())
    report = engine.report()
    assert report["calibration"] == "none"
    assert set(report["verify_s_by_tokens"]) == {"1", "2", "4", "8", "16", "32"}
    assert min(report["verify_s_by_tokens"].values()) > 0
    assert report["lambda_tokens_per_s"] > 0


def test_the_kv_limit_is_a_stop_reason(models: dict[str, Transformer]) -> None:
    plain = run(models, EngineSpec(n_ctx=160, threads=1), None, tokens=400, prompts=1)
    found = run(models, lever(), "akin", tokens=400, prompts=1)
    assert texts(found) == texts(plain)
    assert {outcome.result.stop_reason for outcome in found} == {"kv_full"}


@pytest.mark.parametrize(
    ("spec", "draft", "word"),
    [
        (lever(), None, "draft model"),
        (lever(objective="speed"), "akin", "speed"),
        (lever(objective="edp"), "akin", "power"),
    ],
)
def test_bad_specs_are_refused(models: dict[str, Transformer], spec: EngineSpec, draft: str | None, word: str) -> None:
    with pytest.raises(AgentFailure, match=word) as failure:
        Engine(models["verifier"], models[draft] if draft else None, spec)
    assert failure.value.kind == "bad_spec"
