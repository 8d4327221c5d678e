"""Our page, rendered: a sweep picked, its table, its chart. Everything from outside is escaped by the template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from dashboards import chart
from dashboards.store import SweepPage, Trial
from orchestrator import ratio_view, table_view
from orchestrator.table import Row

HERE = Path(__file__).parent
FAST, BASELINE = "speedup_over_autoregressive", "autoregressive"


@dataclass(frozen=True)
class Line:
    """A trial's line of the table: its cells beside the strategy, which links to its run."""

    strategy: str
    href: str
    cells: tuple[str, ...]
    classes: str
    bar: float  # speed-up as a share of the sweep's best, 0..1


def render(names: Sequence[str], sweep: SweepPage | None, wanted: str | None) -> str:
    """`wanted` is the name that was asked for, `sweep` what was found under it."""
    template = _environment().get_template("lever.html")
    rows = [t.row for t in sweep.trials] if sweep else []
    return template.render(
        names=names,
        wanted=wanted,
        sweep=sweep,
        summary=(sweep.summary if sweep else "") or table_view.summary(rows),
        shared=table_view.shared(rows),
        columns=_columns(rows),
        phones=_phones(sweep.trials) if sweep else {},
        headings=ratio_view.HEADINGS,
        ratio_notes=ratio_view.NOTES,
        failures=table_view.failures(rows),
        notes=table_view.notes(rows),
        figure=chart.figure(rows),
        points=len(chart.points(rows)),
    )


def _columns(rows: Sequence[Row]) -> list[table_view.Column]:
    return [c for c in table_view.columns(rows) if c.heading not in ("phone", "strategy")]


def _phones(trials: Sequence[Trial]) -> dict[str, list[Line]]:
    """Lines by phone, the baseline first, then in the order that they ran."""
    columns = _columns([t.row for t in trials])
    best = max((t.row.metrics.get(FAST, 0.0) for t in trials), default=0.0)
    groups: dict[str, list[Line]] = {}
    for trial in sorted(trials, key=lambda t: (t.row.phone, not t.row.strategy.startswith(BASELINE))):
        row = trial.row
        cells = tuple(c.text(row) for c in columns)
        share = row.metrics.get(FAST, 0.0) / best if best > 0 else 0.0
        classes = f"{row.state} {chart.marking(row)}"
        groups.setdefault(row.phone, []).append(Line(row.strategy, trial.href, cells, classes, share))
    return groups


def _environment() -> jinja2.Environment:
    return jinja2.Environment(loader=jinja2.FileSystemLoader(HERE / "templates"), autoescape=True, trim_blocks=True)
