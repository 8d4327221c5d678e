"""`lever results`: a sweep's trials as a table, JSON or CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict

import click

from orchestrator import settings, table
from orchestrator.cli import results_view
from orchestrator.entities import Sweep
from orchestrator.errors import UnknownName
from orchestrator.ratios import Ratio, ratios
from orchestrator.registry.contract import Registry
from orchestrator.table import Row


@click.command()
@click.argument("sweep", required=False)
@click.option("--json", "form", flag_value="json", help="One JSON object with all keys of every trial.")
@click.option("--csv", "form", flag_value="csv", help="One line a trial, all keys as columns.")
def results(sweep: str | None, form: str | None) -> None:
    """Print the trials of SWEEP (a name or an id; without it the newest) and their metrics."""
    from orchestrator import wiring

    with closing(wiring.registry_to_read(settings.load())) as registry:
        found, others = choose(registry, sweep)
        trials = registry.trials(found.sweep_id)
        rows = table.rows(trials, registry.devices())
    if form == "json":
        click.echo(to_json(found, rows, ratios(trials)))
    elif form == "csv":
        click.echo(table.to_csv(rows), nl=False)
    else:
        _print(found, rows, ratios(trials), others if sweep is None else ())


def choose(registry: Registry, name: str | None) -> tuple[Sweep, list[str]]:
    """The sweep that is meant, and the names of the others, newest first. Raises UnknownName."""
    sweeps = registry.sweeps()
    if name is None and not sweeps:
        raise UnknownName("there is no sweep yet", "Run one: lever sweep -m engine=autoregressive,chain")
    found = sweeps[0] if name is None else registry.sweep(name)
    return found, [s.name for s in sweeps if s.sweep_id != found.sweep_id]


def to_json(sweep: Sweep, rows: Sequence[Row], speedups: Sequence[Ratio]) -> str:
    """{"sweep", "sweep_id", "created_at", "trials": [one flat object each], "ratios": [ratios.Ratio each]}; metrics
    that do not exist are absent."""
    head = {
        "sweep": sweep.name,
        "sweep_id": sweep.sweep_id,
        "created_at": sweep.created_at.isoformat() if sweep.created_at else None,
    }
    body = {"trials": [table.record(r) for r in rows], "ratios": [asdict(r) for r in speedups]}
    return json.dumps(head | body, indent=1, ensure_ascii=False)


def _print(sweep: Sweep, rows: Sequence[Row], speedups: Sequence[Ratio], others: Sequence[str]) -> None:
    console = results_view.console()
    results_view.print_sweep(console, sweep.name, rows, speedups)
    if others:
        shown = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
        console.print(f"Other sweeps: {shown}", style="dim", markup=False, highlight=False)
