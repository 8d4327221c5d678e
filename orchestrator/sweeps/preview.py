"""A batch before it is queued: what would run where, and for how long."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from orchestrator.entities import TrialSpec, TrialState
from orchestrator.errors import UnknownName
from orchestrator.registry.contract import Registry
from orchestrator.scheduling.durations import Durations
from orchestrator.sweeps.forecast import Forecast, Planned, durations, forecast, of_spec
from orchestrator.sweeps.submit import Batch

SHOWN = 50  # configurations
NAMED = 6  # phones in a cell


@dataclass(frozen=True)
class Line:
    """One configuration."""

    label: str
    phones: tuple[str, ...]  # `any of …` where it is not bound
    trials: int
    done: int  # would be reused
    seconds: float | None  # of its trials to run, one after the other


@dataclass(frozen=True)
class Preview:
    lines: tuple[Line, ...]
    trials: int
    done: int
    forecast: Forecast


def preview(batch: Batch, registry: Registry) -> Preview:
    """Writes nothing."""
    known, states = durations(registry), _states(batch, registry)
    lines = tuple(_line(job.label, specs, states, known) for job, specs in zip(batch.jobs, batch.trials, strict=True))
    to_run = [_planned(spec) for spec in batch.specs if states[spec.trial_id] is not TrialState.DONE]
    done = len(batch.specs) - len(to_run)
    return Preview(lines, len(batch.specs), done, forecast(to_run, registry.devices(), known))


def print_plan(out: Console, found: Preview) -> None:
    table = Table("configuration", "phones", "trials", "done before", "hours", box=None, pad_edge=False, padding=(0, 2))
    for line in found.lines[:SHOWN]:
        hours = "?" if line.seconds is None else f"{line.seconds / 3600:.2f}"
        table.add_row(escape(line.label), escape(_names(line.phones)), str(line.trials), str(line.done), hours)
    out.print(table)
    if len(found.lines) > SHOWN:
        out.print(f"and {len(found.lines) - SHOWN} more configurations")
    for phone, count in sorted(Counter(p for line in found.lines for p in line.phones).items()):
        out.print(f"{phone}: {count} configurations", highlight=False, markup=False)
    to_run = found.trials - found.done
    summary = f"{found.trials} trials, {found.done} done before, {to_run} to run: {found.forecast}."
    out.print(summary if to_run else f"{found.trials} trials, all done before: nothing to run.", highlight=False)


def _line(label: str, specs: tuple[TrialSpec, ...], states: dict[str, TrialState | None], known: Durations) -> Line:
    to_run = [s for s in specs if states[s.trial_id] is not TrialState.DONE]
    seconds = [known.estimate_s(_planned(s).kind, s.device or "") for s in to_run]
    phones = tuple(dict.fromkeys(s.device or f"one of phones={s.config.get('phones', 'any')}" for s in specs))
    whole = None if None in seconds else sum(s for s in seconds if s is not None)
    return Line(label or specs[0].labels.get("strategy", ""), phones, len(specs), len(specs) - len(to_run), whole)


def _planned(spec: TrialSpec) -> Planned:
    return of_spec(spec.labels, spec.device, spec.config)


def _states(batch: Batch, registry: Registry) -> dict[str, TrialState | None]:
    found: dict[str, TrialState | None] = {}
    for spec in batch.specs:
        try:
            found[spec.trial_id] = registry.trial(spec.trial_id).state
        except UnknownName:
            found[spec.trial_id] = None
    return found


def _names(phones: tuple[str, ...]) -> str:
    more = f" and {len(phones) - NAMED} more" if len(phones) > NAMED else ""
    return ", ".join(phones[:NAMED]) + more
