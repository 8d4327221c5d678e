from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.tracking.mlflow_writer import MlflowSink
from tests.fakes import mlflow_store


@pytest.fixture
def sink(empty_store: Path, tmp_path: Path) -> Iterator[MlflowSink]:
    opened = MlflowSink(mlflow_store.copy(empty_store, tmp_path), tmp_path / "artifacts")
    yield opened
    opened.close()
