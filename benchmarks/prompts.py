"""The prompts: HumanEval and a small chat set, in evaluation sets; others, never evaluated, are for calibration."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from benchmarks.scope import Scope
from device_agent.protocol import PromptSpec
from orchestrator.errors import ConfigError
from orchestrator.models.acceptance import prompt_hash
from orchestrator.schema import WorkloadConf
from orchestrator.sweeps.workload import Prompt, Tokenizer, encode_prompts, read_prompts

CHAT = Path(__file__).with_name("prompts.jsonl")
STRIDE = 17  # between the HumanEval problems taken, so that neighbours, which are alike, are not together


@dataclass(frozen=True)
class PromptSet:
    name: str
    prompts: tuple[PromptSpec, ...]


@dataclass(frozen=True)
class Workload:
    evaluation: tuple[PromptSet, ...]
    calibration: PromptSet  # what settings are tuned on: the first of `learning`
    learning: tuple[PromptSpec, ...]  # what acceptance is learnt from


def workload(scope: Scope, tokenizer: Tokenizer, learning: tuple[PromptSpec, ...]) -> Workload:
    """Evaluation sets are of code and of chat in turn: the second of every three is chat.

    Raises ConfigError when one of `learning` is an evaluated prompt.
    """
    code, chat = all_prompts()
    pools = {"code": iter(spread(code)), "chat": iter(chat)}
    kinds = list(islice(cycle(("code", "chat", "code")), scope.sets))
    sets = [(f"{kind}-{number}", list(islice(pools[kind], scope.prompts))) for number, kind in enumerate(kinds, 1)]
    encoded = [PromptSet(name, encode_prompts(prompts, tokenizer, chat=True)) for name, prompts in sets]
    _refuse_known(encoded, learning)
    return Workload(tuple(encoded), PromptSet("calibration", learning[: scope.calibration_prompts]), learning)


def _refuse_known(evaluation: list[PromptSet], learning: tuple[PromptSpec, ...]) -> None:
    known = {prompt_hash(prompt): prompt.id for prompt in learning}
    for prompt in (prompt for group in evaluation for prompt in group.prompts):
        if (learnt := known.get(prompt_hash(prompt))) is not None:
            raise ConfigError(f"prompt {prompt.id!r} is calibrated on as {learnt!r}", "Evaluate on other prompts.")


def all_prompts() -> tuple[list[Prompt], list[Prompt]]:
    """HumanEval's and the chat set's."""
    code = read_prompts(WorkloadConf(name="humaneval", source="humaneval"))
    return code, read_prompts(WorkloadConf(name="chat", file=str(CHAT)))


def spread(prompts: list[Prompt]) -> list[Prompt]:
    """All of them, each STRIDE after the one before."""
    return [prompts[i] for start in range(STRIDE) for i in range(start, len(prompts), STRIDE)]
