"""A pack folder on this device: its manifest, and whether its files are all there at their full sizes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from device_agent.failure import AgentFailure
from device_agent.protocol import ExtentSpec, PackManifest, WireError, from_json

PACK_VERSION = 1


@dataclass(frozen=True)
class Pack:
    folder: Path
    manifest: PackManifest
    extents: dict[str, ExtentSpec]

    @property
    def layers(self) -> tuple[ExtentSpec, ...]:
        """The layers' extents, 0..L-1."""
        return tuple(self.extents[f"layer.{index}"] for index in range(self.manifest.hyper.n_layers))

    @property
    def tied(self) -> bool:
        """The embedding doubles as output projection."""
        return "output" not in self.extents


def open_pack(folder: Path) -> Pack:
    """Read and check `folder`; raises AgentFailure(pack_corrupt) naming the file that is wrong.

    Contents are not hashed here: the host has every chunk's sha256 checked once, when it is pushed.
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
    return Pack(folder, manifest, extents)


def _manifest(file: Path) -> PackManifest:
    try:
        return from_json(PackManifest, json.loads(file.read_bytes()))
    except FileNotFoundError:
        raise _corrupt(file, "no such file") from None
    except (ValueError, WireError) as error:
        raise _corrupt(file, f"not a manifest: {error}") from error


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
