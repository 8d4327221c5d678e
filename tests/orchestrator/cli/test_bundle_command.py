from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli.main import run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEVER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["riscv"], "error: there is no recipe for 'riscv'\nThere is one for arm64.\n"),
        (["arm64", "--variants", "sve"], "error: there is no variant 'sve'\nThere are i8mm, dotprod, fp16, armv8.\n"),
    ],
)
def test_unknown_words_name_the_known(
    words: list[str], said: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bundle", "build", *words]) == 2
    assert capsys.readouterr().err == said
    assert not home.exists()


def test_programs_that_are_missing_are_named_with_their_packages(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("apt-get", "dpkg", "cmake", "ninja"):
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["bundle", "build", "arm64"]) == 2
    said = capsys.readouterr().err
    assert "needs aarch64-linux-gnu-gcc, aarch64-linux-gnu-g++, aarch64-linux-gnu-strip, not found" in said
    assert "apt-get install gcc-aarch64-linux-gnu g++-aarch64-linux-gnu binutils-aarch64-linux-gnu" in said
    assert not home.exists()
