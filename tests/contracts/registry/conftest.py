"""Every backend of the registry, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.registry.contract import Registry
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.registry.sql import open_registry
from tests.fakes import farm


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Registry]:
    if request.param == "memory":
        made: Registry = MemoryRegistry()
    elif request.param == "sqlite":
        made = open_registry(f"sqlite:///{tmp_path / 'registry.db'}")
    else:
        made = open_registry(request.getfixturevalue("postgres_url"))
    made.put_device(farm.phone())
    yield made
    made.close()
