"""A pack folder on this device: its manifest, and whether its files are all there at their full sizes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from device_agent.failure import AgentFailure
from device_agent.protocol import ExtentSpec, PackManifest, TensorSpec, WireError, from_json

PACK_VERSION = 1
LAYOUTS = "layouts.json"
PLAIN_OUTPUT = "output.rows"  # tensor of a kernel-native pack: its output projection by rows


@dataclass(frozen=True)
class Layouts:
    """layouts.json of a kernel-native pack."""

    by_tensor: dict[str, str]  # those that do not lie by rows


@dataclass(frozen=True)
class Pack:
    folder: Path
    manifest: PackManifest
    extents: dict[str, ExtentSpec]
    layouts: Mapping[str, str] = field(default_factory=dict)  # of tensors that do not lie by rows (kernels.layouts)

    @property
    def layers(self) -> tuple[ExtentSpec, ...]:
        """The layers' extents, 0..L-1."""
        return tuple(self.extents[f"layer.{index}"] for index in range(self.manifest.hyper.n_layers))

    @property
    def tensors(self) -> dict[str, TensorSpec]:
        return {spec.name: spec for spec in self.manifest.tensors}


def embedding_spec(pack: Pack) -> TensorSpec:
    return pack.tensors["token_embd.weight"]


def output_rows_spec(pack: Pack) -> TensorSpec:
    """The output projection where it lies by rows."""
    by_rows = (name for name in (PLAIN_OUTPUT, "output.weight") if name in pack.tensors and name not in pack.layouts)
    return pack.tensors[next(by_rows, "token_embd.weight")]


def open_pack(folder: Path) -> Pack:
    """Read and check `folder`; raises AgentFailure(pack_corrupt) naming the file that is wrong.

    Contents are not hashed here (model.contents does).
    """
    manifest = _manifest(folder / "model.json")
    _check_hash(folder)
    if manifest.version != PACK_VERSION:
        raise _corrupt(folder / "model.json", f"pack version {manifest.version}, this agent reads {PACK_VERSION}")
    extents = {extent.name: extent for extent in manifest.extents}
    wanted = ["globals", "embedding", *(f"layer.{index}" for index in range(manifest.hyper.n_layers))]
    if missing := [name for name in wanted if name not in extents]:
        raise _corrupt(folder / "model.json", f"extent {missing[0]!r} is missing")
    for extent in manifest.extents:
        _check_sizes(folder, extent)
    return Pack(folder, manifest, extents, _layouts(folder / LAYOUTS))


def _manifest(file: Path) -> PackManifest:
    try:
        return from_json(PackManifest, json.loads(file.read_bytes()))
    except FileNotFoundError:
        raise _corrupt(file, "no such file") from None
    except (ValueError, WireError) as error:
        raise _corrupt(file, f"not a manifest: {error}") from error


def _layouts(file: Path) -> dict[str, str]:
    try:
        return from_json(Layouts, json.loads(file.read_bytes())).by_tensor
    except FileNotFoundError:
        return {}
    except (ValueError, WireError) as error:
        raise _corrupt(file, f"not a list of layouts: {error}") from error


def _check_hash(folder: Path) -> None:
    """A pack is called by its manifest's hash: another one there would silently be another model."""
    found = hashlib.sha256((folder / "model.json").read_bytes()).hexdigest()
    if found != folder.name:
        raise _corrupt(folder / "model.json", f"pack {folder.name[:12]} was changed: it hashes to {found[:12]}")


def _check_sizes(folder: Path, extent: ExtentSpec) -> None:
    for chunk in extent.chunks:
        file = folder / chunk.file
        size = file.stat().st_size if file.is_file() else None
        if size != chunk.nbytes:
            found = "is missing" if size is None else f"has {size} bytes"
            raise _corrupt(file, f"{found}, expected {chunk.nbytes} bytes")
    if sum(chunk.nbytes for chunk in extent.chunks) != extent.nbytes:
        raise _corrupt(folder / "model.json", f"the chunks of {extent.name!r} do not add up to {extent.nbytes} bytes")


def _corrupt(file: Path, what: str) -> AgentFailure:
    return AgentFailure("pack_corrupt", f"{file}: {what}")
