from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator import settings as farm_settings
from orchestrator import wiring
from orchestrator.cli import demo as demo_module
from orchestrator.cli import main
from orchestrator.errors import LeverError
from tests.fakes import farm


class Commands:
    """Stands in for the command line: what was asked for, and a command that fails."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails: str | None = None

    def run(self, args: Sequence[str] | None = None) -> int:
        self.asked.append(" ".join(args or ()))
        return 3 if self.fails and self.asked[-1].startswith(self.fails) else 0


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.setenv("LEVER_HOME", str(tmp_path))
    commands = Commands()
    monkeypatch.setattr(main, "run", commands.run)
    return commands


def test_types_what_a_user_would_type_and_leaves_the_farm_down(commands: Commands) -> None:
    shown = CliRunner().invoke(demo_module.demo, ["--pair", "smollm2"], catch_exceptions=False)
    assert commands.asked == [
        "models add smollm2",
        "phones register virtual:oneplus12 --name oneplus12",
        "phones register virtual:pixel8 --name pixel8",
        "sweep -m pair=smollm2 engine=autoregressive,chain workload=demo engine.storage.flash_bandwidth_mb_s=500 "
        "phones=oneplus12,pixel8 sweep=demo-smollm2",
        "down",
    ]
    assert all(f"$ lever {command}\n" in shown.output for command in commands.asked)
    assert "lever dashboard" in shown.output
    assert "mlflow.db" in shown.output


def test_phones_that_are_registered_are_left_alone(commands: Commands) -> None:
    with closing(wiring.open_registry(farm_settings.load())) as registry:
        registry.put_device(farm.phone("oneplus12"))
    CliRunner().invoke(demo_module.demo, catch_exceptions=False)
    assert [c for c in commands.asked if c.startswith("phones")] == ["phones register virtual:pixel8 --name pixel8"]


def test_a_failure_ends_it_says_how_to_go_on_and_leaves_the_farm_down(commands: Commands) -> None:
    commands.fails = "sweep"
    failed = CliRunner().invoke(demo_module.demo)
    assert isinstance(failed.exception, LeverError)
    assert "lever sweep" in failed.exception.message
    assert "again" in failed.exception.remedy
    assert failed.exception.exit_code == 3
    assert commands.asked[-1] == "down"
    assert "Done" not in failed.output


def test_a_farm_that_was_up_stays_up(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_module, "running", lambda _settings: object())
    CliRunner().invoke(demo_module.demo, catch_exceptions=False)
    assert "down" not in commands.asked
