from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.entities import Device, DeviceState
from orchestrator.errors import (
    CommandFailed,
    FarmError,
    LeverError,
    PhoneUnauthorized,
    PhoneUnreachable,
    PhoneUnsuitable,
    UsageError,
    WrongPhone,
)
from orchestrator.farm import connecting, equipment, registration, runtimes, virtual_phones
from orchestrator.farm.registration import register
from orchestrator.farm.retirement import retire
from orchestrator.farm.steps import Step
from orchestrator.farm.targets import free_name, identify, parse_target
from orchestrator.registry.contract import Registry
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.settings import Settings
from tests.fakes.bench import ROOT, Bench
from tests.fakes.shell_agent import shell_agent

PROBE = {"protocol_version": 1, "engine_version": "0.1.0", "python": "3.11", "ggml": "0.15", "o_direct": True}
STEPS = ["connect", "answer", "facts", "space", "runtime", "self-test", "flash", "sensors"]
AGENT = f"""case $1 in probe) echo '{json.dumps(PROBE)}';; flash) echo '{{"mb_s": 700, "io_mode": "direct"}}';; esac"""


@pytest.fixture
def registry() -> Registry:
    return MemoryRegistry()


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    settings = Settings(tmp_path / "home", "", "", "here")
    yield settings
    for name in virtual_phones.names(settings):
        virtual_phones.stop(settings, name)


