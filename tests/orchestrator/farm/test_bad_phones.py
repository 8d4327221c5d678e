"""What must not be registered: one clear message each, nothing executed, nothing left behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.entities import Device
from orchestrator.errors import LeverError, PhoneDiskFull, PhoneError, PhoneUnauthorized, PhoneUnreachable, UsageError
from orchestrator.farm import connecting, health, registration, virtual_phones
from orchestrator.farm.registration import register
from orchestrator.registry.contract import Registry
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.settings import Settings
from tests.fakes import odd_phones
from tests.fakes.bench import ROOT
from tests.fakes.phones import FakePhone, PhoneFactory

SECONDS = 2.0  # what stands for the farm's own patience


@pytest.fixture
def registry() -> Registry:
    return MemoryRegistry()


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    monkeypatch.setattr(registration, "CONNECT_S", SECONDS)
    monkeypatch.setattr(registration, "AUTHORISE_S", SECONDS)
    monkeypatch.setattr(health, "ANSWER_S", SECONDS)
    settings = Settings(tmp_path / "home", "", "", "here")
    yield settings
    assert virtual_phones.names(settings) == []


@pytest.fixture
def odd(virtual_phone: PhoneFactory) -> FakePhone:
    """A phone of its own, so that a test may break its commands."""
    return virtual_phone()


def refusal(target: str, settings: Settings, registry: Registry, name: str | None = None) -> LeverError:
    with pytest.raises(LeverError) as raised:
        register(target, name, settings, registry, lambda step: None)
    assert registry.devices() == []
    assert raised.value.remedy, "it says what to do next"
    return raised.value


def overrule(phone: FakePhone, command: str, script: str) -> None:
    """This phone's `command` is the script from now on; "$0.real" is what it was."""
    file = phone.root / ".phone" / "bin" / command
    if file.exists():
        file.rename(file.with_name(f"{command}.real"))
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def property_is(phone: FakePhone, key: str, value: str) -> None:
    edit = f"s|^\\[{re.escape(key)}\\]: .*|[{key}]: [{value}]|"
    overrule(phone, "getprop", f'"$0.real" "$@" | sed \'{edit}\'')


def at(phone: FakePhone) -> str:
    return phone.address.removeprefix("tcp:")


@pytest.mark.parametrize(
    "answer", [odd_phones.ssh, odd_phones.short_ssh, odd_phones.web, odd_phones.hangs_up, odd_phones.silent]
)
def test_a_port_of_something_else(answer: odd_phones.Answer, settings: Settings, registry: Registry) -> None:
    with odd_phones.listening(answer) as target:
        error = refusal(target, settings, registry)
    assert isinstance(error, PhoneUnreachable)
    assert error.message.startswith("step 'connect' failed")
    assert target in error.message


@pytest.mark.parametrize("answer", [odd_phones.ssh, odd_phones.short_ssh])
def test_what_answers_in_another_language_is_called_so(
    answer: odd_phones.Answer, settings: Settings, registry: Registry
) -> None:
    with odd_phones.listening(answer) as target:
        assert "does not speak ADB" in refusal(target, settings, registry).message


@pytest.mark.parametrize(
    ("target", "said"), [("127.0.0.1:1", "failed: Connection refused"), ("no-such-host.invalid:5555", "failed: ")]
)
def test_a_wrong_address(target: str, said: str, settings: Settings, registry: Registry) -> None:
    error = refusal(target, settings, registry)
    assert isinstance(error, PhoneUnreachable)
    assert "step 'connect' failed" in error.message
    assert said in error.message
    assert "Errno" not in error.message


@pytest.mark.parametrize("answer", [odd_phones.garbage_after_the_handshake, odd_phones.silent_after_the_handshake])
def test_a_phone_that_sends_garbage_or_nothing(
    answer: odd_phones.Answer, settings: Settings, registry: Registry
) -> None:
    with odd_phones.listening(answer) as target:
        error = refusal(target, settings, registry)
    assert isinstance(error, PhoneUnreachable)
    assert "step 'answer' failed" in error.message


def test_a_shell_that_is_not_androids(odd: FakePhone, settings: Settings, registry: Registry) -> None:
    overrule(odd, "getprop", "printf 'what\\033[31m?\\n>\\n>\\n'")
    error = refusal(at(odd), settings, registry)
    assert "step 'facts' failed" in error.message
    assert "no Android shell" in error.message
    assert "\033" not in error.message


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("ro.build.version.sdk", "28", "its Android is too old: API level 28, and 29 .Android 10. is the least"),
        ("ro.build.version.sdk", "twelve", "does not tell its Android version"),
        ("ro.serialno", "", "tells no serial number"),
    ],
)
def test_unsuitable(key: str, value: str, said: str, odd: FakePhone, settings: Settings, registry: Registry) -> None:
    property_is(odd, key, value)
    error = refusal(at(odd), settings, registry)
    assert isinstance(error, PhoneError)
    assert re.search(f"step 'facts' failed: .*{said}", error.message)
    assert not odd.path(ROOT).exists()


