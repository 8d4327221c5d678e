"""`lever phones` from its words to its exit code, on real virtual phones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator import settings as farm_settings
from orchestrator.cli.main import run
from orchestrator.farm import virtual_phones

Lever = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Lever]:
    """Runs `lever phones WORDS`: exit code, stdout, stderr."""
    monkeypatch.setenv("LEVER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")

    def lever(*words: str) -> tuple[int, str, str]:
        code = run(["phones", *words])
        return (code, *capfd.readouterr())

    yield lever
    settings = farm_settings.load()
    for name in virtual_phones.names(settings):
        virtual_phones.stop(settings, name)


def test_register_list_show_retire(lever: Lever) -> None:
    code, out, _ = lever("list")
    assert (code, out) == (0, "No phones yet. Start with: lever phones register virtual:oneplus12\n")
    assert json.loads(lever("list", "--json")[1]) == []

    code, out, err = lever("register", "virtual:oneplus12", "--name", "desk")
    assert code == 0, err
    assert "self-test the agent starts" in out
    assert "desk (virtual, oneplus12) is ready" in out

    _, out, _ = lever("list")
    row = next(line for line in out.splitlines() if line.startswith("desk"))
    assert row.split()[1:5] == ["virtual", "ready", "CPH2581", "SM8650"]

    (listed,) = json.loads(lever("list", "--json")[1])
    shown = json.loads(lever("show", "desk", "--json")[1])
    assert listed == shown
    assert (shown["name"], shown["kind"], shown["state"], shown["simulated"]) == ("desk", "virtual", "ready", True)
    assert shown["address"].startswith("tcp:127.0.0.1:")
    assert shown["facts"]["agent"]["protocol_version"] == 1
    assert f"runtime_hash   {shown['facts']['runtime_hash']}" in lever("show", "desk")[1]

    virtual_phones.stop(farm_settings.load(), "desk")
    assert json.loads(lever("show", "desk", "--json")[1])["address"] is None
    assert "not running" in lever("list")[1]

    code, out, _ = lever("retire", "desk")
    assert (code, out.startswith("desk is retired")) == (0, True)
    assert json.loads(lever("list", "--json")[1]) == []
    assert "retired" in lever("list", "--all")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["register", "virtual:nokia"], "no phone profile 'nokia'"),
        (["register", "nonsense"], "neither virtual:PROFILE nor HOST:PORT"),
        (["register", "virtual:oneplus12", "--name", "../up"], "'../up' is not a phone name"),
        (["register", "127.0.0.1:1"], "step 'connect' failed"),
        (["show", "nobody"], "nobody"),
        (["retire", "nobody"], "nobody"),
        (["register"], "Missing argument"),
    ],
)
def test_bad_input_is_one_message(lever: Lever, words: list[str], said: str) -> None:
    code, _, err = lever(*words)
    assert code != 0
    assert err.startswith("error: ")
    assert said in err
    assert "Traceback" not in err
    assert virtual_phones.names(farm_settings.load()) == []
