import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.main import run
from tests.fakes.tiny_pair import tiny_pair

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A LEVER_HOME with the pair `tiny`."""
    monkeypatch.setenv("LEVER_HOME", str(tmp_path / "home"))
    tiny_pair(tmp_path / "home")
    return tmp_path / "home"


def generated(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["generate", *arguments, "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_text_and_ids_are_the_same_prompt(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = generated(capsys, "tiny", "--prompt", "<|im_start|>hello world", "--max-new-tokens", "6")
    ids = ",".join(map(str, text["prompt_ids"]))
    again = generated(capsys, "tiny", "--ids", ids, "--max-new-tokens", "6", "--engine", "chain", "--storage", "flash")
    assert text["prompt_ids"][0] == 1
    assert len(text["output_ids"]) == 6 or text["stop_reason"] == "stop_token"
    assert again["output_ids"] == text["output_ids"]
    assert len(text["top5_after_prompt"]) == 5
    assert text["top5_after_prompt"][0][0] == text["output_ids"][0]
    assert again["tags"]["exactness"].startswith("exact")
    assert list((home / "generate").iterdir()) == []


def test_chat_puts_the_prompt_into_the_template(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = generated(capsys, "tiny", "--prompt", "hello", "--max-new-tokens", "1")
    chat = generated(capsys, "tiny", "--prompt", "hello", "--chat", "--max-new-tokens", "1")
    assert chat["prompt_ids"][0] == 1
    assert set(plain["prompt_ids"]) < set(chat["prompt_ids"])


def test_people_see_text_ids_logits_and_metrics(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "tiny", "--ids", "1,50", "--max-new-tokens", "3"]) == 0
    said = capsys.readouterr().out
    for expected in ("prompt ids: 1,50", "output ids: ", "best after the prompt", "tpot_s", "exactness: exact"):
        assert expected in said


def test_a_full_cache_is_a_reason_that_says_how_full(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = ",".join(["50", "60"] * 1022)
    assert run(["generate", "tiny", "--ids", ids, "--max-new-tokens", "64"]) == 0
    assert "stopped by: kv_full (the KV cache holds 2048 tokens)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nope", "--ids", "1"], 2, "model pair 'nope' is not added"),
        (["tiny"], 2, "give either --prompt or --ids"),
        (["tiny", "--ids", "1", "--prompt", "x"], 2, "give either --prompt or --ids"),
        (["tiny", "--prompt", ""], 2, "the prompt has no tokens"),
        (["tiny", "--ids", "1,x"], 2, "'1,x' is not a list of numbers"),
        (["tiny", "--ids", "1,272"], 2, "token id 272 is not in the vocabulary"),
        (["tiny", "--ids", "-1"], 2, "token id -1 is not in the vocabulary"),
        (["tiny", "--ids", ",".join(["1"] * 2049)], 2, "the prompt has 2049 tokens, the KV cache holds 2048"),
        (["tiny", "--ids", "1", "--dram-budget-mb", "20"], 2, "dram_budget_mb=20 is too small"),
        (["tiny", "--ids", "1", "--flash-bandwidth-mb-s", "0"], 2, "--flash-bandwidth-mb-s"),
        (["tiny", "--ids", "1", "--dram-budget-mb", "nan", "--storage", "flash"], 2, "nan is not a finite number"),
        (["tiny", "--ids", "1", "--flash-bandwidth-mb-s", "inf"], 2, "inf is not a finite number"),
        (["tiny", "--ids", "1", "--temperature", "nan"], 2, "nan is not a finite number"),
        (["tiny", "--prompt", "a\udcff\udcfe"], 2, "--prompt is not UTF-8 text: at character 1"),
        (["tiny", "--ids", "1", "--max-new-tokens", "0"], 2, "--max-new-tokens"),
        (["tiny", "--ids", "1", "--engine", "warp"], 2, "'warp' is not one of"),
    ],
)
def test_bad_input(home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str) -> None:
    assert run(["generate", *arguments]) == code
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert not (home / "generate").exists()


def test_a_corrupt_pack_is_named_and_the_job_kept(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunk = next((home / "models" / "packs").glob("*/layer.3.0.bin"))
    chunk.write_bytes(b"short")
    assert run(["generate", "tiny", "--ids", "1"]) == 1
    error = capsys.readouterr().err
    assert f"pack_corrupt: {chunk}: has 5 bytes" in error
    assert "Traceback" not in error
    assert len(list((home / "generate").iterdir())) == 1


def test_four_flipped_bytes_in_a_layer_are_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "tiny", "--ids", "1", "--max-new-tokens", "1"]) == 0
    chunk = next((home / "models" / "packs").glob("*/layer.3.0.bin"))
    data = bytearray(chunk.read_bytes())
    data[100:104] = bytes(byte ^ 1 for byte in data[100:104])
    chunk.write_bytes(data)
    assert run(["generate", "tiny", "--ids", "1"]) == 1
    assert f"pack_corrupt: {chunk} was changed" in capsys.readouterr().err


def check_case(capsys: pytest.CaptureFixture[str], pair: str, model: str) -> None:
    case = json.loads((DATA / f"greedy_{model}.json").read_text())[0]
    found = generated(capsys, pair, "--prompt", case["text"], "--max-new-tokens", "12", "--engine", "chain")
    assert found["prompt_ids"] == case["prompt_ids"]
    ours = dict(map(tuple, found["top5_after_prompt"]))
    for token, logit in case["top5_after_prompt"]:
        assert token not in ours or ours[token] == pytest.approx(logit, abs=0.6)
    assert found["top5_after_prompt"][0][0] == case["top5_after_prompt"][0][0]


def test_smollm2_says_what_llama_cpp_says(smollm2_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_case(capsys, "smollm2", "smollm2-135m")
