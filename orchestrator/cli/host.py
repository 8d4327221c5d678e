"""`lever host`: this machine as one of several that lend their phones to a farm."""

from __future__ import annotations

import time

import click

from orchestrator import settings as farm_settings
from orchestrator.cli.farm import checked_address, say
from orchestrator.service import join as service_join


@click.group()
def host() -> None:
    """Lend this machine's phones to the farm of another."""


@host.command()
@click.argument("address", metavar="HOST:PORT")
def join(address: str) -> None:
    """Join the farm whose first machine ran `lever up --listen HOST:PORT`.

    Asks for the same versions and for the farm's token, in LEVER_HOME/ray_token or RAY_AUTH_TOKEN. Afterwards phones
    that are cabled here are registered here and are the whole farm's; `lever up` and `lever down` start and end this
    host's part.
    """
    settings, began = farm_settings.load(), time.monotonic()
    started = service_join.join(settings, checked_address("ADDRESS", address), say)
    took = f" after {time.monotonic() - began:.1f} s" if started else " already"
    click.echo(f"{settings.host} is a host of the farm at {address}{took}. Next: lever phones register usb:SERIAL")


@host.command()
def leave() -> None:
    """End this host's part and forget the farm; attempts on its phones go on."""
    settings = farm_settings.load()
    left = service_join.leave(settings, say)
    click.echo(f"{settings.host} has left the farm at {settings.joined}." if left else "No farm was joined.")
