"""Files that go with a run, written into a folder that the sink uploads."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import yaml

from orchestrator import table, table_view
from orchestrator.entities import Attempt, Sweep, Trial
from orchestrator.table import Row
from orchestrator.tracking.traces import write_nodes, write_rounds

_TABLE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{{ name }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color: #1d2433 }
table { border-collapse: collapse } th, td { padding: .35rem .8rem; border-bottom: 1px solid #dde2ea; text-align: left }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums } p, li { color: #566074 }
</style>
<h1>{{ name }}</h1>
<p>{{ summary }}{% for key, value in shared %} · {{ key }}: {{ value }}{% endfor %}</p>
<table><thead><tr>{% for c in columns %}<th{% if c.number %} class="n"{% endif %}>{{ c.heading }}</th>{% endfor %}</tr>
</thead><tbody>
{% for line in cells %}<tr>{% for text in line %}<td{% if columns[loop.index0].number %} class="n"{% endif %}>
{{- text }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table>
{% if failures %}<h2>Failed</h2><ul>{% for which, why in failures %}<li>{{ which }}: {{ why }}</li>{% endfor %}</ul>
{% endif %}<ul>{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul></html>
"""


@dataclass(frozen=True)
class Traces:
    """A trial's, as the registry has them."""

    rounds_jsonl: str
    nodes_packed: str


def write_trial(folder: Path, trial: Trial, traces: Traces, attempts: Sequence[Attempt]) -> None:
    """config.yaml; result.json, rounds.parquet and, if traced, nodes.parquet of a done trial; log_tail.txt of a failed
    one."""
    config = yaml.safe_dump(trial.spec.config, allow_unicode=True, sort_keys=False)
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    if trial.result is not None:
        _write_json(folder / "result.json", trial.result)
        write_rounds(traces.rounds_jsonl, folder / "rounds.parquet")
        if traces.nodes_packed:
            write_nodes(traces.nodes_packed, folder / "nodes.parquet")
    elif tail := attempts[-1].log_tail if attempts else "":
        (folder / "log_tail.txt").write_text(tail, encoding="utf-8", errors="replace")


def write_sweep(folder: Path, sweep: Sweep, rows: Sequence[Row]) -> None:
    """sweep.json (what was asked, with which versions), table.csv and table.html."""
    record = dataclasses.asdict(sweep) | {"created_at": sweep.created_at and sweep.created_at.isoformat()}
    _write_json(folder / "sweep.json", record)
    (folder / "table.csv").write_text(table.to_csv(rows), encoding="utf-8")
    (folder / "table.html").write_text(html_table(sweep.name, rows), encoding="utf-8")


def html_table(name: str, rows: Sequence[Row]) -> str:
    """A page of its own, everything in it escaped."""
    template = jinja2.Environment(autoescape=True).from_string(_TABLE)
    return template.render(
        name=name,
        summary=table_view.summary(rows),
        shared=table_view.shared(rows),
        columns=table_view.columns(rows),
        cells=table_view.cells(rows),
        failures=table_view.failures(rows),
        notes=table_view.notes(rows),
    )


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False, default=str), encoding="utf-8")
