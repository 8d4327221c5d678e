"""`lever phones discover | pair`: phones that an adb server knows, and pairing for wireless debugging."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from orchestrator.cli.phone_farm import phone_farm

if TYPE_CHECKING:
    from orchestrator.entities import Device
    from orchestrator.farm.adb.server_phones import ListedPhone

NONE_LISTED = """\
No phone. On the phone: settings, developer options, USB debugging; then plug it in and unlock it.
Over the air: lever phones pair HOST:PORT CODE. Step by step: docs/phones.md"""
WAITS = {
    "unauthorized": "unlock it and tap 'Always allow from this computer'",
    "offline": "plug it in again",
    "no permissions": "this user may not open the USB device: see docs/phones.md",
}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def discover(as_json: bool) -> None:
    """List the phones that this machine's adb server sees, and how to register each.

    The server is the one that `adb devices` asks; it is started when it does not run, and never ended. It was tried
    with virtual phones only: no USB cable was at hand.
    """
    from orchestrator.farm.adb.server_phones import discover as listed
    from orchestrator.farm.adb.server_process import user_server

    phones = listed(user_server())
    with phone_farm() as (_, registry):
        known = {device.serial: device for device in registry.devices()}
    if as_json:
        click.echo(json.dumps([_as_data(phone, known) for phone in phones], indent=2))
    elif not phones:
        click.echo(NONE_LISTED)
    for phone in () if as_json else phones:
        click.echo(f"{phone.serial}  {phone.state}  {phone.model or 'model unknown'}  {_next(phone, known)}")


@click.command()
@click.argument("address", metavar="HOST:PORT")
@click.argument("code")
def pair(address: str, code: str) -> None:
    """Pair with a phone's wireless debugging: Pair device with pairing code shows HOST:PORT and CODE.

    Both change every time, and the port is not the one to register: that one stands on the page before. Untested with
    a real phone.
    """
    from orchestrator.errors import UsageError
    from orchestrator.farm.adb.connect import parse_endpoint
    from orchestrator.farm.adb.server_phones import pair as paired
    from orchestrator.farm.adb.server_process import private_server
    from orchestrator.farm.connecting import key_path

    try:
        parse_endpoint(f"wireless:{address}")
    except UsageError as error:
        raise UsageError(f"{address!r} is not HOST:PORT", "Type what the phone's pairing dialog shows.") from error
    with phone_farm() as (settings, _):
        click.echo(paired(private_server(key_path(settings)), address, code))
    click.echo("Now: lever phones register wireless:HOST:PORT, with the port of the page 'Wireless debugging'.")


def _as_data(phone: ListedPhone, known: dict[str, Device]) -> dict[str, object]:
    from dataclasses import asdict

    device = known.get(phone.serial)
    return asdict(phone) | {"registered": device.name if device else None}


def _next(phone: ListedPhone, known: dict[str, Device]) -> str:
    if device := known.get(phone.serial):
        return f"registered as {device.name}"
    if phone.state != "device":
        return WAITS.get(phone.state, "not ready")
    return f"lever phones register usb:{phone.serial}"
