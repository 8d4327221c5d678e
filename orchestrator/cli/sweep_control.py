"""Sweeps that were submitted before: `lever attach`, `resume` and `cancel`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import click

from orchestrator import settings as farm_settings
from orchestrator import table, wiring
from orchestrator.cli import results_view
from orchestrator.entities import Sweep, Trial, TrialState
from orchestrator.errors import TrialsFailed
from orchestrator.registry.contract import Registry

inline = click.option("--inline", is_flag=True, help="Run it in this process, without the background service.")


@click.command()
@click.argument("sweep")
@inline
def attach(sweep: str, inline: bool) -> None:
    """Follow SWEEP (a name or an id) until it is over; Ctrl-C detaches or cancels."""
    with closing(wiring.registry_to_read(farm_settings.load())) as registry:
        _see_through(registry, registry.sweep(sweep), inline)


@click.command()
@click.argument("sweep")
@inline
@click.option("--detach", is_flag=True, help="Queue it and return at once.")
def resume(sweep: str, inline: bool, detach: bool) -> None:
    """Run again what failed, was cancelled or still waits of SWEEP, as it was submitted."""
    from orchestrator.sweeps.stored import resume as take_up

    if inline and detach:
        raise click.UsageError("--inline and --detach: only the background service goes on without us")
    settings = farm_settings.load()
    with closing(wiring.registry_to_read(settings)) as registry:
        found = registry.sweep(sweep)
        taken = take_up(registry, found, wiring.model_store(settings))
        going = len(taken.in_progress)
        text = (
            f"sweep {found.name}: {len(taken.reused)} done before, {going} under way, {len(taken.queued)} to run again"
        )
        click.echo(text, err=True)
        if not detach:
            _see_through(registry, found, inline)
        elif taken.queued or taken.in_progress:
            _start_farm(settings)


@click.command()
@click.argument("sweep")
def cancel(sweep: str) -> None:
    """End SWEEP: what waits will not run, what runs is stopped, what is done stays."""
    settings = farm_settings.load()
    with closing(wiring.registry_to_read(settings)) as registry:
        found = registry.sweep(sweep)
        before = registry.counts(found.sweep_id)
        running = registry.cancel(found.sweep_id)
        closed = before.get(TrialState.WAITING, 0) - registry.counts(found.sweep_id).get(TrialState.WAITING, 0)
    click.echo(_cancelled(found, closed, len(running)))
    if running:
        _say_who_stops(settings)


def _cancelled(sweep: Sweep, closed: int, running: int) -> str:
    if not closed and not running:
        return f"sweep {sweep.name} is over already, or only other sweeps want what it waits for: nothing to cancel"
    stopped = f", {running} running attempts are being stopped" if running else ""
    done = f"sweep {sweep.name}: cancelled; {closed} trials that waited will not run{stopped}"
    return f"{done}. Undo: lever resume {sweep.name}"


def _say_who_stops(settings: farm_settings.Settings) -> None:
    from orchestrator.service.up import running as service

    if service(settings) is None:
        click.echo("The farm's service is not up: the next `lever up`, or sweep, stops them on their phones.")


def _see_through(registry: Registry, sweep: Sweep, inline: bool) -> None:
    from orchestrator.sweeping import attach as follow

    trials = follow(registry, sweep, "inline" if inline else "ray")
    _show(registry, sweep, trials)


def _show(registry: Registry, sweep: Sweep, trials: Sequence[Trial]) -> None:
    results_view.print_sweep(results_view.console(), sweep.name, table.rows(trials, registry.devices()))
    if failed := sum(t.state is not TrialState.DONE for t in trials):
        raise TrialsFailed(
            f"{failed} of {len(trials)} trials have no result", f"Run them again: lever resume {sweep.name}"
        )


def _start_farm(settings: farm_settings.Settings) -> None:
    from orchestrator.service.up import ensure_up

    ensure_up(settings, lambda step: click.echo(f"· {step}", err=True))
