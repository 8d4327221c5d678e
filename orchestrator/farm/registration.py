"""Register a phone step by step.

Every step may be repeated: registering again repairs. The registry is written last, so that a failure leaves nothing
half-registered, and what we brought to a new phone is taken away again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from device_agent.protocol import PROTOCOL_VERSION
from orchestrator.entities import Device
from orchestrator.errors import CommandFailed, LeverError, PhoneError, PhoneUnauthorized, ProvisioningFailed
from orchestrator.farm import virtual_phones
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.adb.quote import quote
from orchestrator.farm.bundle import host_python_bundle
from orchestrator.farm.connecting import open_address
from orchestrator.farm.facts import read_facts
from orchestrator.farm.health import probe
from orchestrator.farm.provisioning import listing, provision, run
from orchestrator.farm.targets import free_name, identify, parse_target
from orchestrator.registry.contract import Registry
from orchestrator.settings import Settings

ROOT = "/data/local/tmp/lever"
AUTHORISE_S = 60.0
SELF_TEST_S = 60.0
PROBED = {"protocol_version", "engine_version", "python", "ggml", "o_direct"}
COMMAND_S = 20.0
ASK = "Unlock the phone and tap 'Always allow from this computer', then 'Allow'."


@dataclass(frozen=True)
class Step:
    name: str  # start, connect, authorise, answer, facts, space, runtime, self-test, flash
    detail: str | None = None  # None: it has begun; else what came out of it


Report = Callable[[Step], None]


def register(target: str, name: str | None, settings: Settings, registry: Registry, report: Report) -> Device:
    """`target` is virtual:PROFILE or HOST:PORT. Raises UsageError for a bad target or name, and PhoneError or FarmError
    naming the step that failed."""
    if name is not None:
        virtual_phones.check_name(name)
    goal = parse_target(target)
    if goal.profile is None:
        return _register_at(goal.address, name, settings, registry, report)
    name = name or free_name(goal.profile, registry.devices())
    created = virtual_phones.create(settings, name, goal.profile)
    try:
        with _step("start", report) as done:
            address = virtual_phones.ensure_running(settings, name)
            done(f"virtual phone {name} listens at {address.removeprefix('tcp:')}")
        return _register_at(address, name, settings, registry, report)
    except BaseException:
        if created:
            virtual_phones.remove(settings, name)
        raise


def _register_at(address: str, name: str | None, settings: Settings, registry: Registry, report: Report) -> Device:
    with _connected(address, settings, report) as phone:
        with _step("answer", report) as done:
            probe(phone)
            done("a nonce came back")
        with _step("facts", report) as done:
            facts = read_facts(phone)
            device = identify(address, name, facts, ROOT, settings, registry.devices())
            done(_summary(device))
        with _left_clean(phone, device.root):
            _equip(phone, device, settings, report)
    registry.put_device(device)
    return device


def _connected(address: str, settings: Settings, report: Report) -> Transport:
    """A phone that does not know our key asks its owner, who gets time to find it."""
    try:
        with _step("connect", report) as done:
            phone = open_address(settings, address)
            done(address.removeprefix("tcp:"))
    except PhoneUnauthorized:
        with _step("authorise", report) as done:
            report(Step("authorise", ASK))
            phone = open_address(settings, address, AUTHORISE_S)
            done("allowed")
    return phone


def _equip(phone: Transport, device: Device, settings: Settings, report: Report) -> None:
    with _step("space", report) as done:
        _, free = listing(phone, device.root, [])
        done(f"{free / 1e9:.1f} GB free at {device.root}")
    with _step("runtime", report) as done:
        if device.facts["runtime"] != "host-python":
            raise ProvisioningFailed(
                f"this version has no runtime bundle for {device.facts['abi']} phones",
                "It runs trials on virtual phones: lever phones register virtual:oneplus12",
            )
        bundle = host_python_bundle(settings.home)
        provision(phone, device.root, [bundle], lambda _done, _total: None)
        device.facts["runtime_hash"] = bundle.hash
        done(f"{bundle.hash[:12]}: the agent on this host's Python (virtual phones only)")
    with _step("self-test", report) as done:
        device.facts["agent"] = _self_test(phone, device.root, bundle.path)
        done("the agent starts: {engine_version}, Python {python}, ggml {ggml}".format_map(device.facts["agent"]))
    with _step("flash", report) as done:
        done(f"profile states {device.facts['flash_mb_s']} MB/s; a run gets no more than this host's disk gives")


def _self_test(phone: Transport, root: str, bundle_path: str) -> dict[str, Any]:
    """What the agent finds on the phone: its own last line, JSON."""
    agent = quote(f"{root}/{bundle_path}/agent")
    result = phone.shell(f"sh {agent} probe {quote(root)}", SELF_TEST_S)
    lines = result.stdout.strip().splitlines() or ["it printed nothing"]
    if result.exit_code != 0:
        raise CommandFailed(f"the agent's probe ended with exit code {result.exit_code}: {lines[-1][:300]}")
    try:
        found = json.loads(lines[-1])
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found.keys() >= PROBED or found["protocol_version"] != PROTOCOL_VERSION:
        raise CommandFailed(f"the agent's probe answered {lines[-1][:300]!r}")
    return found


def _summary(device: Device) -> str:
    facts = device.facts
    label = "virtual, " if device.simulated else ""
    return f"{label}{facts['model']}, {facts['soc']}, {facts['cores']} cores, {facts['ram_mb'] / 1024:.0f} GB RAM"


@contextmanager
def _step(name: str, report: Report) -> Iterator[Callable[[str], None]]:
    """Announce the step; an error inside it says which step it was."""
    report(Step(name))
    try:
        yield lambda detail: report(Step(name, detail))
    except LeverError as error:
        raise type(error)(f"step {name!r} failed: {error.message}", error.remedy) from error


@contextmanager
def _left_clean(phone: Transport, root: str) -> Iterator[None]:
    """Remove our folder when something fails and it was not there before."""
    was_there = phone.shell(f"[ -e {quote(root)} ]", COMMAND_S).exit_code == 0
    try:
        yield
    except BaseException:
        if not was_there:
            with suppress(PhoneError):
                run(phone, f"rm -rf {quote(root)}", COMMAND_S)
        raise
