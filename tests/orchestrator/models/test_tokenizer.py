import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import ModelError
from orchestrator.models.gguf_file import open_gguf
from orchestrator.models.store import ModelStore
from orchestrator.models.tokenizer import ChatTokenizer
from orchestrator.models.tokenizer_build import save_tokenizer
from orchestrator.models.vocabulary import check_pair, read_vocabulary
from tests.fakes.tiny_gguf import TinyModel, write_tiny_gguf
from tests.fakes.tiny_pair import tiny_pair

DATA = Path(__file__).parents[2] / "data"


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DATA / name).read_text())
    return found


def check_cases(tokenizer: ChatTokenizer, model: str) -> None:
    for case in cases(f"tokenize_{model}.json"):
        assert tokenizer.encode(case["text"]) == case["ids"]
        assert tokenizer.decode(case["ids"]) == case["text"]
    for case in cases(f"greedy_{model}.json"):
        system = {"role": "system", "content": "You are a helpful assistant."}
        messages = [system, {"role": "user", "content": case["prompt"]}]
        assert tokenizer.encode_chat(messages) == case["prompt_ids"]


def test_smollm2_as_llama_cpp_says(smollm2: ModelStore) -> None:
    check_cases(smollm2.tokenizer("smollm2"), "smollm2-135m")


@pytest.mark.slow
def test_qwen_coder_as_llama_cpp_says(qwen_coder: ModelStore) -> None:
    check_cases(qwen_coder.tokenizer("qwen-coder"), "qwen2.5-coder-1.5b")


def test_merges_and_specials_of_a_tiny_model(tmp_path: Path) -> None:
    store, pair = tiny_pair(tmp_path)
    tokenizer = store.tokenizer("tiny")
    ids = tokenizer.encode("<|im_start|>hello the world<|im_end|>")
    assert ids[0] == 1
    assert ids[-1] == 2
    assert [tokenizer.decode([token]) for token in ids[1:-1]] == ["hello", " the", " world"]
    assert pair.stop_token_ids == (0, 2)
    assert tokenizer.encode_chat([{"role": "user", "content": "hello"}]) == tokenizer.encode(
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_template_that_refuses_says_so(tmp_path: Path) -> None:
    store, _ = tiny_pair(tmp_path)
    file = store.tokenizer_dir(store.pair("tiny").target_pack) / "chat.json"
    file.write_text(json.dumps({"template": "{{ raise_exception('no system role') }}", "bos": "", "eos": ""}))
    with pytest.raises(ModelError, match="no system role"):
        store.tokenizer("tiny").encode_chat([])
    file.write_text(json.dumps({"template": "{{ ''.__class__.__mro__ }}", "bos": "", "eos": ""}))
    with pytest.raises(ModelError, match="unsafe"):
        store.tokenizer("tiny").encode_chat([])


def test_unknown_pre_tokenizer_is_named(tmp_path: Path) -> None:
    vocabulary = read_vocabulary(open_gguf(write_tiny_gguf(tmp_path / "m.gguf")))
    with pytest.raises(ModelError, match="pre-tokenizer 'tekken'"):
        save_tokenizer(vocabulary.__class__(**{**vocabulary.__dict__, "pre": "tekken"}), tmp_path)


def vocabulary_of(tmp_path: Path, model: TinyModel) -> Any:
    return read_vocabulary(open_gguf(write_tiny_gguf(tmp_path / "m.gguf", model)))


def test_pairs_may_differ_by_fillers_only(tmp_path: Path) -> None:
    plain = vocabulary_of(tmp_path, TinyModel())
    check_pair(plain, vocabulary_of(tmp_path, TinyModel(padding=9)))
    check_pair(vocabulary_of(tmp_path, TinyModel(padding=9)), plain)
    longer = vocabulary_of(tmp_path, TinyModel(extra_token="zz"))
    with pytest.raises(ModelError, match="no token in the target and 'zz' in the draft"):
        check_pair(plain, longer)
    with pytest.raises(ModelError, match="'zz' in the target and 'qq' in the draft"):
        check_pair(longer, vocabulary_of(tmp_path, TinyModel(extra_token="qq")))
