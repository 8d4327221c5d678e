"""Changed weights are named, and unchanged ones are hashed once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from device_agent.failure import AgentFailure
from device_agent.model import contents
from device_agent.model.contents import MEMORY, unchanged
from device_agent.model.pack import Pack, open_pack
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

LAYER = "layer.1.0.bin"


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    return open_pack(write_pack(tmp_path, TinyModel(n_layers=3)))


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files hashed from now on."""
    names: list[str] = []
    real = contents._sha256

    def noting(file: Path) -> str:
        names.append(file.name)
        return real(file)

    monkeypatch.setattr(contents, "_sha256", noting)
    return names


def flip_four_bytes(file: Path) -> None:
    """In place, with the times of reading and writing put back."""
    before = file.stat()
    with file.open("r+b") as data:
        old = data.read(4)
        data.seek(0)
        data.write(bytes(byte ^ 0xFF for byte in old))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_what_nobody_touched_is_hashed_once(pack: Pack, hashed: list[str]) -> None:
    with unchanged(pack):
        pass
    assert sorted(hashed) == sorted(c.file for extent in pack.manifest.extents for c in extent.chunks)
    hashed.clear()
    with unchanged(pack):
        pass
    assert hashed == []


@pytest.mark.parametrize("known", [False, True])
def test_four_flipped_bytes_are_named(pack: Pack, known: bool) -> None:
    if known:
        with unchanged(pack):
            pass
    flip_four_bytes(pack.folder / LAYER)
    with pytest.raises(AgentFailure, match=rf"{LAYER} was changed: it hashes to") as failure, unchanged(pack):
        pass
    assert failure.value.kind == "pack_corrupt"
    with pytest.raises(AgentFailure, match=LAYER), unchanged(pack):
        pass  # a bad file is not remembered as a good one


def test_only_the_file_that_was_touched_is_hashed_again(pack: Pack, hashed: list[str]) -> None:
    with unchanged(pack):
        pass
    hashed.clear()
    (pack.folder / LAYER).touch()
    with unchanged(pack):
        pass
    assert hashed == [LAYER]


def test_a_change_while_a_job_runs_is_named(pack: Pack) -> None:
    with pytest.raises(AgentFailure, match=f"{LAYER} was changed while the job ran"), unchanged(pack):
        flip_four_bytes(pack.folder / LAYER)


def test_a_failure_within_is_not_hidden(pack: Pack) -> None:
    def fail() -> None:
        with unchanged(pack):
            flip_four_bytes(pack.folder / LAYER)
            raise AgentFailure("engine_error", "other")

    with pytest.raises(AgentFailure, match="other"):
        fail()


@pytest.mark.parametrize("text", ["", "no json", "[1]", '{"layer.1.0.bin": 7}'])
def test_a_memory_that_cannot_be_read_hides_nothing(pack: Pack, text: str) -> None:
    (pack.folder / MEMORY).write_text(text)
    flip_four_bytes(pack.folder / LAYER)
    with pytest.raises(AgentFailure, match=LAYER), unchanged(pack):
        pass
