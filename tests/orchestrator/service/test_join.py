"""Joining a farm: what is refused before anything is started, and what is kept of it."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import settings as farm_settings
from orchestrator.errors import FarmError, UsageError
from orchestrator.farm_card import FarmCard
from orchestrator.ray_runtime import card_board
from orchestrator.ray_token import find_token, keep_token, make_token, token_path
from orchestrator.service import state
from orchestrator.service.join import join
from orchestrator.service.state import Service
from orchestrator.settings import Settings

ADDRESS = "127.0.0.1:6379"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in [name for name in os.environ if name.startswith(("LEVER_", "RAY_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LEVER_HOME", str(tmp_path))
    monkeypatch.setenv("LEVER_HOST", "two")
    return farm_settings.load()


@pytest.fixture
def answering(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> FarmCard:
    """A farm answers at the address; its registry is a file that is not here."""
    card = replace(FarmCard.of(settings), host="one", registry_url="sqlite:////nowhere/registry.db")
    monkeypatch.setattr("orchestrator.service.join.knock", lambda _address, _remedy: None)
    monkeypatch.setattr(card_board, "read", lambda _address, _token: card)
    keep_token(settings, "secret")
    return card


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lever_farm": "0.0.9"}, "runs Lever Farm 0.0.9"),
        ({"ray": "1.13"}, "runs Ray 1.13"),
        ({"python": "3.9"}, "runs Python 3.9"),
        ({"host": "two"}, "by the name 'two' already"),
    ],
)
def test_a_machine_of_another_version_or_name_is_refused(
    settings: Settings, answering: FarmCard, change: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card_board, "read", lambda _address, _token: replace(answering, **change))
    with pytest.raises(FarmError, match=message) as refused:
        join(settings, ADDRESS, print)
    assert "lever host join" in refused.value.remedy
    assert farm_settings.load().joined == ""


@pytest.mark.usefixtures("answering")
def test_a_registry_that_is_a_file_elsewhere_is_refused(settings: Settings) -> None:
    with pytest.raises(FarmError, match="is a file of its first machine") as refused:
        join(settings, ADDRESS, print)
    assert "PostgreSQL" in refused.value.remedy


def test_without_a_token_the_way_to_one_is_told(settings: Settings) -> None:
    with pytest.raises(UsageError, match="no authentication token") as refused:
        find_token(settings, ADDRESS)
    assert str(token_path(settings)) in refused.value.remedy


def test_a_farm_keeps_one_token_that_only_its_owner_reads(settings: Settings) -> None:
    token = make_token(settings)
    assert make_token(settings) == find_token(settings, ADDRESS) == token
    assert stat.S_IMODE(token_path(settings).stat().st_mode) == 0o600


def test_a_machine_with_a_farm_of_its_own_up_is_refused(settings: Settings) -> None:
    from orchestrator.processes import identify

    state.write(settings, Service("run", identify(os.getpid()), os.getsid(0), settings.registry_url, "/tmp"))
    with pytest.raises(FarmError, match="a farm of its own is up"):
        join(settings, ADDRESS, print)


def test_what_was_joined_is_found_again_and_the_environment_still_wins(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"address": ADDRESS, "registry_url": "postgresql://farm", "tracking_uri": "http://farm", "host": "two"}
    from orchestrator.run_files import write_json

    write_json(farm_settings.joined_path(settings.home), kept)
    monkeypatch.delenv("LEVER_HOST")
    found = farm_settings.load()
    assert (found.joined, found.registry_url, found.host) == (ADDRESS, "postgresql://farm", "two")
    monkeypatch.setenv("LEVER_REGISTRY_URL", "postgresql://other")
    assert farm_settings.load().registry_url == "postgresql://other"


def test_another_farm_is_joined_after_leaving_the_first(settings: Settings) -> None:
    with pytest.raises(FarmError, match=r"host of the farm at 10\.0\.0\.5:6379") as refused:
        join(replace(settings, joined="10.0.0.5:6379"), ADDRESS, print)
    assert "lever host leave" in refused.value.remedy
