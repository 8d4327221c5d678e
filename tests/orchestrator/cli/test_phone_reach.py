"""`lever phones discover` and `pair`, and registering what they list: a virtual phone behind a real adb server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator import settings as farm_settings
from orchestrator.cli.main import run
from orchestrator.farm.adb.connect import open_transport
from orchestrator.farm.adb.server_process import private_server, stop_private_server
from orchestrator.farm.connecting import key_path
from tests.fakes.phones import PhoneFactory

Lever = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Lever]:
    """Runs `lever phones WORDS` with a server of the test's own in place of the user's."""
    monkeypatch.setenv("LEVER_HOME", str(tmp_path / "home"))
    users = tmp_path / "user" / "key"
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(private_server(users).port))

    def lever(*words: str) -> tuple[int, str, str]:
        code = run(["phones", *words])
        return (code, *capfd.readouterr())

    yield lever
    stop_private_server(users)
    stop_private_server(key_path(farm_settings.load()))


def test_nothing_listed_says_what_to_do(lever: Lever) -> None:
    code, out, _ = lever("discover")
    assert (code, json.loads(lever("discover", "--json")[1])) == (0, [])
    assert "USB debugging" in out
    assert "docs/phones.md" in out


def test_a_listed_phone_is_registered_through_the_adb_server(
    lever: Lever, virtual_phone: PhoneFactory, tmp_path: Path
) -> None:
    phone = virtual_phone()
    with open_transport(f"wireless:{phone.endpoint}", tmp_path / "user" / "key") as transport:
        transport.connect(10)  # the test's server knows it now, as the user's knows a phone on a cable
    assert f"lever phones register usb:{phone.endpoint}" in lever("discover")[1]
    code, out, err = lever("register", f"usb:{phone.endpoint}", "--name", "cabled")
    assert code == 0, err
    assert "39 logits of a tiny model equal this host's" in out
    shown = json.loads(lever("show", "cabled", "--json")[1])
    assert shown["address"] == f"usb:{phone.endpoint}"
    code, out, _ = lever("retire", "cabled", "--wipe")
    assert code == 0
    assert not phone.path("/data/local/tmp/lever").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pair", "127.0.0.1:1", "12345"], "not six digits"),
        (["pair", "127.0.0.1:1", "123456"], "pairing with 127.0.0.1:1 failed"),
        (["pair", "nonsense", "123456"], "'nonsense' is not HOST:PORT"),
        (["pair", "127.0.0.1:1"], "Missing argument"),
        (["register", "usb:NOBODY"], "step 'connect' failed"),
        (["register", "wireless:127.0.0.1:1"], "step 'connect' failed"),
    ],
)
def test_bad_input_is_one_message(lever: Lever, words: list[str], said: str) -> None:
    code, _, err = lever(*words)
    assert code != 0
    assert err.startswith("error: ")
    assert said in err
    assert "Traceback" not in err
    assert "invalid literal" not in err
