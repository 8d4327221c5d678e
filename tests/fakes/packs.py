"""Packs of tiny random models, for tests of the engine."""

from __future__ import annotations

from pathlib import Path

from orchestrator.models.gguf_file import open_gguf
from orchestrator.models.packer import pack
from tests.fakes.tiny_gguf import TinyModel, write_tiny_gguf


def write_pack(folder: Path, model: TinyModel) -> Path:
    """Pack `model` under `folder`; returns the pack's own folder."""
    folder.mkdir(parents=True, exist_ok=True)
    gguf = write_tiny_gguf(folder / "tiny.gguf", model)
    return folder / pack(open_gguf(gguf), "0" * 64, folder)