def test_no_space(odd: FakePhone, settings: Settings, registry: Registry) -> None:
    overrule(odd, "df", "echo 'Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/dm-0 9 8 1000 99% /data'")
    error = refusal(at(odd), settings, registry)
    assert isinstance(error, PhoneDiskFull)
    assert "step 'space' failed: 1 MB are free at /data/local/tmp/lever, and 200 MB" in error.message
    assert not odd.path(ROOT).exists()


def test_a_file_where_our_folder_would_be(odd: FakePhone, settings: Settings, registry: Registry) -> None:
    odd.path(ROOT).write_text("somebody's")
    error = refusal(at(odd), settings, registry)
    assert re.search(
        f"step 'space' failed: {ROOT} cannot be made on the phone: .*(File exists|Not a directory)", error.message
    )
    assert odd.path(ROOT).read_text() == "somebody's"


def test_storage_that_went_read_only(odd: FakePhone, settings: Settings, registry: Registry) -> None:
    """The folder is there from before: making it says nothing."""
    odd.path(ROOT).mkdir()
    overrule(odd, "touch", "echo \"touch: '$1': Read-only file system\" >&2; exit 1")
    error = refusal(at(odd), settings, registry)
    assert f"step 'space' failed: {ROOT} cannot be written on the phone: " in error.message
    assert "a restart mends" in error.remedy


@pytest.mark.parametrize("what", ["Read-only file system", "Permission denied"])
def test_a_folder_that_cannot_be_written(what: str, odd: FakePhone, settings: Settings, registry: Registry) -> None:
    overrule(odd, "mkdir", f"echo \"mkdir: '$2': {what}\" >&2; exit 1")
    error = refusal(at(odd), settings, registry)
    assert re.search(f"step 'space' failed: {ROOT} cannot be made on the phone: .*{what}", error.message)
    assert "adb shell touch" in error.remedy


def test_a_revoked_key(odd: FakePhone, settings: Settings, registry: Registry) -> None:
    device = Device("odd", odd.address, "tcp", "here", odd.serial, ROOT)
    connecting.connector(settings)(device).close()
    odd.unauthorized()
    error = refusal(at(odd), settings, registry)
    assert isinstance(error, PhoneUnauthorized)
    assert "step 'authorise' failed" in error.message
    assert "Always allow from this computer" in error.remedy
    with pytest.raises(PhoneUnauthorized, match="does not trust our key"):
        connecting.open_address(settings, odd.address, 0.5)


@pytest.mark.parametrize(
    "name", ["a b", "a'b", 'a"b', "$(touch pwned)", "a\nb", "../a", "-rf", "", "ä", "a;b", "a\0b", "x" * 64]
)
def test_names_that_a_shell_or_a_folder_would_mind(name: str, settings: Settings, registry: Registry) -> None:
    error = refusal("virtual:oneplus12", settings, registry, name)
    assert isinstance(error, UsageError)
    assert "is not a phone name" in error.message


def test_what_a_phone_says_of_itself_is_never_run_and_never_obeyed(
    odd: FakePhone, settings: Settings, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    property_is(odd, "ro.product.model", f"$(touch {tmp_path}/pwned) `id` '; \\x1b[2J [red]x".replace("'", ""))
    monkeypatch.setattr(registration, "equip", lambda *_: None)
    steps: list[str] = []
    device = register(at(odd), None, settings, registry, lambda step: steps.append(step.detail or ""))
    assert re.fullmatch(r"[a-z0-9._-]+", device.name)
    assert "$(touch" in device.facts["model"]
    assert not any("\x1b" in said for said in steps)
    assert not (tmp_path / "pwned").exists()


def test_a_home_and_a_phone_whose_paths_need_quoting(
    tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / 'it\'s a $(touch pwned)\n"home"'
    settings = Settings(home, "", "", "here")
    monkeypatch.chdir(tmp_path)
    try:
        device = register("virtual:midrange", None, settings, registry, lambda step: None)
        assert (settings.phones / device.name / ROOT.lstrip("/") / "runtime").is_dir()
    finally:
        for name in virtual_phones.names(settings):
            virtual_phones.remove(settings, name)
    assert not list(tmp_path.rglob("pwned"))
