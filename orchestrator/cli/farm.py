"""`lever up`, `lever down`, `lever status`."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import asdict, replace

import click
from rich.console import Console
from rich.table import Table

from orchestrator import settings as farm_settings
from orchestrator import wiring
from orchestrator.ray_token import token_path
from orchestrator.service import down as service_down
from orchestrator.service import up as service_up
from orchestrator.service.status import FarmStatus
from orchestrator.service.status import status as farm_status

WORDS = {
    "up": "[green]up[/]",
    "starting": "[yellow]starting[/]",
    "restarting": "[yellow]restarting[/]",
    "down": "down; `lever up` starts it",
    "died": "[red]its supervisor died[/]; `lever up` starts it again, `lever down` ends what is left",
}


def say(text: str) -> None:
    """One step of progress."""
    click.echo(f"· {text}")


@click.command()
@click.option("--listen", metavar="HOST:PORT", help="Let other machines join there, by `lever host join HOST:PORT`.")
@click.option("--address", metavar="HOST:PORT", help="Work in the Ray whose head runs there, not in one of our own.")
def up(listen: str | None, address: str | None) -> None:
    """Start the farm's service in the background: Ray's head, the controller, the virtual phones.

    Does nothing when it runs. `lever sweep` also starts it when needed. --listen takes the address by which other
    machines reach this one. With --address this machine must have joined that Ray; every machine that has is a farm
    host.
    """
    settings = farm_settings.load()
    if listen and address:
        raise click.UsageError("--listen is for a Ray of our own, --address for one that runs: give one of them")
    if settings.joined and (listen or address):
        raise click.UsageError(f"this machine is a host of the farm at {settings.joined}; see: lever host leave")
    if address is not None:
        settings = replace(settings, ray_address=checked_address("--address", address))
    if listen is not None:
        settings = replace(settings, ray_listen=checked_address("--listen", listen))
    began = time.monotonic()
    started = service_up.ensure_up(settings, say)
    took = f" after {time.monotonic() - began:.1f} s" if started else " already"
    click.echo(f"The farm at {settings.home} is up{took}. See: lever status")
    if listen:
        click.echo(f"On another machine, with a copy of {token_path(settings)}: lever host join {listen}")


def checked_address(name: str, address: str) -> str:
    """Raises click.UsageError."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isdecimal() and 0 < int(port) < 65536):
        raise click.UsageError(f"{name} {address}: not HOST:PORT of a Ray head, such as 10.0.0.5:6379")
    return address


@click.command()
def down() -> None:
    """Stop what `lever up` started, and nothing else.

    Sweeps that are not over go on at the next `lever up`; attempts on real phones go on meanwhile.
    """
    settings = farm_settings.load()
    ended = service_down.down(settings, say)
    click.echo(f"The farm at {settings.home} is down{'' if ended else ' already'}.")
    with closing(wiring.registry_to_read(settings)) as registry:
        for sweep in farm_status(settings, registry).sweeps:
            click.echo(f"Sweep {sweep.name} is not over; it goes on at the next: lever up")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def status(as_json: bool) -> None:
    """Show the service, its phones and the sweeps that are not over."""
    settings = farm_settings.load()
    with closing(wiring.registry_to_read(settings)) as registry:
        found = farm_status(settings, registry)
    if as_json:
        click.echo(json.dumps(asdict(found), indent=1))
        return
    _print(Console(), found)


def _print(console: Console, found: FarmStatus) -> None:
    whose = f"Host of the farm at {found.joined}, in {found.home}" if found.joined else f"Farm at {found.home}"
    console.print(f"{whose}: {WORDS[found.state]}", soft_wrap=True)
    if found.joined and found.supervisor_pid:
        console.print(f"  supervisor pid {found.supervisor_pid}, Ray's node pid {found.head_pid}", soft_wrap=True)
    elif found.state in ("up", "starting", "restarting"):
        console.print(
            f"  supervisor pid {found.supervisor_pid}, Ray's head pid {found.head_pid} at {found.ray_address or '…'}, "
            f"controller pid {found.controller_pid or '…'} ({found.controller_restarts} restarts)",
            soft_wrap=True,
        )
    if found.hosts[1:]:
        console.print(f"  farm hosts: {', '.join(found.hosts)}", soft_wrap=True, markup=False)
    if found.paused:
        console.print(f"  paused: {found.paused}", soft_wrap=True, markup=False)
    if found.error:
        console.print(f"  last trouble: {found.error}", soft_wrap=True, markup=False)
    console.print(_phones(found) if found.phones else "  no phones; e.g. lever phones register virtual:oneplus12")
    for note in _notes(found):
        console.print(note, soft_wrap=True, markup=False)
    for sweep in found.sweeps:
        counts = ", ".join(f"{number} {state}" for state, number in sweep.counts.items() if number)
        console.print(f"  sweep {sweep.name}: {counts}", soft_wrap=True, markup=False)
        for reason, count in found.outlook.waiting.get(sweep.sweep_id, {}).items():
            console.print(f"    {count} waiting: {reason}", soft_wrap=True, markup=False)
    if found.outlook.expected:
        console.print(f"  all done in: {found.outlook.expected}", soft_wrap=True, markup=False)
    if not found.sweeps:
        console.print("  no sweep in progress")


def _phones(found: FarmStatus) -> Table:
    table = Table("phone", "kind", "state", "address", box=None, pad_edge=False, padding=(0, 2))
    for phone in found.phones:
        address = (phone.address or "not running").removeprefix("tcp:")
        table.add_row(phone.name, phone.kind, phone.state, address)
    return table


def _notes(found: FarmStatus) -> list[str]:
    """What phones do, and why they do not; below their table, so that it stays narrow."""
    doing = [f"  {phone.name}: {phone.attempt}" for phone in found.phones if phone.attempt]
    return doing + [f"  {phone.name}: {phone.reason}" for phone in found.phones if phone.reason]
