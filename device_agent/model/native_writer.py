"""Writing a pack in layouts of this device's kernels: extent by extent, some thousand rows of a matrix at a time."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from device_agent.kernels.layouts import GROUP, converted
from device_agent.kernels.quantize import quantized
from device_agent.model.pack import LAYOUTS, PLAIN_OUTPUT, Pack
from device_agent.model.source import Bytes
from device_agent.model.table_rows import TableRows
from device_agent.protocol import ChunkSpec, ExtentSpec, TensorSpec, to_json

BLOCK = 4096  # O_DIRECT
ALIGNMENT = 64
AT_ONCE = 128 * GROUP  # rows: an output projection has 200 MB


def matrices(pack: Pack) -> list[TensorSpec]:
    """What is multiplied by: all weights of two dimensions but an embedding, of which single rows are read."""
    read = "token_embd.weight" if "output.weight" in pack.tensors else ""
    return [spec for spec in pack.manifest.tensors if len(spec.shape) == 2 and spec.name != read]


@dataclass(frozen=True)
class Form:
    """How a matrix is to lie: its tensor type, and the layout."""

    kind: str
    layout: str


def write_native(pack: Pack, forms: Mapping[str, Form], folder: Path) -> None:
    """Write `pack` to `folder`/<its hash>, the matrices named in `forms` as said there. Raises OSError."""
    writer = _Writer(pack, forms, folder / "unnamed")
    for extent in pack.manifest.extents:
        writer.add(extent)
    writer.finish()


class _Writer:
    def __init__(self, pack: Pack, forms: Mapping[str, Form], folder: Path) -> None:
        self._pack, self._forms, self._folder = pack, forms, folder
        self._tied = "output.weight" not in pack.tensors
        self._extents: list[ExtentSpec] = []
        self._tensors: list[TensorSpec] = []
        self._layouts: dict[str, str] = {}
        folder.mkdir()

    def add(self, extent: ExtentSpec) -> None:
        members = [spec for spec in self._pack.manifest.tensors if spec.extent == extent.name]
        if not any(spec.name in self._forms for spec in members):
            self._link(extent, members)
        elif extent.name.startswith("layer."):
            self._convert(extent.name, [(spec, spec.name) for spec in members])
        else:
            self._add_output(extent, members[0])

    def finish(self) -> None:
        manifest = replace(self._pack.manifest, extents=tuple(self._extents), tensors=tuple(self._tensors))
        data = json.dumps(to_json(manifest), sort_keys=True).encode()
        (self._folder / LAYOUTS).write_text(json.dumps({"by_tensor": self._layouts}))
        (self._folder / "model.json").write_bytes(data)
        self._folder.rename(self._folder.with_name(hashlib.sha256(data).hexdigest()))

    def _add_output(self, extent: ExtentSpec, spec: TensorSpec) -> None:
        """Twice: by rows for whoever needs some of them, and as it is multiplied by."""
        name = extent.name if self._tied else PLAIN_OUTPUT
        tensor = spec.name if self._tied else PLAIN_OUTPUT
        self._link(replace(extent, name=name), [replace(spec, name=tensor, extent=name)])
        self._convert("output", [(spec, "output.weight")])

    def _link(self, extent: ExtentSpec, members: list[TensorSpec]) -> None:
        for chunk in extent.chunks:
            _link_or_copy(self._pack.folder / chunk.file, self._folder / chunk.file)
        self._extents.append(extent)
        self._tensors += members

    def _convert(self, name: str, members: list[tuple[TensorSpec, str]]) -> None:
        """Write `members`, under the tensor names beside them, as extent `name`."""
        out = _Out(self._folder / f"native.{name}.bin")
        for spec, tensor in members:
            offset = out.align(ALIGNMENT)
            form = self._forms.get(spec.name)
            if form:
                self._layouts[tensor] = form.layout
            for part in self._parts(spec, form):
                out.write(part)
            placed = replace(spec, name=tensor, extent=name, offset=offset, nbytes=out.nbytes - offset)
            self._tensors.append(replace(placed, ggml_type=form.kind) if form else placed)
        out.align(BLOCK)
        self._extents.append(ExtentSpec(name, out.nbytes, (out.close(),)))

    def _parts(self, spec: TensorSpec, form: Form | None) -> Iterator[Bytes]:
        if form is None:
            yield _stored(self._pack, spec)
            return
        table, (columns, count) = TableRows(self._pack, spec, None), spec.shape
        for first in range(0, count, AT_ONCE):
            ids = np.arange(first, min(first + AT_ONCE, count), dtype=np.int32)
            raw = table.raw(ids) if form.kind == spec.ggml_type else quantized(form.kind, table.rows(ids))
            yield converted(form.layout, form.kind, columns, raw)
        table.close()


class _Out:
    """A file that is hashed while it is written."""

    def __init__(self, file: Path) -> None:
        self._file, self._out, self._hash = file, file.open("wb"), hashlib.sha256()
        self.nbytes = 0

    def write(self, data: Bytes) -> None:
        self._out.write(data.data)
        self._hash.update(data.data)
        self.nbytes += data.nbytes

    def align(self, multiple: int) -> int:
        """Zeros up to the next multiple, which is returned."""
        self.write(np.zeros(-self.nbytes % multiple, np.uint8))
        return self.nbytes

    def close(self) -> ChunkSpec:
        self._out.flush()
        os.fsync(self._out.fileno())
        self._out.close()
        return ChunkSpec(self._file.name, self.nbytes, self._hash.hexdigest())


def _stored(pack: Pack, spec: TensorSpec) -> Bytes:
    """Of an extent in one file, as all layers are."""
    (chunk,) = pack.extents[spec.extent].chunks
    return np.fromfile(pack.folder / chunk.file, np.uint8, spec.nbytes, offset=spec.offset)


def _link_or_copy(source: Path, target: Path) -> None:
    """Android's policy does not let the shell make hard links everywhere."""
    try:
        target.hardlink_to(source)
    except PermissionError:
        shutil.copyfile(source, target)
