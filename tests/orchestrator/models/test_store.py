from pathlib import Path

import pytest

from orchestrator.errors import ModelError
from orchestrator.models.add import add_files
from orchestrator.models.store import ModelStore
from orchestrator.models.verify import verify_pair
from tests.fakes.tiny_gguf import TinyModel, write_tiny_gguf
from tests.fakes.tiny_pair import silent, tiny_pair, write_pair_files


def test_a_pair_that_is_not_there_names_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="'smollm2' is not added") as caught:
        ModelStore(tmp_path).pair("smollm2")
    assert caught.value.remedy == "Add it: lever models add smollm2"
    with pytest.raises(ModelError, match="cannot be a pair's name"):
        ModelStore(tmp_path).pair("../nope")


@pytest.mark.parametrize(("name", "close"), [("tinny", "Did you mean 'tiny'? "), ("smolm", "Did you mean 'smollm2'? ")])
def test_a_pair_that_nobody_knows_names_those_that_are_known(tmp_path: Path, name: str, close: str) -> None:
    store, _ = tiny_pair(tmp_path)
    with pytest.raises(ModelError, match=f"'{name}' is not added") as caught:
        store.pair(name)
    assert caught.value.remedy.startswith(f"{close}Known: tiny, qwen-coder, smollm2. Your own: lever models add ")


def test_adding_again_changes_nothing(tmp_path: Path) -> None:
    store, pair = tiny_pair(tmp_path)
    before = {file: file.stat().st_mtime_ns for file in store.root.rglob("*") if file.is_file()}
    assert tiny_pair(tmp_path)[1] == pair
    before[store.root / ".lock"] = (store.root / ".lock").stat().st_mtime_ns
    assert {file: file.stat().st_mtime_ns for file in store.root.rglob("*") if file.is_file()} == before
    assert store.pairs() == (pair,)


def test_a_name_is_not_taken_over_by_other_files(tmp_path: Path) -> None:
    store, _ = tiny_pair(tmp_path)
    files = write_pair_files(tmp_path / "other", TinyModel(seed=5), TinyModel(seed=6))
    with pytest.raises(ModelError, match="already added, from other files"):
        add_files(store, "tiny", *files, silent)


def test_one_file_for_both_is_a_self_draft(tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "models")
    file = write_tiny_gguf(tmp_path / "m.gguf")
    pair = add_files(store, "self", file, file, silent)
    assert pair.self_draft
    assert pair.draft_pack == pair.target_pack


def test_a_pair_that_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be a pair"):
        tiny_pair(tmp_path, draft=TinyModel(extra_token="zz"))
    store = ModelStore(tmp_path / "models")
    assert store.pairs() == ()
    assert list(store.packs.iterdir()) == []


def test_leftovers_of_a_killed_process_go(tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "models")
    (store.packs / ".tmp-dead").mkdir(parents=True)
    tiny_pair(tmp_path)
    assert not (store.packs / ".tmp-dead").exists()


def test_verify_names_what_changed(tmp_path: Path) -> None:
    store, pair = tiny_pair(tmp_path)
    assert verify_pair(store, pair, silent) == []
    chunk = store.pack_dir(pair.target_pack) / "layer.1.0.bin"
    data = bytearray(chunk.read_bytes())
    data[100] ^= 1
    chunk.write_bytes(data)
    (store.pack_dir(pair.draft_pack) / "globals.0.bin").unlink()
    problems = verify_pair(store, pair, silent)
    assert [p.split(": ")[0] for p in problems] == [
        str(chunk),
        str(store.pack_dir(pair.draft_pack) / "globals.0.bin"),
    ]
    assert not store.has_pair("tiny")


def test_a_broken_manifest_or_tokenizer_is_named(tmp_path: Path) -> None:
    store, pair = tiny_pair(tmp_path)
    (store.tokenizer_dir(pair.target_pack) / "tokenizer.json").write_text("{")
    assert "tokenizer cannot be read" in verify_pair(store, pair, silent)[0]
    (store.pack_dir(pair.draft_pack) / "model.json").write_text("{}")
    assert "model.json" in verify_pair(store, pair, silent)[0]
    with pytest.raises(ModelError, match=r"model\.json"):
        store.manifest(pair.draft_pack)
