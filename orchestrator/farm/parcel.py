"""What is shipped to phones: a folder named by the hash of its manifest, which names every other file's sha256.

A pack (`packs/<hash>`, manifest model.json) and a runtime bundle (`runtime/<hash>`, manifest bundle.json) are such.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from device_agent.protocol import PackManifest
from orchestrator.errors import ModelError


class PackStore(Protocol):
    """The part of the model store that provisioning reads."""

    def pack_dir(self, pack_hash: str) -> Path:
        """Raises ModelError."""
        ...

    def manifest(self, pack_hash: str) -> PackManifest: ...


@dataclass(frozen=True)
class ParcelFile:
    name: str
    nbytes: int
    sha256: str


@dataclass(frozen=True)
class Parcel:
    kind: str  # packs | runtime: the folder under the phone's root
    hash: str
    folder: Path  # on this host
    files: tuple[ParcelFile, ...]  # in the order that they are pushed, the manifest last

    @property
    def path(self) -> str:
        """Relative to the phone's root."""
        return f"{self.kind}/{self.hash}"

    @property
    def nbytes(self) -> int:
        return sum(file.nbytes for file in self.files)


def pack_parcel(store: PackStore, pack_hash: str) -> Parcel:
    """Raises ModelError when the store does not have the pack."""
    folder = store.pack_dir(pack_hash)
    chunks = (chunk for extent in store.manifest(pack_hash).extents for chunk in extent.chunks)
    files = [ParcelFile(chunk.file, chunk.nbytes, chunk.sha256) for chunk in chunks]
    return Parcel("packs", pack_hash, folder, (*files, _measured(folder / "model.json")))


def bundle_parcel(folder: Path) -> Parcel:
    """A bundle folder as bundle.py makes it."""
    manifest = _measured(folder / "bundle.json")
    files = json.loads((folder / "bundle.json").read_bytes())["files"]
    return Parcel("runtime", manifest.sha256, folder, (*(ParcelFile(**file) for file in files), manifest))


def check_size(parcel: Parcel, file: ParcelFile) -> None:
    """Raises ModelError when this host's copy is gone or has another size."""
    try:
        nbytes = (parcel.folder / file.name).stat().st_size
    except OSError as error:
        raise _damaged_here(parcel, file, error.strerror or str(error)) from error
    if nbytes != file.nbytes:
        raise _damaged_here(parcel, file, f"{nbytes} bytes, expected {file.nbytes}")


def check_content(parcel: Parcel, file: ParcelFile) -> None:
    """Raises ModelError when this host's copy is gone or has another sha256; reads all of it."""
    try:
        with (parcel.folder / file.name).open("rb") as data:
            found = hashlib.file_digest(data, "sha256").hexdigest()
    except OSError as error:
        raise _damaged_here(parcel, file, error.strerror or str(error)) from error
    if found != file.sha256:
        raise _damaged_here(parcel, file, f"sha256 {found[:12]}, expected {file.sha256[:12]}")


def _damaged_here(parcel: Parcel, file: ParcelFile, what: str) -> ModelError:
    remedy = (
        "Run `lever models verify`, then repair the pair that it names: `lever models add PAIR`"
        if parcel.kind == "packs"
        else "Remove that folder: it is made again"
    )
    return ModelError(f"{parcel.path}/{file.name} is damaged on this host, in {parcel.folder}: {what}", remedy)


def _measured(path: Path) -> ParcelFile:
    data = path.read_bytes()
    return ParcelFile(path.name, len(data), hashlib.sha256(data).hexdigest())
