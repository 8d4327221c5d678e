"""`lever phones …`: register, list and show here, the rest in the modules beside this one."""

from __future__ import annotations

import json

import click

from orchestrator.cli.phone_care import gc, quarantine, release, retire
from orchestrator.cli.phone_costs import calibrate
from orchestrator.cli.phone_farm import phone_farm
from orchestrator.cli.phone_fault import fault
from orchestrator.cli.phone_reach import discover, pair

SHOWN_STATES = 20


@click.group()
def phones() -> None:
    """Register phones, see how they are, look after them."""


@phones.command()
@click.argument("target", metavar="virtual:PROFILE | HOST:PORT | usb:SERIAL | wireless:HOST:PORT")
@click.option("--name", help="What to call it; default: its profile or model, numbered when taken.")
@click.option("--pair", help="Also measure what passes of this pair cost there (lever phones calibrate).")
def register(target: str, name: str | None, pair: str | None) -> None:
    """Make a phone part of the farm, or repair one that is: every step may be repeated.

    virtual:PROFILE starts a virtual phone on this machine (with --name of an existing one: repairs it). HOST:PORT
    connects to a phone that listens for ADB over TCP; usb:SERIAL to one that `lever phones discover` lists;
    wireless:HOST:PORT to one paired by `lever phones pair`. Allow this computer when the phone asks. The way from
    developer options on: docs/phones.md.

    No real phone was at hand: USB cables, pairing and vendors' quirks are untested, all else was tried on virtual
    phones and on Debian's adbd.
    """
    from orchestrator.cli.phone_costs import measured
    from orchestrator.cli.phone_views import StepPrinter, label
    from orchestrator.entities import Device
    from orchestrator.farm import registration
    from orchestrator.wiring import model_store

    def costs(device: Device) -> str:
        found, kept = measured(device, str(pair), settings, registry, lambda _progress: None)
        return f"{pair}: {found['key']}{', kept from before' if kept else ''}"

    with phone_farm(make=True) as (settings, registry), StepPrinter() as printer:
        if pair:
            model_store(settings).pair(pair)  # an unknown one is told before anything is done
        device = registration.register(target, name, settings, registry, printer, costs if pair else None)
    click.echo(f"{device.name} ({label(device)}) is ready. Use it: lever sweep … phones={device.name}")


@phones.command("list")
@click.option("--all", "retired", is_flag=True, help="Retired phones too.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def list_phones(retired: bool, as_json: bool) -> None:
    """List the farm's phones with their states.

    While the farm is up it watches them; when it is not, each is looked at now.
    """
    from orchestrator.cli.phone_views import as_data, print_table
    from orchestrator.entities import DeviceState
    from orchestrator.service.live_states import live

    with phone_farm() as (settings, registry):
        devices = [d for d in live(settings, registry) if retired or d.state is not DeviceState.RETIRED]
        attempts = {attempt.device: attempt for attempt in registry.running()}
        if as_json:
            click.echo(json.dumps([as_data(d, settings, attempts.get(d.name)) for d in devices], indent=2))
        elif devices:
            print_table(devices, settings, attempts)
        else:
            click.echo("No phones yet. Start with: lever phones register virtual:oneplus12")


@phones.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def show(name: str, as_json: bool) -> None:
    """Show all that is known of one phone, and the states that it was in."""
    from orchestrator.cli.phone_views import as_data, as_history, print_details

    with phone_farm() as (settings, registry):
        device = registry.device(name)
        attempt = next((attempt for attempt in registry.running() if attempt.device == name), None)
        history = registry.device_history(name, SHOWN_STATES)
    data = as_data(device, settings, attempt)
    if as_json:
        click.echo(json.dumps(data | {"history": as_history(history)}, indent=2))
    else:
        print_details(data, history)


for command in (calibrate, discover, fault, gc, pair, quarantine, release, retire):
    phones.add_command(command)
