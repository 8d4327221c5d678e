import pytest

from benchmarks.prompts import all_prompts, spread, workload
from benchmarks.scope import FULL, QUICK, Scope


class Bytes:
    """A tokenizer of bytes."""

    size = 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        return self.encode(messages[-1]["content"])


@pytest.mark.parametrize("scope", [FULL, QUICK], ids=lambda scope: scope.name)
def test_no_prompt_is_taken_twice_nor_calibrated_on(scope: Scope) -> None:
    work = workload(scope, Bytes())
    taken = [prompt.token_ids for group in (*work.evaluation, work.calibration) for prompt in group.prompts]
    assert len(taken) == len(set(taken)) == scope.sets * scope.prompts + scope.calibration_prompts


def test_a_whole_run_is_as_large_as_the_figures_ask() -> None:
    work = workload(FULL, Bytes())
    assert len(work.evaluation) >= 3
    assert all(len(group.prompts) == FULL.prompts for group in work.evaluation)
    assert FULL.tokens >= 128
    assert FULL.plain_tokens >= 32
    assert {group.name.partition("-")[0] for group in work.evaluation} == {"code", "chat"}


def test_spreading_keeps_all() -> None:
    code, _ = all_prompts()
    assert sorted(prompt.id for prompt in spread(code)) == sorted(prompt.id for prompt in code)
