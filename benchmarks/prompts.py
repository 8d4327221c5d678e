"""The prompts: HumanEval and a small chat set, in evaluation sets; others, never evaluated, are for calibration."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from benchmarks.scope import Scope
from device_agent.protocol import PromptSpec
from orchestrator.schema import WorkloadConf
from orchestrator.sweeps.workload import Prompt, Tokenizer, encode_prompts, read_prompts

CHAT = Path(__file__).with_name("prompts.jsonl")
CALIBRATION_CODE = 120  # HumanEval problems from here on are for calibration, those before for evaluation
CALIBRATION_CHAT = 6  # the same for the chat set
STRIDE = 17  # between the HumanEval problems taken, so that neighbours, which are alike, are not together


@dataclass(frozen=True)
class PromptSet:
    name: str
    prompts: tuple[PromptSpec, ...]


@dataclass(frozen=True)
class Workload:
    evaluation: tuple[PromptSet, ...]
    calibration: PromptSet


def workload(scope: Scope, tokenizer: Tokenizer) -> Workload:
    """Evaluation sets are of code and of chat in turn: the second of every three is chat."""
    code, chat = all_prompts()
    pools = {"code": iter(spread(code[:CALIBRATION_CODE])), "chat": iter(chat[:CALIBRATION_CHAT])}
    kinds = list(islice(cycle(("code", "chat", "code")), scope.sets))
    sets = [(f"{kind}-{number}", list(islice(pools[kind], scope.prompts))) for number, kind in enumerate(kinds, 1)]
    mixed = interleave(spread(code[CALIBRATION_CODE:]), chat[CALIBRATION_CHAT:])
    calibration = mixed[: scope.calibration_prompts]
    encoded = [PromptSet(name, encode_prompts(prompts, tokenizer, chat=True)) for name, prompts in sets]
    return Workload(tuple(encoded), PromptSet("calibration", encode_prompts(calibration, tokenizer, chat=True)))


def all_prompts() -> tuple[list[Prompt], list[Prompt]]:
    """HumanEval's and the chat set's."""
    code = read_prompts(WorkloadConf(name="humaneval", source="humaneval"))
    return code, read_prompts(WorkloadConf(name="chat", file=str(CHAT)))


def spread(prompts: list[Prompt]) -> list[Prompt]:
    """All of them, each STRIDE after the one before."""
    return [prompts[i] for start in range(STRIDE) for i in range(start, len(prompts), STRIDE)]


def interleave(code: list[Prompt], chat: list[Prompt]) -> list[Prompt]:
    """Two of code, one of chat, and so on while both last."""
    groups = zip(code[::2], code[1::2], chat, strict=False)
    return [prompt for group in groups for prompt in group]
