"""The farm from Python: `from orchestrator import sweep`, for notebooks and scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator import table
from orchestrator.ratios import Ratio
from orchestrator.table import Row


@dataclass(frozen=True)
class SweepResult:
    """What a sweep came to; failed trials are rows too. `records()` is what `pandas.DataFrame` takes."""

    name: str
    rows: tuple[Row, ...]
    ratios: tuple[Ratio, ...]

    @property
    def failed(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.state != "done")

    def records(self) -> list[dict[str, Any]]:
        """One flat dict a trial, as in `lever results --json`."""
        return [table.record(row) for row in self.rows]


def sweep(*overrides: str, dry_run: bool = False) -> SweepResult:
    """Run what `lever sweep -m OVERRIDES…` runs, and wait for it: the same checks, reuse and progress. With `dry_run`
    the plan is printed and the result is empty. A failed trial raises nothing: see `failed`.

    Raises UsageError before anything is queued, FarmError, RegistryError; KeyboardInterrupt detaches.
    """
    from hydra_plugins.lever_farm._errors import HYDRA_ERRORS, explain
    from orchestrator.cli.hydra_app import run_hydra

    try:
        returns: Sequence[Any] = run_hydra(["-m", *overrides, *(["--dry-run"] if dry_run else [])])
    except HYDRA_ERRORS as error:
        raise explain(error) from error
    rows = {row.trial: row for one in returns for row in one.rows}
    found = returns[0].ratios if returns else ()
    return SweepResult(returns[0].sweep if returns else "", tuple(rows.values()), tuple(found))
