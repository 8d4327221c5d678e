"""The models of this farm: pairs by name, packs by hash, tokenizers. One folder, `LEVER_HOME/models`.

pairs/NAME.json         Pair
packs/<hash>/           model.json and chunk files, as phones get them
tokenizers/<hash>/      of the target pack with that hash
downloads/              pieces on their way here
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from device_agent.protocol import PackManifest, SamplingSpec, WireError, from_json, to_json
from orchestrator.errors import ModelError
from orchestrator.models.catalogue import how_to_add, repair
from orchestrator.models.tokenizer import ChatTokenizer

if TYPE_CHECKING:
    from orchestrator.models.acceptance import Acceptance

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
TEMPORARY = ".tmp-"


@dataclass(frozen=True)
class Pair:
    """A target model and what drafts for it."""

    name: str
    target_pack: str  # hash
    draft_pack: str  # hash; the target's own for a self-draft
    target_model: str
    draft_model: str
    stop_token_ids: tuple[int, ...]

    @property
    def self_draft(self) -> bool:
        """The target drafts for itself: for tests, its acceptance says nothing about a real draft."""
        return self.draft_pack == self.target_pack


class ModelStore:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.packs, self.downloads = root / "packs", root / "downloads"

    def pair(self, name: str) -> Pair:
        """Raises ModelError when it is not added, or its record or a pack is gone or broken."""
        file = self._pair_file(name)
        if not file.is_file():
            raise ModelError(f"model pair {name!r} is not added", how_to_add(name, self._names()))
        try:
            pair = from_json(Pair, json.loads(file.read_bytes()))
        except (OSError, ValueError, WireError) as error:
            raise ModelError(f"{file} is broken: {error}", repair(name)) from error
        for pack in (pair.target_pack, pair.draft_pack):
            if not (self.pack_dir(pack) / "model.json").is_file():
                raise ModelError(f"pair {name!r}: pack {pack[:12]} is gone", repair(name))
        return pair

    def pairs(self) -> tuple[Pair, ...]:
        """The added pairs that can be read, by name."""
        return tuple(found for found in self._read_all().values() if isinstance(found, Pair))

    def broken_pairs(self) -> dict[str, ModelError]:
        """Why each of the other added pairs cannot be read, by name."""
        return {name: found for name, found in self._read_all().items() if isinstance(found, ModelError)}

    def _read_all(self) -> dict[str, Pair | ModelError]:
        found: dict[str, Pair | ModelError] = {}
        for name in self._names():
            try:
                found[name] = self.pair(name)
            except ModelError as error:
                found[name] = error
        return found

    def _names(self) -> tuple[str, ...]:
        return tuple(file.stem for file in sorted((self.root / "pairs").glob("*.json")))

    def has_pair(self, name: str) -> bool:
        """Added, and all files of its packs are there with their sizes (their contents: `verify`)."""
        if not self._pair_file(name).is_file():
            return False
        try:
            pair = self.pair(name)
            return not any(self._incomplete(pack) for pack in (pair.target_pack, pair.draft_pack))
        except ModelError:
            return False

    def pack_dir(self, pack_hash: str) -> Path:
        return self.packs / pack_hash

    def manifest(self, pack_hash: str) -> PackManifest:
        """Raises ModelError when the pack is not here or its manifest is broken."""
        file = self.pack_dir(pack_hash) / "model.json"
        try:
            return from_json(PackManifest, json.loads(file.read_bytes()))
        except (OSError, ValueError, WireError) as error:
            raise ModelError(f"{file}: {error}", "See which pair it is: lever models verify") from error

    def tokenizer(self, pair_name: str) -> ChatTokenizer:
        """The pair's tokenizer, which is its target's."""
        return ChatTokenizer(self.tokenizer_dir(self.pair(pair_name).target_pack))

    def acceptance(self, pair_name: str, sampling: SamplingSpec) -> Acceptance | None:
        """What was learnt of the pair's acceptance under this sampling, by this engine. Raises as acceptance.load."""
        from orchestrator.models import acceptance

        return acceptance.load(self, self.pair(pair_name), sampling)

    def tokenizer_dir(self, target_pack: str) -> Path:
        return self.root / "tokenizers" / target_pack

    def save(self, pair: Pair) -> None:
        """Add or replace the pair's record, whole or not at all."""
        file = self._pair_file(pair.name)
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(to_json(pair), indent=1))
        temporary.replace(file)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """One process changes the store at a time; what a killed one left half-written goes first."""
        self.packs.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for leftover in self.packs.glob(TEMPORARY + "*"):
                shutil.rmtree(leftover)
            yield

    def _incomplete(self, pack_hash: str) -> bool:
        folder = self.pack_dir(pack_hash)
        chunks = [chunk for extent in self.manifest(pack_hash).extents for chunk in extent.chunks]
        files = [folder / chunk.file for chunk in chunks]
        return any(not f.is_file() or f.stat().st_size != c.nbytes for f, c in zip(files, chunks, strict=True))

    def _pair_file(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise ModelError(f"{name!r} cannot be a pair's name", "Use letters, digits, dots, dashes and underscores.")
        return self.root / "pairs" / f"{name}.json"
