"""`lever sweep`: Hydra's command line over the farm. With -m a sweep, without it one trial."""

from __future__ import annotations

from collections.abc import Sequence

import click
from hydra.core.utils import JobReturn, JobStatus

from hydra_plugins.lever_farm._errors import HYDRA_ERRORS, explain
from orchestrator.cli import results_view
from orchestrator.cli.hydra_app import run_hydra
from orchestrator.errors import TrialsFailed


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}, add_help_option=False
)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def sweep(args: tuple[str, ...]) -> None:
    """Run a Hydra sweep (or one trial) on the farm's phones."""
    try:
        returns = run_hydra(args)
    except HYDRA_ERRORS as error:
        raise explain(error) from error
    _show(returns)
    if failed := sum(one.status is JobStatus.FAILED for one in returns):
        remedy = "The same command again runs only what failed."
        raise TrialsFailed(f"{failed} of {len(returns)} configurations failed", remedy)


def _show(returns: Sequence[JobReturn]) -> None:
    """The batch's table: every trial once, failures with their reasons."""
    rows = {row.trial: row for one in returns for row in getattr(one, "rows", ())}
    if rows:
        name, speedups = getattr(returns[0], "sweep", ""), getattr(returns[0], "ratios", ())
        results_view.print_sweep(results_view.console(), name, list(rows.values()), speedups)
