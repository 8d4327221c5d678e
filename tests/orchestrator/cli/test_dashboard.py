from __future__ import annotations

import importlib.metadata
import socket
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.cli.dashboard import HOST, listen
from orchestrator.errors import FarmError


@pytest.fixture
def taken() -> socket.socket:
    return socket.create_server((HOST, 0))


def test_a_port_in_use_is_a_clear_error(taken: socket.socket) -> None:
    with taken, pytest.raises(FarmError, match=r"port \d+ on 127.0.0.1 is in use") as error:
        listen(taken.getsockname()[1])
    assert "--port" in error.value.remedy


def test_a_port_that_was_asked_for_is_used(taken: socket.socket) -> None:
    port = taken.getsockname()[1]
    taken.close()
    with listen(port) as listener:
        assert listener.getsockname() == (HOST, port)


def test_without_a_port_a_free_one_is_found(monkeypatch: pytest.MonkeyPatch, taken: socket.socket) -> None:
    monkeypatch.setattr("orchestrator.cli.dashboard.USUAL_PORT", taken.getsockname()[1])
    with taken, listen(None) as listener:
        assert listener.getsockname()[1] not in (0, taken.getsockname()[1])


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_no_port_at_all(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["dashboard", "--port", port]) == 2
    assert "--port" in capsys.readouterr().err


def test_results_on_a_server_elsewhere_are_looked_at_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEVER_HOME", str(tmp_path))
    monkeypatch.setenv("LEVER_TRACKING_URI", "http://mlflow.example:5000")
    assert main.run(["dashboard", "--no-browser"]) == 2
    assert "http://mlflow.example:5000" in capsys.readouterr().err


def test_mlflow_finds_our_app_by_its_name() -> None:
    (entry,) = importlib.metadata.entry_points(group="mlflow.app", name="lever")
    assert entry.value == "dashboards.app:create_app"
