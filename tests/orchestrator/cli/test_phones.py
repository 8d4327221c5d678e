"""`lever phones` from its words to its exit code, on real virtual phones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator import settings as farm_settings
from orchestrator.cli.main import run
from orchestrator.cli.phone_farm import phone_farm
from orchestrator.entities import Device, DeviceState
from orchestrator.farm import health, virtual_phones
from tests.fakes.phones import PhoneFactory

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
    assert "39 logits of a tiny model equal this host's" in out
    assert "desk (virtual, oneplus12) is ready" in out

    _, out, _ = lever("list")
    row = next(line for line in out.splitlines() if line.startswith("desk"))
    assert row.split()[1:3] == ["virtual", "ready"]
    assert "CPH2581 SM8650 16 GB 127.0.0.1:" in row

    (listed,) = json.loads(lever("list", "--json")[1])
    shown = json.loads(lever("show", "desk", "--json")[1])
    (born,) = shown.pop("history")
    assert (born["state"], born["reason"]) == ("ready", "")
    assert listed == shown
    assert (shown["name"], shown["kind"], shown["state"], shown["simulated"]) == ("desk", "virtual", "ready", True)
    assert shown["address"].startswith("tcp:127.0.0.1:")
    assert shown["facts"]["agent"]["protocol_version"] == 1
    assert f"runtime_hash   {shown['facts']['runtime_hash']}" in lever("show", "desk")[1]

    virtual_phones.stop(farm_settings.load(), "desk")
    assert json.loads(lever("show", "desk", "--json")[1])["address"] is None
    assert "not running" in lever("list")[1]

    assert lever("quarantine", "desk", "--reason", "its \x1b[31mbattery\n swells\x07")[0] == 0
    assert "desk: by hand: its [31mbattery swells" in lever("list")[1]
    code, out, _ = lever("release", "desk")  # a virtual phone that does not run is started
    assert (code, out) == (0, "desk is released and ready.\n")
    history = lever("show", "desk")[1].partition("history\n")[2].splitlines()
    assert [line.split(maxsplit=3)[2:] for line in history] == [
        ["ready", "released by hand"],
        ["quarantined", "by hand: its [31mbattery swells"],
        ["ready"],
    ]

    code, out, _ = lever("gc", "--older-than", "0", "--dry-run")
    assert code == 0
    assert "unused for" in out, "the self-test's pack is nobody's need"
    assert "would go" in out
    code, out, _ = lever("gc", "desk", "--older-than", "0")
    assert code == 0
    assert re.match("desk: [01] MB gone, 0 MB kept; free before", out.splitlines()[-1])
    assert list((farm_settings.load().phones / "desk/data/local/tmp/lever/packs").iterdir()) == []

    code, out, _ = lever("retire", "desk", "--wipe")
    assert "/data/local/tmp/lever is gone from it" in out
    assert (code, out.startswith("desk is retired")) == (0, True)
    assert json.loads(lever("list", "--json")[1]) == []
    assert "retired" in lever("list", "--all")[1]


def test_a_released_phone_that_revoked_our_key(
    lever: Lever, virtual_phone: PhoneFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "ANSWER_S", 1.0)
    phone = virtual_phone()
    with phone_farm(make=True) as (_, registry):
        registry.put_device(Device("desk", phone.address, "tcp", "here", phone.serial, "/r", DeviceState.QUARANTINED))
    phone.unauthorized()
    code, out, err = lever("release", "desk")
    assert (code, out) == (1, "")
    assert "desk is released, but unauthorized: " in err
    assert f"lever phones register {phone.endpoint} --name desk" in err


def test_the_list_fits_80_columns(lever: Lever, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    facts = {"model": "A model with a very long name, 5G edition", "soc": "MT6991Z_A/CZB", "ram_mb": 24_000}
    name = "the-phone-on-the-left-of-the-window"
    device = Device(name, "tcp:192.168.123.123:45678", "tcp", "elsewhere", "S", "/r", facts=facts)
    with phone_farm(make=True) as (_, registry):
        registry.put_device(device)
        registry.set_device_state(name, DeviceState.LOW_BATTERY, "battery 4 %, not charging")
    _, out, _ = lever("list")
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "low_battery" in out
    assert "192.168.123.123:45678" in out
    assert f"{name}: battery 4 %, not charging" in out
    assert "SoC" not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["register", "virtual:nokia"], "no phone profile 'nokia'"),
        (["register", "nonsense"], "none of virtual:PROFILE, HOST:PORT, usb:SERIAL and"),
        (["register", "virtual:oneplus12", "--name", "../up"], "'../up' is not a phone name"),
        (["register", "127.0.0.1:1"], "step 'connect' failed"),
        (["register", "virtual:oneplus12", "--pair", "nothing"], "nothing"),
        (["show", "nobody"], "nobody"),
        (["retire", "nobody"], "nobody"),
        (["release", "nobody"], "nobody"),
        (["quarantine", "nobody"], "nobody"),
        (["gc", "nobody"], "nobody"),
        (["gc", "--older-than", "-1"], "older-than"),
        (["gc", "--older-than", "nan"], "not a finite number"),
        (["gc", "--keep-free", "inf"], "not a finite number"),
        (["retire", "nobody", "--wipe"], "nobody"),
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
