from pathlib import Path

import pytest
import yaml

from orchestrator.cli.main import run
from orchestrator.models import add as add_module
from orchestrator.models.sources import FileSource
from orchestrator.models.store import ModelStore
from tests.fakes.tiny_gguf import TinyModel, write_tiny_gguf
from tests.fakes.tiny_pair import write_pair_files


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEVER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def add(name: str, target: Path, draft: Path) -> int:
    return run(["models", "add", name, "--target", str(target), "--draft", str(draft)])


def test_own_files_become_a_pair_that_hydra_finds(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = write_pair_files(tmp_path)
    assert add("mine", *files) == 0
    assert capsys.readouterr().out == "mine: added, tiny llama Q8_0 0 drafted by tiny llama Q8_0 0\n"
    assert yaml.safe_load((home / "conf" / "pair" / "mine.yaml").read_text()) == {"name": "mine"}
    assert ModelStore(home / "models").pair("mine").name == "mine"
    assert add("mine", *files) == 0
    assert "already there" in capsys.readouterr().out


def test_list_shows_what_is_there_and_what_could_be(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_tiny_gguf(tmp_path / "m.gguf")
    assert add("self", file, file) == 0
    capsys.readouterr()
    assert run(["models", "list"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("self: tiny llama Q8_0 0 (self-draft")
    assert [line.split(":")[0] for line in said] == ["self", "qwen-coder", "smollm2"]
    assert "`lever models add qwen-coder` (1609 MB)" in said[1]


def test_verify_names_the_damaged_file(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert add("mine", *write_pair_files(tmp_path)) == 0
    assert run(["models", "verify"]) == 0
    assert "mine: all files are as they were packed" in capsys.readouterr().out
    store = ModelStore(home / "models")
    chunk = store.pack_dir(store.pair("mine").target_pack) / "output.0.bin"
    chunk = chunk if chunk.exists() else chunk.with_name("embedding.0.bin")
    chunk.write_bytes(bytes(chunk.stat().st_size))
    assert run(["models", "verify", "mine"]) == 1
    said = capsys.readouterr()
    assert str(chunk) in said.out
    assert "error: mine: files are damaged" in said.err
    assert "Repair it: lever models add mine --target FILE.gguf --draft FILE.gguf" in said.err


@pytest.mark.parametrize("command", ["list", "verify"])
def test_a_broken_pair_does_not_hide_the_others(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert add("mine", *write_pair_files(tmp_path)) == 0
    for name in ("broken", "smollm2"):
        (home / "models" / "pairs" / f"{name}.json").write_text("{")
    capsys.readouterr()
    assert run(["models", command]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("mine: ")
    assert "broken.json is broken: " in said.out
    assert "smollm2: not added" not in said.out
    assert "error: broken, smollm2: files are damaged" in said.err
    assert "Repair it: lever models add smollm2\n" in said.err


@pytest.mark.parametrize("damage", [b"short", None])
def test_adding_again_repairs(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: bytes | None
) -> None:
    files = write_pair_files(tmp_path)
    assert add("mine", *files) == 0
    store = ModelStore(home / "models")
    chunk = store.pack_dir(store.pair("mine").target_pack) / "layer.0.0.bin"
    chunk.write_bytes(bytes(chunk.stat().st_size) if damage is None else damage)
    capsys.readouterr()
    assert add("mine", *files) == 0
    assert capsys.readouterr().out.startswith("mine: added")
    assert run(["models", "verify"]) == 0
    assert not list(store.packs.glob(".tmp-*"))


def test_a_damaged_pair_of_the_catalogue_is_fetched_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_pair_files(tmp_path)
    monkeypatch.setattr(add_module, "PackageSource", lambda model: FileSource(files[0]))
    assert run(["models", "add", "smollm2"]) == 0
    store = ModelStore(home / "models")
    chunk = store.pack_dir(store.pair("smollm2").target_pack) / "layer.0.0.bin"
    chunk.write_bytes(bytes(chunk.stat().st_size))
    assert run(["models", "verify"]) == 1
    assert run(["models", "add", "smollm2"]) == 0
    assert run(["models", "verify"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "nope"], "no pair 'nope' in the catalogue"),
        (["add", "x", "--target", "a.gguf"], "--target and --draft go together"),
        (["add", "x", "--target", "a.gguf", "--draft", "a.gguf"], "a.gguf: no such file"),
        (["add", "qwen-codr"], "Did you mean 'qwen-coder'?"),
        (["add", "x", "--target", "/", "--draft", "/"], "/: a folder, not a GGUF file"),
        (["add", "../x", "--target", "a.gguf", "--draft", "a.gguf"], "cannot be a pair's name"),
        (["verify", "nope"], "model pair 'nope' is not added"),
    ],
)
def test_bad_input(home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert run(["models", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_a_pair_of_strangers_is_refused(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_pair_files(tmp_path, draft=TinyModel(extra_token="zz"))
    assert add("mine", *files) == 2
    assert "cannot be a pair" in capsys.readouterr().err
    assert not (home / "conf").exists()
