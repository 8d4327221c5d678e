"""`lever sweep`: Hydra's command line over the farm. With -m a sweep, without it one trial."""

from __future__ import annotations

import click

from orchestrator.errors import TrialsFailed


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}, add_help_option=False
)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def sweep(args: tuple[str, ...]) -> None:
    """Run a Hydra sweep (or one trial) on the farm's phones."""
    from hydra.core.utils import JobStatus

    from hydra_plugins.lever_farm._errors import HYDRA_ERRORS, explain
    from orchestrator.cli.hydra_app import run_hydra

    try:
        returns = run_hydra(args)
    except HYDRA_ERRORS as error:
        raise explain(error) from error
    if failed := sum(one.status is JobStatus.FAILED for one in returns):
        raise TrialsFailed(
            f"{failed} of {len(returns)} configurations failed", "The same command again runs only them."
        )
