"""Register a phone step by step.

Every step may be repeated: registering again repairs. The registry is written last, so that a failure leaves nothing
half-registered, and what we brought to a new phone is taken away again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from orchestrator.entities import Device, DeviceState
from orchestrator.errors import FarmError, PhoneUnauthorized, PhoneUnsuitable
from orchestrator.farm import virtual_phones
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.connecting import connector, key_path, open_address
from orchestrator.farm.equipment import equip, left_clean
from orchestrator.farm.facts import read_facts
from orchestrator.farm.health import probe
from orchestrator.farm.holding import undisturbed
from orchestrator.farm.steps import Report, Step, step
from orchestrator.farm.targets import free_name, identify, parse_target
from orchestrator.registry.contract import Registry
from orchestrator.settings import Settings

ROOT = "/data/local/tmp/lever"
CONNECT_S = 8.0  # a phone answers within one second, over the air within three
AUTHORISE_S = 60.0
LEAST_SDK = 29  # Android 10: before it there is no `dumpsys thermalservice`, and toybox lacks what our shell needs
ASK = "Unlock the phone and tap 'Always allow from this computer', then 'Allow'."

Calibrate = Callable[[Device], str]
"""Measures what passes cost on a registered phone; what came out, in words. Raises LeverError."""


def register(
    target: str,
    name: str | None,
    settings: Settings,
    registry: Registry,
    report: Report,
    calibrate: Calibrate | None = None,
) -> Device:
    """`target` is virtual:PROFILE, HOST:PORT or usb:SERIAL. Raises UsageError for a bad target or name, and PhoneError
    or FarmError naming the step that failed. Whatever its state was, the phone is ready afterwards."""
    if name is not None:
        virtual_phones.check_name(name)
    goal = parse_target(target)
    if goal.profile is None:
        device = _register_at(goal.address, name, settings, registry, report)
    else:
        device = _register_virtual(goal.profile, name, settings, registry, report)
    if calibrate is not None:
        with step("calibration", report) as done:
            done(calibrate(device))
    return device


def _register_virtual(profile: str, name: str | None, settings: Settings, registry: Registry, report: Report) -> Device:
    name = name or free_name(profile, registry.devices())
    created = virtual_phones.create(settings, name, profile)
    try:
        with step("start", report) as done:
            address = virtual_phones.ensure_running(settings, name)
            done(f"virtual phone {name} listens at {address.removeprefix('tcp:')}")
        return _register_at(address, name, settings, registry, report)
    except BaseException:
        if created:
            virtual_phones.remove(settings, name)
        raise


def _register_at(address: str, name: str | None, settings: Settings, registry: Registry, report: Report) -> Device:
    with _connected(address, settings, report) as phone:
        with step("answer", report) as done:
            probe(phone)
            done("a nonce came back")
        with step("facts", report) as done:
            facts = read_facts(phone)
            _check_android(facts["sdk"])
            device = identify(address, name, facts, ROOT, settings, registry.devices())
            done(_summary(device))
        connect = connector(settings)
        with _alone(device, registry), left_clean(phone, device, connect):
            equip(phone, device, connect, settings, report)
    registry.put_device(device)
    return device


def _connected(address: str, settings: Settings, report: Report) -> Transport:
    """A phone that does not know our key asks its owner, who gets time to find it."""
    try:
        with step("connect", report) as done:
            phone = open_address(settings, address, CONNECT_S)
            done(address.removeprefix("tcp:"))
    except PhoneUnauthorized:
        with step("authorise", report) as done:
            report(Step("authorise", asks=f"{ASK} (This computer's key: {key_path(settings)}.pub)"))
            phone = open_address(settings, address, AUTHORISE_S)
            done("allowed")
    return phone


@contextmanager
def _alone(device: Device, registry: Registry) -> Iterator[None]:
    """Nothing starts on a phone that is repaired. Raises FarmError while something runs there."""
    known = next((other for other in registry.devices() if other.name == device.name), None)
    if known is not None and known.state is DeviceState.BUSY:
        raise FarmError(f"phone {device.name} is busy", "Wait until its trial is done: lever status")
    with undisturbed(known, registry, "register") if known else nullcontext():
        yield


def _check_android(sdk: int) -> None:
    if 0 < sdk < LEAST_SDK:
        raise PhoneUnsuitable(
            f"its Android is too old: API level {sdk}, and {LEAST_SDK} (Android 10) is the least",
            "Update the phone, or use another one.",
        )
    if not sdk:
        raise PhoneUnsuitable(
            "it does not tell its Android version (ro.build.version.sdk): this is no Android phone, or a broken one",
            "Check the address; restart the phone.",
        )


def _summary(device: Device) -> str:
    facts = device.facts
    label = "virtual, " if device.simulated else ""
    android = f"Android API {facts['sdk']}"
    return (
        f"{label}{facts['model']}, {facts['soc']}, {android}, {facts['cores']} cores, "
        f"{facts['ram_mb'] / 1024:.0f} GB RAM"
    )