@pytest.fixture(autouse=True)
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that answers, but computes nothing: test_self_test.py has the one that does."""
    parcel = shell_agent(tmp_path / "bundle", AGENT, b"")
    monkeypatch.setattr(runtimes, "host_python_bundle", lambda home: parcel)
    monkeypatch.setattr(equipment, "run_self_test", lambda device, connect, settings: "not computed")


def ignore(step: Step) -> None: ...


def address(bench: Bench) -> str:
    return bench.phone.address.removeprefix("tcp:")


def test_registers_a_virtual_phone(settings: Settings, registry: Registry) -> None:
    steps: list[Step] = []
    device = register("virtual:oneplus12", None, settings, registry, steps.append)
    assert registry.device("oneplus12") == device
    assert (device.name, device.kind, device.host, device.simulated) == ("oneplus12", "virtual", "here", True)
    assert [step.name for step in steps if step.detail] == ["start", *STEPS]
    assert [step.share for step in steps if step.share is not None][-1] == 1.0
    facts = device.facts
    assert (facts["model"], facts["soc"], facts["abi"], facts["sdk"]) == ("CPH2581", "SM8650", "arm64-v8a", 34)
    assert (facts["profile"], facts["runtime"], facts["flash_mb_s"]) == ("oneplus12", "host-python", 4000)
    assert set(facts["power_model"]) == {"idle_w", "cpu_w_per_core", "flash_j_per_gb"}
    assert facts["ram_mb"] == 16384
    assert facts["simulated"]
    assert len(facts["runtime_hash"]) == 64
    assert facts["agent"] == PROBE
    assert facts["flash_measured"] == {"mb_s": 700.0, "io_mode": "direct"}
    assert facts["sensors"]["battery"] == facts["sensors"]["thermal_status"] == "readable"
    with connecting.connector(settings)(device) as phone:
        assert phone.shell("getprop ro.serialno", 5).stdout.strip() == device.serial


def test_names_are_numbered_and_the_same_name_repairs(settings: Settings, registry: Registry) -> None:
    first = register("virtual:pixel8", None, settings, registry, ignore)
    second = register("virtual:pixel8", None, settings, registry, ignore)
    assert (first.name, second.name) == ("pixel8", "pixel8-2")
    registry.set_device_state("pixel8", DeviceState.QUARANTINED, "three failures")
    virtual_phones.stop(settings, "pixel8")
    again = register("virtual:pixel8", "pixel8", settings, registry, ignore)
    assert again.serial == first.serial
    assert registry.device("pixel8").state == DeviceState.READY
    assert len(registry.devices()) == 2


def test_registers_by_address_under_its_own_name(bench: Bench, settings: Settings, registry: Registry) -> None:
    device = register(address(bench), None, settings, registry, ignore)
    assert (device.name, device.kind, device.address) == ("oneplus12", "virtual", bench.phone.address)
    assert register(address(bench), None, settings, registry, ignore).name == "oneplus12"
    with pytest.raises(WrongPhone, match="registered as oneplus12 already"):
        register(address(bench), "other", settings, registry, ignore)


def test_a_failing_step_is_named_and_leaves_nothing(
    bench: Bench, settings: Settings, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = shell_agent(tmp_path / "broken", "echo 'no numpy here'; exit 1", b"")
    monkeypatch.setattr(runtimes, "host_python_bundle", lambda home: broken)
    with pytest.raises(CommandFailed, match=r"step 'self-test' failed: the agent's probe .* no numpy here"):
        register(address(bench), None, settings, registry, ignore)
    assert not bench.phone.path(ROOT).exists()
    with pytest.raises(CommandFailed):
        register("virtual:oneplus12", "fresh", settings, registry, ignore)
    assert registry.devices() == []
    assert virtual_phones.names(settings) == []
    assert virtual_phones.address_of(settings, "fresh") is None


@pytest.mark.parametrize("at_step", ["runtime", "self-test", "sensors"])
def test_a_cable_that_is_pulled_leaves_nothing_either(
    at_step: str, bench: Bench, settings: Settings, registry: Registry
) -> None:
    def pull(step: Step) -> None:
        if step.name == at_step and step.detail is None and step.share is None:
            bench.phone.cut()

    with pytest.raises(PhoneUnreachable, match=f"step '{at_step}' failed"):
        register(address(bench), None, settings, registry, pull)
    assert registry.devices() == []
    assert not bench.phone.path(ROOT).exists()


@pytest.mark.parametrize("answer", ["", "hello", "[]", '{"protocol_version": 0}'])
def test_an_agent_that_answers_nonsense_is_refused(
    answer: str,
    bench: Bench,
    settings: Settings,
    registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    odd = shell_agent(tmp_path / "odd", f"echo '{answer}'", b"")
    monkeypatch.setattr(runtimes, "host_python_bundle", lambda home: odd)
    with pytest.raises(CommandFailed, match="step 'self-test' failed: the agent's probe answered"):
        register(address(bench), None, settings, registry, ignore)


def test_a_failing_repair_keeps_what_was_there(
    bench: Bench, settings: Settings, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = register(address(bench), None, settings, registry, ignore)
    broken = shell_agent(tmp_path / "broken", "exit 1", b"")
    monkeypatch.setattr(runtimes, "host_python_bundle", lambda home: broken)
    with pytest.raises(CommandFailed, match="self-test"):
        register(address(bench), None, settings, registry, ignore)
    assert bench.file(f"runtime/{device.facts['runtime_hash']}/verified").exists()
    assert registry.device(device.name) == device


def test_a_phone_without_a_bundle_is_refused(
    bench: Bench, settings: Settings, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"serial": "R58N", "model": "SM-S931B", "soc": "SM8750", "abi": "arm64-v8a", "runtime": "none"}
    more = {"cores": 8, "ram_mb": 12000, "sdk": 34, "abis": ["arm64-v8a", "armeabi-v7a"]}
    monkeypatch.setattr(registration, "read_facts", lambda phone: {**facts, **more})
    other = settings.home / "runtime" / ("0" * 64)
    other.mkdir(parents=True)
    (other / "bundle.json").write_text('{"abi": "x86_64", "files": []}')
    wrong = "step 'runtime' failed: no runtime bundle for .* arm64-v8a or armeabi-v7a processor; there are .* x86_64"
    with pytest.raises(PhoneUnsuitable, match=wrong):
        register(address(bench), None, settings, registry, ignore)
    assert registry.devices() == []
    assert not bench.phone.path(ROOT).exists()


def test_unreachable_and_not_adb(bench: Bench, settings: Settings, registry: Registry) -> None:
    bench.phone.offline(60)
    with pytest.raises(PhoneUnreachable, match=f"step 'connect' failed: .*{bench.phone.port}") as raised:
        register(address(bench), None, settings, registry, ignore)
    assert raised.value.remedy


@pytest.fixture
def asking(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A phone that asks its owner, and a farm that soon says so."""
    monkeypatch.setattr(
        registration,
        "open_address",
        lambda settings, address, timeout_s: connecting.open_address(settings, address, min(timeout_s, 0.5)),
    )
    bench.phone.unauthorized()
    yield
    bench.phone.authorize()


@pytest.mark.usefixtures("asking")
def test_waits_until_somebody_allows_the_key(bench: Bench, settings: Settings, registry: Registry) -> None:
    steps: list[Step] = []

    def tap(step: Step) -> None:
        steps.append(step)
        if step.asks:
            bench.phone.authorize()

    register(address(bench), None, settings, registry, tap)
    started, asked, allowed = (step for step in steps if step.name == "authorise")
    assert (started.detail, asked.detail, allowed.detail) == (None, None, "allowed")
    assert "tap 'Always allow from this computer'" in asked.asks


@pytest.mark.usefixtures("asking")
def test_nobody_allows_the_key(
    bench: Bench, settings: Settings, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "AUTHORISE_S", 0.5)
    with pytest.raises(PhoneUnauthorized, match="step 'authorise' failed") as raised:
        register(address(bench), None, settings, registry, ignore)
    assert "Always allow from this computer" in raised.value.remedy
    assert registry.devices() == []


