"""`lever phones quarantine | release | retire | gc`."""

from __future__ import annotations

from pathlib import Path

import click

from orchestrator.cli.finite import finite
from orchestrator.cli.phone_farm import phone_farm


@click.command()
@click.argument("name")
@click.option("--reason", default="no reason given", help="For whoever wonders later.")
def quarantine(name: str, reason: str) -> None:
    """Keep trials away from a phone until it is released; one that runs there goes on."""
    from orchestrator.farm import look_now

    with phone_farm() as (_, registry):
        look_now.quarantine(name, reason, registry)
    click.echo(f"{name} is quarantined. Back with: lever phones release {name}")


@click.command()
@click.argument("name")
def release(name: str) -> None:
    """Let a quarantined phone back into the farm, after a look at it."""
    from orchestrator.entities import DeviceState
    from orchestrator.errors import FarmError
    from orchestrator.farm import look_now
    from orchestrator.farm.connecting import connector
    from orchestrator.farm.health import ANSWER_S
    from orchestrator.farm.targets import to_register

    with phone_farm() as (settings, registry):
        state, reason = look_now.release(name, registry, connector(settings, timeout_s=ANSWER_S))
        again = to_register(registry.device(name), settings)
    if state is not DeviceState.READY:
        raise FarmError(f"{name} is released, but {state.value}: {reason}", f"When that is mended: {again}")
    click.echo(f"{name} is released and ready.")


@click.command()
@click.argument("name")
@click.option("--wipe", "wiped", is_flag=True, help="First remove everything of ours from the phone.")
def retire(name: str, wiped: bool) -> None:
    """Take a phone out of the farm; its results stay. A virtual phone's process and folder are removed.

    --wipe ends what runs there and removes our folder; the phone has to be reached for that. That it trusts this
    computer's key only its owner can undo: developer options, "Revoke USB debugging authorisations".
    """
    from orchestrator.farm import retirement
    from orchestrator.farm.connecting import connector

    with phone_farm() as (settings, registry):
        root = retirement.wipe(name, registry, connector(settings)) if wiped else ""
        removed = retirement.retire(name, settings, registry)
    folder = Path(settings.phones / name)
    click.echo(
        f"{name} is retired{f'; {root} is gone from it' if root else ''}"
        f"{f'; its folder {folder} is gone' if removed else ''}."
    )


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option(
    "--older-than", type=click.FloatRange(min=0), callback=finite, default=14.0, show_default=True, metavar="DAYS"
)
@click.option(
    "--keep-free",
    type=click.FloatRange(min=0),
    callback=finite,
    default=0.0,
    metavar="GB",
    help="And more, until so much is.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def gc(names: tuple[str, ...], older_than: float, keep_free: float, dry_run: bool) -> None:
    """Remove packs and runtimes that were not used for long from phones (default: all that are not retired).

    Never what a trial that waits or runs needs. With --keep-free also younger ones, the longest unused first.
    """
    from orchestrator.cli.phone_views import print_garbage
    from orchestrator.entities import DeviceState
    from orchestrator.errors import FarmError, LeverError
    from orchestrator.farm.connecting import connector
    from orchestrator.farm.garbage import DAY_S, Policy, collect_garbage

    policy, failed = Policy(older_than * DAY_S, keep_free * 1e9), []
    with phone_farm() as (settings, registry):
        chosen = [registry.device(name) for name in names]
        every = [d for d in registry.devices() if d.state is not DeviceState.RETIRED and d.host == settings.host]
        for device in chosen or every:
            try:
                print_garbage(device, collect_garbage(device, registry, connector(settings), policy, dry_run), dry_run)
            except LeverError as error:  # one bad phone does not keep the others full
                failed.append(device.name)
                click.echo(f"{device.name}: {error.message}. {error.remedy}", err=True)
    if failed:
        raise FarmError(f"not collected: {', '.join(failed)}", "What was said above tells why.")
