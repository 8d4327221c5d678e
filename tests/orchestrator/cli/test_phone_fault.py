"""`lever phones fault` from its words to its exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from device_agent.virtual.fault_list import FAULTS
from orchestrator import settings as farm_settings
from orchestrator.cli.main import run
from orchestrator.farm import phone_faults, virtual_phones

Lever = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Lever]:
    monkeypatch.setenv("LEVER_HOME", str(tmp_path / "home"))
    settings = farm_settings.load()
    virtual_phones.create(settings, "desk", "midrange")
    virtual_phones.ensure_running(settings, "desk")

    def lever(*words: str) -> tuple[int, str, str]:
        code = run(["phones", "fault", *words])
        return (code, *capfd.readouterr())

    yield lever
    virtual_phones.stop(settings, "desk")


def test_break_list_and_mend(lever: Lever) -> None:
    settings = farm_settings.load()
    code, out, _ = lever("desk")
    assert code == 0
    assert all(name in out for name in FAULTS)
    assert "desk has no fault now." in out
    assert lever("desk", "hot", "51")[:2] == (0, "desk: hot 51 until: lever phones fault desk --clear\n")
    assert lever("desk", "cut")[:2] == (0, "desk: cut\n")
    assert "holds now 51" in lever("desk")[1]
    assert phone_faults.active(settings, "desk") == {"hot": "51"}
    assert lever("desk", "--clear")[:2] == (0, "desk: all faults are cleared\n")
    assert phone_faults.active(settings, "desk") == {}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("desk", "stal"), 2, "Did you mean stall?"),
        (("desk", "offline"), 2, "offline takes a number of seconds, got nothing"),
        (("desk", "offline", "soon"), 2, "got soon"),
        (("desk", "hot", "--clear"), 2, "--clear takes no fault"),
        (("desk", "kill-agent"), 1, "no agent runs on this phone"),
        (("nobody", "cut"), 2, "Virtual phones here: desk"),
    ],
)
def test_bad_input(lever: Lever, words: tuple[str, ...], code: int, said: str) -> None:
    got, out, err = lever(*words)
    assert (got, out) == (code, "")
    assert said in err
    assert "Traceback" not in err


def test_a_phone_that_does_not_run(lever: Lever) -> None:
    virtual_phones.stop(farm_settings.load(), "desk")
    code, _, err = lever("desk", "cut")
    assert code == 1
    assert "virtual phone desk does not answer" in err
