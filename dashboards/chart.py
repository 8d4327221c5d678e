"""Speed-up against acceptance length, as a figure for Plotly. Pure: plain data, everything from outside escaped, since
Plotly reads a little HTML in its texts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from orchestrator.table import Row

X, Y = "acceptance_length", "speedup_over_autoregressive"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#6b7280")  # told apart by all
LABELLED = 24  # points that may carry their names before they cover each other


def points(rows: Sequence[Row]) -> list[Row]:
    return [r for r in rows if X in r.metrics and Y in r.metrics]


def figure(rows: Sequence[Row]) -> dict[str, Any]:
    """One trace a phone and marking: filled is measured, hollow is simulated, a cross is void."""
    shown = points(rows)
    phones = list(dict.fromkeys(r.phone for r in shown))
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in shown:
        groups.setdefault((row.phone, marking(row)), []).append(row)
    labelled = len(shown) <= LABELLED
    traces = [_trace(rows, phones.index(phone), mark, labelled) for (phone, mark), rows in groups.items()]
    return {"data": traces, "layout": _layout(shown)}


def marking(row: Row) -> str:
    """Void only for what makes these two figures void: not for a joule."""
    if row.tags.get("exactness", "").startswith("DIVERGED") or any(
        f"void.{key}" in row.tags for key in (X, Y, "tpot_s")
    ):
        return "void"
    return "simulated" if row.tags.get("simulated") else "measured"


def _trace(rows: Sequence[Row], phone: int, marking: str, labelled: bool) -> dict[str, Any]:
    colour = COLOURS[phone % len(COLOURS)]
    symbol = {"void": "x-thin", "simulated": "circle-open", "measured": "circle"}[marking]
    return {
        "type": "scatter",
        "mode": "markers+text" if labelled else "markers",
        "name": escape(rows[0].phone) + ("" if marking == "measured" else f" · {marking}"),
        "x": [r.metrics[X] for r in rows],
        "y": [r.metrics[Y] for r in rows],
        "text": [escape(r.strategy) for r in rows],
        "textposition": "bottom center" if phone % 2 else "top center",  # phones often lie close to each other
        "hovertext": [_hover(r) for r in rows],
        "hoverinfo": "text",
        "cliponaxis": False,
        "marker": {"color": colour, "size": 12, "symbol": symbol, "line": {"width": 2.5, "color": colour}},
    }


def _hover(row: Row) -> str:
    lines = [
        f"<b>{escape(row.strategy)}</b> on {escape(row.phone)}",
        f"{escape(row.pair)} · {escape(row.storage)}",
        f"acceptance length {row.metrics[X]:.2f}, speed-up {row.metrics[Y]:.2f}×",
    ]
    if "tpot_s" in row.metrics:
        lines.append(f"{row.metrics['tpot_s']:.3f} s a token")
    verdict = row.tags.get("verdict", "valid")
    return "<br>".join([*lines, *([escape(verdict)] if verdict != "valid" else [])])


def _layout(rows: Sequence[Row]) -> dict[str, Any]:
    right = max((r.metrics[X] for r in rows), default=1.0)
    top = max((r.metrics[Y] for r in rows if r.metrics[Y] > 1), default=1.0)
    return {
        "xaxis": _axis("acceptance length (tokens a round)", 0.5, right * 1.12 + 0.3),
        "yaxis": _axis("speed-up over autoregressive, same phone", 0, top * 1.2),
        "margin": {"l": 64, "r": 24, "t": 16, "b": 56},
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "shapes": [
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1, "line": {"dash": "dot", "width": 1}}
        ],
    }


def _axis(title: str, low: float, high: float) -> dict[str, Any]:
    return {"title": {"text": title, "font": {"size": 13}}, "range": [low, high]}
