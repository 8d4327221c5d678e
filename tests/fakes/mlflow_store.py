"""A real MLflow store on SQLite, made once a session: making one takes seconds."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

from orchestrator.tracking.mlflow_writer import MlflowSink


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store's file, to be copied for each test."""
    folder = tmp_path_factory.mktemp("mlflow")
    file = folder / "mlflow.db"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's own imports warn of their future
        sink = MlflowSink(f"sqlite:///{file}", folder / "artifacts")
        assert sink.reachable()
        sink.close()
    return file


def copy(made: Path, folder: Path) -> str:
    """Tracking URI of a fresh store in `folder`."""
    shutil.copy(made, folder / "mlflow.db")
    return f"sqlite:///{folder / 'mlflow.db'}"


def client(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)
