"""The steps of a registration that bring something to the phone or measure it there, in their order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from device_agent.protocol import PROTOCOL_VERSION
from orchestrator.entities import Device
from orchestrator.errors import CommandFailed, PhoneDiskFull, PhoneError, PhoneUnsuitable
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.adb.quote import quote
from orchestrator.farm.connecting import Connect
from orchestrator.farm.parcel import Parcel
from orchestrator.farm.provisioning import listing, provision, run
from orchestrator.farm.runtimes import BUNDLE, HOST_PYTHON, runtime_for
from orchestrator.farm.self_test import run_self_test
from orchestrator.farm.sensors import as_facts, read_vitals, summary
from orchestrator.farm.steps import Report, Step, step
from orchestrator.settings import Settings

LEAST_FREE = 200_000_000  # bytes: the runtime, the smallest pair's job, and what Android itself wants to keep
SELF_TEST_S = 60.0
EMULATION = 10  # times as long may it take when the processor is emulated
COMMAND_S = 20.0
PROBED = {"protocol_version", "engine_version", "python", "ggml", "o_direct"}
NO_WRITING = ("Read-only file system", "Permission denied", "Not a directory", "Operation not permitted", "File exists")


def equip(phone: Transport, device: Device, connect: Connect, settings: Settings, report: Report) -> None:
    """Fills in `device.facts`. Each step may be repeated; one that fails is named. Raises PhoneError."""
    with step("space", report) as done:
        free = _free_bytes(phone, device.root)
        done(f"{free / 1e9:.1f} GB free at {device.root}")
    with step("runtime", report) as done:
        bundle = runtime_for(device.facts, settings.home)
        provision(phone, device.root, [bundle], lambda sent, total: report(Step("runtime", None, sent / max(1, total))))
        device.facts["runtime_hash"] = bundle.hash
        if device.facts["runtime"] != HOST_PYTHON:
            device.facts["runtime"] = BUNDLE
        done(f"{bundle.hash[:12]}{_said_of(device)}")
    with step("self-test", report) as done:
        device.facts["agent"] = found = _probe(phone, device, bundle)
        compared = run_self_test(device, connect, settings)
        done(
            "engine {engine_version}, Python {python}, ggml {ggml}".format_map(found)
            + f"{_kernels(found)}: "
            + compared
        )
    with step("flash", report) as done:
        device.facts["flash_measured"] = measured = _flash(phone, device, bundle)
        done(f"{measured['mb_s']:g} MB/s read ({measured['io_mode']}){_profile_says(device)}")
    with step("sensors", report) as done:
        vitals = read_vitals(phone)
        device.facts["sensors"] = as_facts(vitals)
        done(summary(vitals))


@contextmanager
def left_clean(phone: Transport, device: Device, connect: Connect) -> Iterator[None]:
    """Remove our folder when something fails and it was not there before; over a new connection if that failed too."""
    was_there = phone.shell(f"[ -e {quote(device.root)} ]", COMMAND_S).exit_code == 0
    try:
        yield
    except BaseException:
        if not was_there:
            _remove(phone, device, connect)
        raise


def _remove(phone: Transport, device: Device, connect: Connect) -> None:
    remove = f"rm -rf {quote(device.root)}"
    try:
        run(phone, remove, COMMAND_S)
    except PhoneError:
        with suppress(PhoneError), connect(device) as again:
            run(again, remove, COMMAND_S)


def _free_bytes(phone: Transport, root: str) -> int:
    with _no_writing_named(f"{root} cannot be made on the phone"):
        _, free = listing(phone, root, [])
    if free < LEAST_FREE:
        raise PhoneDiskFull(
            f"{free / 1e6:.0f} MB are free at {root}, and {LEAST_FREE / 1e6:.0f} MB are wanted at least",
            "Free some space on the phone.",
        )
    with _no_writing_named(f"{root} cannot be written on the phone"):
        run(phone, f"touch {quote(f'{root}/.new')} && rm {quote(f'{root}/.new')}", COMMAND_S)
    return free


@contextmanager
def _no_writing_named(what: str) -> Iterator[None]:
    try:
        yield
    except CommandFailed as error:
        if any(words in error.message for words in NO_WRITING):
            raise PhoneUnsuitable(
                f"{what}: {error.message}",
                "See that /data/local/tmp exists there, that its shell may write to it (adb shell touch /data/local"
                "/tmp/x) and that no file has our folder's name; a restart mends a file system that went read-only.",
            ) from error
        raise


def _probe(phone: Transport, device: Device, bundle: Parcel) -> dict[str, Any]:
    """What the agent finds on the phone."""
    found = _asked(phone, device, bundle, "probe")
    if not found.keys() >= PROBED or found["protocol_version"] != PROTOCOL_VERSION:
        raise CommandFailed(f"the agent's probe answered {found!r}", _AGAIN)
    return found


def _flash(phone: Transport, device: Device, bundle: Parcel) -> dict[str, Any]:
    """`mb_s` and `io_mode`."""
    found = _asked(phone, device, bundle, "flash")
    if not isinstance(found.get("mb_s"), int | float) or found["mb_s"] <= 0:
        raise CommandFailed(f"the agent's flash measurement answered {found!r}", _AGAIN)
    return {"mb_s": float(found["mb_s"]), "io_mode": str(found.get("io_mode"))}


_AGAIN = "Register the phone again: its runtime may be damaged."


def _asked(phone: Transport, device: Device, bundle: Parcel, command: str) -> dict[str, Any]:
    """The last line that the agent's `command` prints about our folder: JSON."""
    root, patience_s = device.root, SELF_TEST_S * (EMULATION if device.facts.get("emulated") else 1)
    agent = quote(f"{root}/{bundle.path}/agent")
    result = phone.shell(f"sh {agent} {command} {quote(root)}", patience_s)
    last = (result.stdout.strip().splitlines() or ["it printed nothing"])[-1]
    if result.exit_code != 0:
        if last.startswith("error: "):  # the bundle's own words (bundles/on_phone/agent): they say what to do
            raise CommandFailed(last.removeprefix("error: "))
        raise CommandFailed(f"the agent's {command} ended with exit code {result.exit_code}: {last[:300]}", _AGAIN)
    try:
        found = json.loads(last)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CommandFailed(f"the agent's {command} answered {last[:300]!r}", _AGAIN)
    return found


def _said_of(device: Device) -> str:
    if device.facts["runtime"] == HOST_PYTHON:
        return ": the agent on this host's Python (virtual phones only)"
    return f" for {device.facts['abi']}{', emulated' if device.facts.get('emulated') else ''}"


def _kernels(found: Mapping[str, Any]) -> str:
    return f" for {found['ggml_variant']}" if found.get("ggml_variant") else ""


def _profile_says(device: Device) -> str:
    stated = device.facts.get("flash_mb_s")
    return f"; its profile states {stated} MB/s, and a run gets the lower of both" if stated else ""
