"""A model store with a pair of tiny random models."""

from __future__ import annotations

from pathlib import Path

from orchestrator.models.add import add_files
from orchestrator.models.store import ModelStore, Pair
from tests.fakes.tiny_gguf import TinyModel, write_tiny_gguf

TARGET, DRAFT = TinyModel(n_layers=4), TinyModel(n_layers=2, noise=0.1)


def silent(title: str, done: int, total: int) -> None:
    """A report that nobody reads."""


def write_pair_files(folder: Path, target: TinyModel = TARGET, draft: TinyModel = DRAFT) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    return write_tiny_gguf(folder / "target.gguf", target), write_tiny_gguf(folder / "draft.gguf", draft)


def tiny_pair(folder: Path, target: TinyModel = TARGET, draft: TinyModel = DRAFT) -> tuple[ModelStore, Pair]:
    """The pair `tiny` in a store below `folder`."""
    store = ModelStore(folder / "models")
    return store, add_files(store, "tiny", *write_pair_files(folder, target, draft), silent)
