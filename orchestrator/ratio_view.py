"""Speed-ups over repeats as people read them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.ratios import Ratio
from orchestrator.table import Row
from orchestrator.table_view import NONE

HEADINGS = ("phone", "configuration", "speed-up", "95 % interval", "sessions × prompts", "within", "between")
WIDE = 100.0  # an interval from a tenth to ten times tells nothing
NOTES = (
    "speed-up: geometric mean over prompts and sessions of plain decoding's seconds per token ÷ ours; a session is one "
    "run, paired with plain decoding's run of the same repeat.",
    "95 % interval: bootstrap over sessions and prompts. within, between: spread of seconds per token inside a session "
    "and from session to session, as standard deviations.",
)
ONE_SESSION = "one session; schedule.repeats=5 schedule.order=paired gives an interval"


def cells(ratios: Sequence[Ratio], rows: Sequence[Row]) -> list[list[str]]:
    """Texts under HEADINGS."""
    by_trial = {row.trial: row for row in rows}
    return [_cells(ratio, by_trial) for ratio in ratios]


def interval(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return NONE
    return "too few sessions" if ratio.high > WIDE * ratio.low else f"{ratio.low:.2f} – {ratio.high:.2f}"


def notes(ratios: Sequence[Ratio]) -> list[str]:
    alone = [ONE_SESSION] if any(r.low is None for r in ratios) else []
    return [*(NOTES if any(r.low is not None for r in ratios) else NOTES[:1]), *alone] if ratios else []


def _cells(ratio: Ratio, rows: Mapping[str, Row]) -> list[str]:
    row = rows.get(ratio.trial_ids[0])
    name = f"{row.strategy} ({row.overrides})" if row and row.overrides else row.strategy if row else ratio.config_key
    return [
        row.phone if row else ratio.phone,
        name,
        f"{ratio.speedup:.2f}×",
        interval(ratio),
        f"{ratio.sessions} × {ratio.prompts}",
        _share(ratio.within),
        _share(ratio.between),
    ]


def _share(spread: float | None) -> str:
    return NONE if spread is None else f"{spread:.1%}"
