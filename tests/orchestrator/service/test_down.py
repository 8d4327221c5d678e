from __future__ import annotations

from pathlib import Path

from orchestrator.farm.adb.server_process import private_server
from orchestrator.farm.connecting import key_path
from orchestrator.service.down import down
from orchestrator.settings import Settings


def test_ends_the_farms_adb_server_and_says_so(tmp_path: Path) -> None:
    settings = Settings(tmp_path, f"sqlite:///{tmp_path}/registry.db", f"sqlite:///{tmp_path}/mlflow.db", "here")
    first = private_server(key_path(settings))
    said: list[str] = []
    assert down(settings, said.append)
    assert said == ["stopped the farm's adb server"]
    assert private_server(key_path(settings)) != first, "it had ended"
    assert down(settings, said.append)
    assert not down(settings, said.append)