@pytest.mark.parametrize(
    "target",
    [
        "",
        "usb:",
        "usb:$(id)",
        "usb:a b",
        "usb:a\n",
        "pixel",
        "host:",
        "host:99999",
        "host:0",
        "wireless:",
        "wireless:x",
        "a b:5555",
        "$(id):5555",
    ],
)
def test_bad_targets(target: str, settings: Settings, registry: Registry) -> None:
    with pytest.raises(UsageError) as raised:
        register(target, None, settings, registry, ignore)
    assert "HOST:PORT" in raised.value.remedy


def test_unknown_profile_lists_those_that_exist() -> None:
    with pytest.raises(UsageError, match="no phone profile 'nokia'") as raised:
        parse_target("virtual:nokia")
    assert "midrange, midrange-arm64, oneplus12, pixel8" in raised.value.remedy


def test_another_phone_at_a_known_address_or_name(settings: Settings) -> None:
    facts = {"model": "SM-S931B", "runtime": "none", "sdk": 34}
    known = identify("tcp:desk:5555", None, {"serial": "A", **facts}, ROOT, settings, [])
    assert known.name == "sm-s931b"
    with pytest.raises(WrongPhone, match=r"was the address of sm-s931b \(A\)") as raised:
        identify("tcp:desk:5555", "new", {"serial": "B", **facts}, ROOT, settings, [known])
    assert "lever phones retire sm-s931b" in raised.value.remedy
    with pytest.raises(WrongPhone, match="tells no serial number"):
        identify("tcp:desk:5555", None, {"serial": "", **facts}, ROOT, settings, [])
    with pytest.raises(WrongPhone, match="the name sm-s931b belongs to the phone A"):
        identify("tcp:desk:5556", "sm-s931b", {"serial": "B", **facts}, ROOT, settings, [known])
    moved = identify("tcp:desk:5557", None, {"serial": "A", **facts}, ROOT, settings, [replace(known, tags=("lab",))])
    assert (moved.name, moved.address, moved.tags) == (known.name, "tcp:desk:5557", ("lab",))
    retired = replace(known, state=DeviceState.RETIRED)
    assert identify("tcp:desk:5555", None, {"serial": "B", **facts}, ROOT, settings, [retired]).name == "sm-s931b"


def test_a_connection_checks_who_answers(bench: Bench, settings: Settings) -> None:
    connect = connecting.connector(settings)
    connect(bench.device).close()
    with pytest.raises(WrongPhone, match="phone desk: another phone answers"):
        connect(replace(bench.device, serial="SOMEBODY"))


def test_a_busy_phone_is_not_repaired(bench: Bench, settings: Settings, registry: Registry) -> None:
    device = register(address(bench), None, settings, registry, ignore)
    held = registry.reserve(device.name, "somebody", 60)
    with pytest.raises(FarmError, match="phone oneplus12 is busy"):
        register(address(bench), None, settings, registry, ignore)
    registry.release(held)

    def taken(step: Step) -> None:
        if step.name == "runtime" and step.detail:
            assert registry.device(device.name).state is DeviceState.BUSY, "nothing starts there meanwhile"

    register(address(bench), None, settings, registry, taken)
    assert registry.device(device.name).state is DeviceState.READY


def test_calibration_is_a_step_of_a_registered_phone(bench: Bench, settings: Settings, registry: Registry) -> None:
    steps: list[Step] = []

    def measure(device: Device) -> str:
        assert registry.device(device.name).state is DeviceState.READY
        return "qwen-coder: abc"

    register(address(bench), None, settings, registry, steps.append, measure)
    assert (steps[-1].name, steps[-1].detail) == ("calibration", "qwen-coder: abc")

    def fail(device: Device) -> str:
        raise FarmError("no costs", "Try again.")

    with pytest.raises(FarmError, match="step 'calibration' failed: no costs"):
        register(address(bench), None, settings, registry, ignore, fail)
    assert registry.device("oneplus12").state is DeviceState.READY


def test_free_names() -> None:
    def device(name: str, state: DeviceState = DeviceState.READY) -> Device:
        return Device(name, "", "tcp", "here", name, ROOT, state)

    assert free_name("Pixel 8 (Pro)", []) == "pixel-8-pro"
    assert free_name("a", [device("a"), device("a-2"), device("b")]) == "a-3"
    assert free_name("a", [device("a", DeviceState.RETIRED)]) == "a"
    assert free_name("???", []) == "phone"


def test_retire(settings: Settings, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    register("virtual:midrange", None, settings, registry, ignore)
    with monkeypatch.context() as busy:
        attempt = SimpleNamespace(device="midrange", trial_id="abc", attempt_id="abc.1")
        busy.setattr(registry, "running", lambda: [attempt])
        with pytest.raises(FarmError, match="busy with trial abc"):
            retire("midrange", settings, registry)
    assert retire("midrange", settings, registry)
    assert registry.device("midrange").state == DeviceState.RETIRED
    assert virtual_phones.names(settings) == []
    with pytest.raises(LeverError):
        retire("nobody", settings, registry)
    assert register("virtual:midrange", None, settings, registry, ignore).name == "midrange"
