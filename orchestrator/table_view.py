"""A sweep's rows as people read them: headings, cells, what all rows share, and notes on what is not measured. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from orchestrator.table import VIRTUAL, Row

NONE = "–"


@dataclass(frozen=True)
class Column:
    heading: str
    text: Callable[[Row], str]
    number: bool = False
    shared: str = ""  # shown above the table instead, under this name, when all rows agree


def columns(rows: Sequence[Row]) -> list[Column]:
    """Those that tell these rows apart, and the results."""
    return [*(c for c in _LABELS if not _agrees(rows, c)), *_settings(rows), *_results(rows)]


def cells(rows: Sequence[Row]) -> list[list[str]]:
    """Text of every cell, in the order of `columns(rows)`."""
    shown = columns(rows)
    return [[c.text(r) for c in shown] for r in rows]


def shared(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(name, value) of labels that all rows share."""
    return [(c.shared, c.text(rows[0])) for c in _LABELS if rows and _agrees(rows, c) and c.text(rows[0])]


def notes(rows: Sequence[Row]) -> list[str]:
    """What in this table is virtual, modelled or capped, one sentence each."""
    found = []
    if any(VIRTUAL in r.tags.get("simulated", "") for r in rows):
        found.append("(virtual): the phone is a process on this farm's host, and times are that host's.")
    if any(r.tags.get("energy_method") == "model" for r in rows):
        found.append("J/token (model): from the phone's stated power model, net of idle; not measured.")
    if any(" cap" in r.storage for r in rows):
        found.append("cap: flash reads are held to the stated bandwidth, in MB/s of 10^6 bytes.")
    if any(" profile" in r.storage for r in rows):
        found.append("profile: flash reads are held to the bandwidth of the virtual phone's profile.")
    if any(r.tags.get("verdict", "").startswith("void") for r in rows):
        found.append("void: figures that do not count, and why.")
    return found


def failures(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """(which trial, why) of every failed one."""
    return [(f"{r.phone} {r.pair} {r.strategy} ({r.trial[:12]})", _why(r)) for r in rows if r.state == "failed"]


def summary(rows: Iterable[Row]) -> str:
    """For example "3 done, 1 failed"."""
    counts = Counter(r.state for r in rows)
    return ", ".join(f"{n} {state}" for state, n in sorted(counts.items())) or "no trials"


def _why(row: Row) -> str:
    return ": ".join(part for part in (row.failure_kind, row.failure_message) if part) or "no reason recorded"


def _state(row: Row) -> str:
    if row.state == "waiting" and row.reason:
        return f"waiting: {row.reason}"
    verdict = row.tags.get("verdict", "valid")
    return row.state if verdict == "valid" else verdict.replace("void:", "void: ", 1)


_LABELS = (
    Column("phone", lambda r: r.phone, shared="phone"),
    Column("pair", lambda r: r.pair, shared="pair"),
    Column("storage", lambda r: r.storage, shared="storage"),
    Column("workload", lambda r: r.workload, shared="workload"),
    Column("strategy", lambda r: r.strategy),
)


def _agrees(rows: Sequence[Row], column: Column) -> bool:
    return bool(column.shared) and column.heading != "phone" and len({column.text(r) for r in rows}) <= 1


def _settings(rows: Sequence[Row]) -> list[Column]:
    """Overrides and repeats only where they tell rows apart."""
    keys = Counter((r.phone, r.pair, r.strategy, r.storage, r.workload) for r in rows)
    if max(keys.values(), default=0) < 2:
        return []
    candidates = [Column("overrides", lambda r: r.overrides), Column("repeat", lambda r: str(r.repeat), number=True)]
    return [c for c in candidates if len({c.text(r) for r in rows}) > 1]


def _results(rows: Sequence[Row]) -> list[Column]:
    return [
        _metric("TTFT s", "ttft_s", "{:.2f}"),
        _metric("TPOT s", "tpot_s", "{:.3f}"),
        _metric("tokens/s", "tokens_per_s", "{:.2f}"),
        _metric("acceptance length", "acceptance_length", "{:.2f}"),
        _metric("block efficiency", "block_efficiency", "{:.2f}"),
        _energy(rows),
        Column("exactness", lambda r: r.tags.get("exactness", NONE)),
        _metric("speed-up", "speedup_over_autoregressive", "{:.2f}×"),
        *([Column("state", _state)] if {_state(r) for r in rows} != {"done"} else []),
    ]


def _metric(heading: str, key: str, form: str) -> Column:
    return Column(heading, lambda r: _figure(r, key, form), number=True)


def _figure(row: Row, key: str, form: str) -> str:
    """A void figure stays visible and says so."""
    if key not in row.metrics:
        return NONE
    return form.format(row.metrics[key]) + (" void" if f"void.{key}" in row.tags else "")


def _energy(rows: Sequence[Row]) -> Column:
    """The method stands in the heading when it is one, else in the cells."""
    key = "energy_j_per_token"
    methods = {r.tags.get("energy_method", "?") for r in rows if key in r.metrics}
    if len(methods) == 1:
        return _metric(f"J/token ({methods.pop()})", key, "{:.2f}")

    def text(row: Row) -> str:
        figure = _figure(row, key, "{:.2f}")
        return figure if figure == NONE else f"{figure} ({row.tags.get('energy_method', '?')})"

    return Column("J/token", text, number=True)
