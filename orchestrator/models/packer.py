"""GGUF → pack: the same tensor bytes, each layer one 4 KiB-aligned extent in the order that it is read (ENGINE §2)."""

from __future__ import annotations

import filecmp
import hashlib
import json
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from device_agent.protocol import ChunkSpec, ExtentSpec, HyperParams, PackManifest, TensorSpec, to_json
from orchestrator.models.architecture import GLOBALS, LAYER_TENSORS, checked_params
from orchestrator.models.gguf_file import GgufFile, GgufTensor
from orchestrator.models.store import TEMPORARY

PACK_VERSION = 1
BLOCK = 4096  # O_DIRECT
TENSOR_ALIGNMENT = 64  # cache line, and what the kernels' vector loads want
WHOLE_CHUNK_LIMIT = 64 << 20  # an extent up to this size is one file
CHUNK = 32 << 20  # larger extents are cut at this size


Advance = Callable[[int], None]  # called with bytes done since the last call


def pack(gguf: GgufFile, source_sha256: str, packs: Path, advance: Advance = lambda _: None) -> str:
    """Write `gguf` as `packs/<hash>/` and return the hash; the folder appears complete or not at all.

    Raises ModelError when the model is not one that the kernels compute.
    """
    hyper = checked_params(gguf)
    packs.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=packs))
    try:
        manifest = _write(gguf, hyper, source_sha256, folder, advance)
        data = json.dumps(to_json(manifest), sort_keys=True, indent=1).encode()
        (folder / "model.json").write_bytes(data)
        folder.chmod(0o755)
        return _into_place(folder, packs / hashlib.sha256(data).hexdigest())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _into_place(folder: Path, target: Path) -> str:
    """A whole pack stays, for it may be in use; a damaged one makes room. A killed swap leaves a TEMPORARY name."""
    if _same_files(folder, target):
        return target.name
    old = folder.with_name(f"{folder.name}-old")
    if target.exists():
        target.rename(old)
    folder.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    return target.name


def _same_files(folder: Path, target: Path) -> bool:
    names = [file.name for file in folder.iterdir()]
    return len(filecmp.cmpfiles(folder, target, names, shallow=False)[0]) == len(names)


def _write(gguf: GgufFile, hyper: HyperParams, sha256: str, folder: Path, advance: Advance) -> PackManifest:
    extents: list[ExtentSpec] = []
    tensors: list[TensorSpec] = []
    with gguf.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as source:
        for name, members in _extents(gguf, hyper):
            placed = _place(name, members)
            data = _assemble(placed, members, source)
            tensors += placed
            extents.append(_write_extent(folder, name, data))
            advance(len(data))
    return PackManifest(
        version=PACK_VERSION,
        model_name=str(gguf.get("general.name", gguf.path.stem)),
        source_sha256=sha256,
        hyper=hyper,
        extents=tuple(extents),
        tensors=tuple(tensors),
    )


def _extents(gguf: GgufFile, hyper: HyperParams) -> list[tuple[str, list[GgufTensor]]]:
    groups = {"globals": list(GLOBALS), "embedding": ["token_embd.weight"], "output": ["output.weight"]}
    groups |= {f"layer.{n}": [f"blk.{n}.{name}" for name in LAYER_TENSORS] for n in range(hyper.n_layers)}
    found = {name: [gguf.tensors[m] for m in members if m in gguf.tensors] for name, members in groups.items()}
    return [(name, members) for name, members in found.items() if members]


def _place(extent: str, members: list[GgufTensor]) -> list[TensorSpec]:
    placed, offset = [], 0
    for tensor in members:
        placed.append(TensorSpec(tensor.name, tensor.ggml_type, tensor.shape, extent, offset, tensor.nbytes))
        offset = _up(offset + tensor.nbytes, TENSOR_ALIGNMENT)
    return placed


def _assemble(placed: list[TensorSpec], members: list[GgufTensor], source: mmap.mmap) -> bytearray:
    """The extent's bytes: the tensors at their offsets, zeros between them and up to the next block."""
    data = bytearray(_up(placed[-1].offset + placed[-1].nbytes, BLOCK))
    for spec, tensor in zip(placed, members, strict=True):
        data[spec.offset : spec.offset + spec.nbytes] = source[tensor.offset : tensor.offset + tensor.nbytes]
    return data


def _write_extent(folder: Path, name: str, data: bytearray) -> ExtentSpec:
    size = len(data) if len(data) <= WHOLE_CHUNK_LIMIT else CHUNK
    chunks: list[ChunkSpec] = []
    for start in range(0, len(data), size):
        part = memoryview(data)[start : start + size]
        file = folder / f"{name}.{len(chunks)}.bin"
        _write_durably(file, part)
        chunks.append(ChunkSpec(file.name, len(part), hashlib.sha256(part).hexdigest()))
    return ExtentSpec(name, len(data), tuple(chunks))


def _write_durably(file: Path, data: memoryview) -> None:
    with file.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
