"""Prompts from each place, and one message for whatever is wrong with them."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import ConfigError
from orchestrator.schema import WorkloadConf
from orchestrator.sweeps.workload import encode_prompts, read_prompts
from tests.fakes.models import END, START, LetterTokenizer


def from_file(path: Path, text: str, limit: int | None = None) -> WorkloadConf:
    path.write_text(text)
    return WorkloadConf(name="mine", file=str(path), limit=limit)


def test_chat_template_goes_around_text_and_messages_not_around_plain_text() -> None:
    prompts: list[dict[str, Any]] = [
        {"id": "t", "text": "hi"},
        {"id": "m", "messages": [{"role": "user", "content": "hi"}]},
    ]
    read = read_prompts(WorkloadConf(name="w", prompts=prompts))
    chat = encode_prompts(read, LetterTokenizer(), chat=True)
    expected = (START, *map(ord, "userhi"), END)
    assert [p.token_ids for p in chat] == [expected, expected]
    assert encode_prompts(read[:1], LetterTokenizer(), chat=False)[0].token_ids == tuple(map(ord, "hi"))


def test_a_file_has_a_prompt_a_line_and_a_limit(tmp_path: Path) -> None:
    lines = '{"text": "a", "category": "code"}\n\n{"id": 7, "text": "b"}\n{"id": "c", "text": "c"}\n'
    read = read_prompts(from_file(tmp_path / "p.jsonl", lines, limit=2))
    assert [(p.id, p.text) for p in read] == [("1", "a"), ("7", "b")]


def test_human_eval_has_its_problems_in_order() -> None:
    read = read_prompts(WorkloadConf(name="h", source="humaneval", limit=3))
    assert [p.id for p in read] == ["HumanEval/0", "HumanEval/1", "HumanEval/2"]
    assert "def has_close_elements" in (read[0].text or "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no prompts"),
        ("not json\n", r"p\.jsonl:1: not JSON"),
        ('{"id": "a", "text": "x"}\n[1]\n', r"p\.jsonl:2: .* is not a prompt"),
        ('{"id": "a"}\n', "needs either a text or messages"),
        ('{"id": "a", "text": ""}\n', "needs either"),
        ('{"id": "a", "text": "x", "messages": []}\n', "needs either"),
        ('{"id": "a", "messages": [{"role": "user"}]}\n', "needs either"),
        ('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n', "2 prompts with id 'a'"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_prompts(from_file(tmp_path / "p.jsonl", text))


def test_a_missing_or_binary_file_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_prompts(WorkloadConf(name="w", file=str(tmp_path / "none.jsonl")))
    (tmp_path / "b").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_prompts(WorkloadConf(name="w", file=str(tmp_path / "b")))


@pytest.mark.parametrize("given", [{}, {"source": "humaneval", "file": "x"}])
def test_prompts_come_from_exactly_one_place(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"has (no prompts|prompts from file and source)"):
        WorkloadConf(name="w", **given)  # type: ignore[arg-type]  # strings, whichever keys
