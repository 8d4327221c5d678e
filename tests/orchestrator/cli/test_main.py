"""The `lever` command line itself: quick start, one message for each error, no traceback."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from orchestrator.cli import main as cli
from orchestrator.errors import ModelError

HEAVY = ("ray", "mlflow", "sqlalchemy", "hydra", "omegaconf", "numpy", "rich", "pyarrow", "platformdirs")


def test_importing_main_and_its_help_pulls_in_nothing_heavy() -> None:
    code = f"""
import sys
from orchestrator.cli.main import run
assert run(["--help"]) == 0
print("HEAVY:", [m for m in {HEAVY!r} if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "HEAVY: []" in done.stdout
    assert all(name in done.stdout for name in cli.COMMANDS)


def _raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def explode() -> None:
        raise error

    command = click.Command("status", callback=explode)
    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda self, ctx, name: command)


def test_lever_error_is_message_remedy_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _raising(monkeypatch, ModelError("pair 'x' is not added", "Run `lever models add x`."))
    assert cli.run(["status"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "error: pair 'x' is not added\nRun `lever models add x`.\n")


def test_ctrl_c_exits_130(monkeypatch: pytest.MonkeyPatch) -> None:
    _raising(monkeypatch, KeyboardInterrupt())
    assert cli.run(["status"]) == 130


def test_a_bug_names_the_log_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("LEVER_HOME", str(tmp_path))
    _raising(monkeypatch, ZeroDivisionError("oops"))
    assert cli.run(["status"]) == 70
    err = capsys.readouterr().err
    (log,) = (tmp_path / "logs").iterdir()
    assert "unexpected ZeroDivisionError: oops" in err
    assert str(log) in err
    assert "Traceback" not in err
    assert "ZeroDivisionError: oops" in log.read_text()


def test_a_home_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    home = tmp_path / "file" / "home"
    monkeypatch.setenv("LEVER_HOME", str(home))
    assert cli.run(["up"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[0].startswith(f"error: LEVER_HOME={home} cannot be written: ")
    assert said[1].startswith("Set LEVER_HOME to a folder")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["swep"], "did you mean 'sweep'"),
        (["--verbos"], "No such option"),
        (["nonsense-nobody-means"], "no command 'nonsense-nobody-means'"),
    ],
)
def test_unknown_commands_and_options_are_one_message(
    args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(args) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "Traceback" not in err


def test_the_exit_code_of_a_command_is_the_process_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    _raising(monkeypatch, click.exceptions.Exit(3))
    with pytest.raises(SystemExit) as ended:
        cli.main(["status"])
    assert ended.value.code == 3


@pytest.mark.parametrize(
    "args",
    [
        ["results"],
        ["results", "x"],
        ["status"],
        ["status", "--json"],
        ["down"],
        ["phones", "list"],
        ["phones", "show", "x"],
        ["phones", "retire", "x"],
        ["models", "list"],
        ["attach", "x"],
        ["resume", "x"],
        ["cancel", "x"],
        ["sweep", "--cfg", "job"],
    ],
    ids=" ".join,
)
def test_looking_at_a_farm_that_is_not_there_makes_none(
    args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEVER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LEVER_REGISTRY_URL", raising=False)
    assert cli.run(args) in (0, 2)
    assert "unexpected" not in capsys.readouterr().err
    assert [p.name for p in tmp_path.rglob("*") if p.is_file() and p.name != "service.lock"] == []
