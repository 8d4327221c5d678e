from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.prompts import all_prompts, spread, workload
from benchmarks.scope import FULL, QUICK, Scope
from device_agent.protocol import PromptSpec
from orchestrator.cli.calibrate import calibration_prompts
from orchestrator.errors import ConfigError
from tests.fakes.tiny_pair import tiny_pair


class Bytes:
    """A tokenizer of bytes."""

    size = 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        return self.encode(messages[-1]["content"])


@pytest.fixture
def learning(tmp_path: Path) -> tuple[PromptSpec, ...]:
    """The bundled calibration prompts, as a pair's tokens."""
    return calibration_prompts(*tiny_pair(tmp_path))


@pytest.mark.parametrize("scope", [FULL, QUICK], ids=lambda scope: scope.name)
def test_no_prompt_is_evaluated_twice(scope: Scope, learning: tuple[PromptSpec, ...]) -> None:
    work = workload(scope, Bytes(), learning)
    taken = [prompt.token_ids for group in work.evaluation for prompt in group.prompts]
    assert len(taken) == len(set(taken)) == scope.sets * scope.prompts
    assert len(work.calibration.prompts) == scope.calibration_prompts


def test_no_prompt_that_was_learnt_from_is_evaluated(tmp_path: Path) -> None:
    store, pair = tiny_pair(tmp_path)
    tokenizer = store.tokenizer(pair.name)
    learning = calibration_prompts(store, pair)
    evaluated = workload(FULL, tokenizer, learning).evaluation[0].prompts[0]
    with pytest.raises(ConfigError, match=f"'{evaluated.id}' is calibrated on as 'known'"):
        workload(FULL, tokenizer, (*learning, replace(evaluated, id="known")))


def test_a_whole_run_is_as_large_as_the_figures_ask(learning: tuple[PromptSpec, ...]) -> None:
    work = workload(FULL, Bytes(), learning)
    assert len(work.evaluation) >= 3
    assert all(len(group.prompts) == FULL.prompts for group in work.evaluation)
    assert FULL.tokens >= 128
    assert FULL.plain_tokens >= 32
    assert {group.name.partition("-")[0] for group in work.evaluation} == {"code", "chat"}


def test_spreading_keeps_all() -> None:
    code, _ = all_prompts()
    assert sorted(prompt.id for prompt in spread(code)) == sorted(prompt.id for prompt in code)
