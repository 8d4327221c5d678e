"""Re-hashing a pair's packs: has anything on this disk changed since they were made?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from orchestrator.errors import ModelError
from orchestrator.models.sources import Report
from orchestrator.models.store import ModelStore, Pair


def verify_pair(store: ModelStore, pair: Pair, report: Report) -> list[str]:
    """What is wrong with the pair's files, each named; empty when all is well."""
    packs = dict.fromkeys((pair.target_pack, pair.draft_pack))
    problems = [problem for pack in packs for problem in _verify_pack(store, pack, f"verify {pair.name}", report)]
    try:
        store.tokenizer(pair.name).encode("")
    except Exception as error:  # noqa: BLE001  # the library raises bare Exception for a broken file
        problems.append(f"{store.tokenizer_dir(pair.target_pack)}: the tokenizer cannot be read: {error}")
    return problems


def is_whole(store: ModelStore, name: str, report: Report) -> bool:
    """The pair is added and every file of it is as it was packed."""
    return store.has_pair(name) and not verify_pair(store, store.pair(name), report)


def _verify_pack(store: ModelStore, pack: str, title: str, report: Report) -> Iterator[str]:
    folder = store.pack_dir(pack)
    if (found := _sha256(folder / "model.json")) != pack:
        yield f"{folder / 'model.json'}: {found}, expected sha256 {pack}"
        return
    try:
        chunks = [chunk for extent in store.manifest(pack).extents for chunk in extent.chunks]
    except ModelError as error:
        yield error.message
        return
    total, done = sum(chunk.nbytes for chunk in chunks), 0
    for chunk in chunks:
        if (found := _sha256(folder / chunk.file)) != chunk.sha256:
            yield f"{folder / chunk.file}: {found}, expected sha256 {chunk.sha256}"
        done += chunk.nbytes
        report(f"{title}: {pack[:12]}", done, total)


def _sha256(file: Path) -> str:
    try:
        with file.open("rb") as data:
            return hashlib.file_digest(data, "sha256").hexdigest()
    except OSError as error:
        return error.strerror or str(error)
