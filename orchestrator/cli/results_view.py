"""A sweep's table on a terminal; what comes from phones cannot colour or move it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from orchestrator import ratio_view, table_view
from orchestrator.ratios import Ratio
from orchestrator.table import Row

WORD = 6  # "failed", "32/32,"
NARROW, SHORT = 120, {"acceptance": "accept.", "efficiency": "effic.", "tokens/s": "tok/s", "speed-up": "speed-\nup"}
PIPE_WIDTH = 200  # a pipe has no width: do not break lines for it
STYLES = {"failed": "red", "void": "yellow", "done": "green", "running": "cyan", "cancelled": "dim"}


def console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)


def print_sweep(out: Console, name: str, rows: Sequence[Row], ratios: Sequence[Ratio] = ()) -> None:
    """Title, what all rows share, the table by phone, speed-ups over repeats, failures with their reasons, notes."""
    shared = "".join(f" · {key}: {value}" for key, value in table_view.shared(rows))
    out.print(_plain(f"{name}: {table_view.summary(rows)}{shared}", "bold"))
    if rows:
        out.print(_table(rows, narrow=out.width < NARROW))
    if repeated(ratios):
        out.print(_ratios(ratios, rows))
    for which, why in table_view.failures(rows):
        out.print(_plain(f"failed: {which}: {why}", "red"))
    for note in (*table_view.notes(rows), *(ratio_view.notes(ratios) if repeated(ratios) else ())):
        out.print(_plain(note, "dim"))


def repeated(ratios: Sequence[Ratio]) -> bool:
    """Whether there is more to say of speed-ups than each trial's own line does."""
    return any(ratio.sessions > 1 for ratio in ratios)


def _ratios(ratios: Sequence[Ratio], rows: Sequence[Row]) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ratio_view.HEADINGS:
        number = heading not in ratio_view.HEADINGS[:2]
        table.add_column(_plain(heading), justify="right" if number else "left", overflow="fold")
    for cells in ratio_view.cells(ratios, rows):
        table.add_row(*map(_plain, cells))
    return table


def _table(rows: Sequence[Row], *, narrow: bool) -> Table:
    """A line with the phone's name above its trials: that leaves their columns room on a narrow terminal."""
    columns = [c for c in table_view.columns(rows) if c.heading not in ("phone", "strategy")]
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0 if narrow else 1))
    table.add_column("phone\n  strategy", no_wrap=True)
    for column in columns:
        heading = _plain(_heading(column.heading, narrow=narrow))
        side: JustifyMethod = "right" if column.number else "left"
        width = None if column.number else WORD  # numbers never break, words do where they must
        table.add_column(heading, justify=side, no_wrap=column.number, overflow="fold", min_width=width)
    for phone in dict.fromkeys(r.phone for r in rows):
        table.add_row(_plain(phone, "bold"))
        mine = [r for r in rows if r.phone == phone]
        for i, row in enumerate(mine):
            texts = [f"  {row.strategy}", *(c.text(row) for c in columns)]
            table.add_row(*(_plain(t, _style(t)) for t in texts), end_section=i + 1 == len(mine))
    return table


def _heading(text: str, *, narrow: bool) -> str:
    for word, short in SHORT.items() if narrow else ():
        text = text.replace(word, short)
    return text.replace(" ", "\n")


def _style(text: str) -> str:
    return "red" if text.startswith("DIVERGED") else STYLES.get(text.partition(":")[0], "")


def _plain(text: str, style: str = "") -> Text:
    """Control characters, which could be escape sequences, become visible."""
    return Text("".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text), style)
