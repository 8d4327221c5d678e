"""`lever phones register | list | show | calibrate | retire`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from orchestrator import settings as farm_settings
from orchestrator.registry.contract import Registry
from orchestrator.settings import Settings


@click.group()
def phones() -> None:
    """Register, list and show phones."""


@phones.command()
@click.argument("target", metavar="virtual:PROFILE | HOST:PORT")
@click.option("--name", help="What to call it; default: its profile or model, numbered when taken.")
def register(target: str, name: str | None) -> None:
    """Make a phone part of the farm, or repair one that is.

    virtual:PROFILE starts a virtual phone on this machine (with --name of an existing one: repairs it). HOST:PORT
    connects to a phone that listens for ADB over TCP; allow this computer when the phone asks.
    """
    from orchestrator.cli.phone_views import StepPrinter, label
    from orchestrator.farm import registration

    with _farm() as (settings, registry), StepPrinter() as printer:
        device = registration.register(target, name, settings, registry, printer)
    click.echo(f"{device.name} ({label(device)}) is ready. Use it: lever sweep … phones={device.name}")


@phones.command("list")
@click.option("--all", "retired", is_flag=True, help="Retired phones too.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def list_phones(retired: bool, as_json: bool) -> None:
    """List the farm's phones with their states."""
    from orchestrator.cli.phone_views import as_data, print_table
    from orchestrator.entities import DeviceState

    with _farm() as (settings, registry):
        devices = [d for d in registry.devices() if retired or d.state is not DeviceState.RETIRED]
        running = {attempt.device: attempt for attempt in registry.running()}
        if as_json:
            click.echo(json.dumps([as_data(d, settings, running.get(d.name)) for d in devices], indent=2))
        elif devices:
            print_table(devices, settings, running)
        else:
            click.echo("No phones yet. Start with: lever phones register virtual:oneplus12")


@phones.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def show(name: str, as_json: bool) -> None:
    """Show all that is known of one phone."""
    from orchestrator.cli.phone_views import as_data, print_details

    with _farm() as (settings, registry):
        device = registry.device(name)
        running = next((attempt for attempt in registry.running() if attempt.device == name), None)
    data = as_data(device, settings, running)
    if as_json:
        click.echo(json.dumps(data, indent=2))
    else:
        print_details(data)


@phones.command()
@click.argument("name")
@click.option("--pair", required=True, help="Whose passes to measure, as `lever models list` shows it.")
@click.option("--threads", type=click.IntRange(1, 256), default=2, show_default=True, help="As engine.threads.")
@click.option(
    "--storage",
    type=click.Choice(["flash", "resident", "mmap"]),
    default="flash",
    show_default=True,
    help="As engine.storage.mode.",
)
@click.option("--again", is_flag=True, help="Measure even if nothing changed.")
def calibrate(name: str, pair: str, threads: int, storage: str, again: bool) -> None:
    """Measure what passes of a pair cost on the phone NAME, and how fast its flash is; trials there use it.

    It is kept until the phone's build, the engine, the packs or these settings change; then measure again.
    """
    from device_agent.protocol import CostCalibration, from_json, to_json
    from orchestrator.cli.calibrate import print_costs
    from orchestrator.cli.phone_views import calibrating
    from orchestrator.cost_key import cost_key
    from orchestrator.farm import cost_calibration
    from orchestrator.farm.connecting import connector
    from orchestrator.wiring import model_store

    with _farm() as (settings, registry):
        device, store = registry.device(name), model_store(settings)
        found = store.pair(pair)
        job = cost_calibration.costs_job(found.target_pack, found.draft_pack, threads, storage)
        kept = None if again else registry.costs(name, cost_key(device, to_json(job)) or "")
        with calibrating(name) as report:
            run = cost_calibration.runner(connector(settings), store, settings, report)
            costs = kept or cost_calibration.calibrate(device, job, registry, run)
    print_costs(from_json(CostCalibration, costs))
    click.echo(
        f"{name}: calibration {costs['key']} {'is kept from before (--again measures anew)' if kept else 'is kept'}"
    )


@phones.command()
@click.argument("name")
def retire(name: str) -> None:
    """Take a phone out of the farm; its results stay. A virtual phone's process and folder are removed."""
    from orchestrator.farm import retirement

    with _farm() as (settings, registry):
        removed = retirement.retire(name, settings, registry)
    folder = Path(settings.phones / name)
    click.echo(f"{name} is retired{f'; its folder {folder} is gone' if removed else ''}.")


@contextmanager
def _farm() -> Iterator[tuple[Settings, Registry]]:
    from orchestrator import wiring

    settings = farm_settings.load()
    with closing(wiring.open_registry(settings)) as registry:
        yield settings, registry
