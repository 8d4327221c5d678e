import hashlib
import json
from contextlib import suppress
from pathlib import Path

import pytest
from gguf import GGUFReader
from hypothesis import given, settings
from hypothesis import strategies as st

from device_agent.protocol import PackManifest, from_json
from orchestrator.errors import ModelError
from orchestrator.models import packer
from orchestrator.models.gguf_file import open_gguf
from orchestrator.models.packer import pack
from tests.fakes.tiny_gguf import TinyModel, write_tiny_gguf

MODELS = [
    TinyModel("llama", "Q8_0"),
    TinyModel("llama", "Q4_1", tied=False),
    TinyModel("qwen2", "Q4_K", d_model=256, d_ff=256),
    TinyModel("qwen2", "F16", tied=False),
    TinyModel("qwen3", "Q8_0", head_dim=32),
]


def packed(gguf: Path, packs: Path) -> tuple[Path, PackManifest]:
    folder = packs / pack(open_gguf(gguf), "0" * 64, packs)
    return folder, from_json(PackManifest, json.loads((folder / "model.json").read_text()))


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{m.architecture}-{m.quantisation}")
def test_pack_holds_every_byte_of_the_gguf(tmp_path: Path, model: TinyModel) -> None:
    gguf = write_tiny_gguf(tmp_path / "m.gguf", model)
    folder, manifest = packed(gguf, tmp_path / "packs")
    extents = {e.name: b"".join((folder / c.file).read_bytes() for c in e.chunks) for e in manifest.extents}
    original = {tensor.name: tensor for tensor in GGUFReader(gguf).tensors}
    assert {tensor.name for tensor in manifest.tensors} == set(original)
    for tensor in manifest.tensors:
        data = extents[tensor.extent][tensor.offset : tensor.offset + tensor.nbytes]
        assert data == original[tensor.name].data.tobytes()
        assert tensor.offset % 64 == 0
    assert ("output" in extents) is not model.tied


def test_hash_names_the_manifest_and_chunks_are_whole_blocks(tmp_path: Path) -> None:
    folder, manifest = packed(write_tiny_gguf(tmp_path / "m.gguf"), tmp_path / "packs")
    assert folder.name == hashlib.sha256((folder / "model.json").read_bytes()).hexdigest()
    for chunk in [chunk for extent in manifest.extents for chunk in extent.chunks]:
        data = (folder / chunk.file).read_bytes()
        assert len(data) == chunk.nbytes
        assert len(data) % 4096 == 0
        assert hashlib.sha256(data).hexdigest() == chunk.sha256
    assert [e.name for e in manifest.extents if e.name.startswith("layer")] == ["layer.0", "layer.1"]


def test_large_extents_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packer, "WHOLE_CHUNK_LIMIT", 16384)
    monkeypatch.setattr(packer, "CHUNK", 8192)
    gguf = write_tiny_gguf(tmp_path / "m.gguf")
    folder, manifest = packed(gguf, tmp_path / "packs")
    embedding = next(e for e in manifest.extents if e.name == "embedding")
    assert [c.nbytes for c in embedding.chunks[:-1]] == [8192] * (len(embedding.chunks) - 1)
    assert sum(c.nbytes for c in embedding.chunks) == embedding.nbytes
    data = b"".join((folder / c.file).read_bytes() for c in embedding.chunks)
    assert data.startswith(GGUFReader(gguf).tensors[0].data.tobytes())


def test_packing_again_gives_the_same_pack(tmp_path: Path) -> None:
    gguf = write_tiny_gguf(tmp_path / "m.gguf")
    first, _ = packed(gguf, tmp_path / "packs")
    assert packed(gguf, tmp_path / "packs")[0] == first
    assert [p.name for p in (tmp_path / "packs").iterdir()] == [first.name]


def test_nothing_is_left_of_a_pack_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packer, "_write_durably", full)
    with pytest.raises(OSError, match="No space"):
        packed(write_tiny_gguf(tmp_path / "m.gguf"), tmp_path / "packs")
    assert list((tmp_path / "packs").iterdir()) == []


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (TinyModel(architecture="gemma3"), "architecture 'gemma3' is not supported"),
        (TinyModel(quantisation="F64"), r"tensor '\S+' has type F64, which no kernel multiplies"),
    ],
)
def test_unsupported_models_are_refused(tmp_path: Path, model: TinyModel, reason: str) -> None:
    gguf = write_tiny_gguf(tmp_path / "m.gguf", model)
    with pytest.raises(ModelError, match=reason):
        pack(open_gguf(gguf), "", tmp_path / "packs")
    assert not (tmp_path / "packs").exists()


def test_foreign_and_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"PK\x03\x04")
    with pytest.raises(ModelError, match="not a GGUF"):
        open_gguf(tmp_path / "m.gguf")
    with pytest.raises(ModelError, match="no such file"):
        open_gguf(tmp_path / "none.gguf")


@settings(max_examples=30, deadline=None)
@given(share=st.floats(0, 0.999))
def test_a_truncated_file_is_refused_wherever_it_was_cut(
    tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    gguf = write_tiny_gguf(tmp_path_factory.mktemp("cut") / "m.gguf")
    data = gguf.read_bytes()
    gguf.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ModelError, match=r"truncated|not a GGUF"):
        open_gguf(gguf)


@settings(max_examples=60, deadline=None)
@given(place=st.integers(4, 2000), value=st.integers(0, 255))
def test_a_corrupt_header_never_escapes_as_anything_else(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int
) -> None:
    gguf = write_tiny_gguf(tmp_path_factory.mktemp("bad") / "m.gguf")
    data = bytearray(gguf.read_bytes())
    data[place] = value
    gguf.write_bytes(data)
    with suppress(ModelError):
        pack(open_gguf(gguf), "", gguf.parent / "packs")
