"""The run in print: ENGINE §11's table, with medians and spread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from benchmarks.ratios import Spread

TARGETS: dict[str, float] = {  # least value of ENGINE §11
    "cap_500.as_practised.over_autoregressive": 6.0,
    "cap_500.as_practised.over_chain": 1.5,
    "cap_500.as_practised.over_static_tree": 1.3,
    "cap_500.equal_features.over_autoregressive": 5.0,
    "cap_500.equal_features.over_chain": 1.2,
    "cap_500.equal_features.over_static_tree": 1.1,
    "cap_500.pipeline_efficiency": 0.95,
    "cap_1000.as_practised.over_autoregressive": 4.0,
    "cap_1000.as_practised.over_chain": 1.35,
    "cap_1000.as_practised.over_static_tree": 1.2,
    "cap_1000.equal_features.over_autoregressive": 3.5,
    "cap_1000.equal_features.over_chain": 1.1,
    "cap_1000.equal_features.over_static_tree": 1.05,
    "cap_1000.pipeline_efficiency": 0.95,
    "resident.over_llama_cpp": 0.95,
    "resident.lever_over_best": 0.97,
}


def print_summary(console: Console, spreads: Mapping[str, Spread], found: Mapping[str, Any]) -> None:
    console.print(_ratios(spreads, found["absent"]))
    console.print(_speeds(found["seconds_a_token"]))
    if found["headroom"]:
        console.print(_headroom(found["headroom"]))
    if "python_share" in found:
        console.print(f"Python's share of a resident draft pass: {found['python_share']:.1%} (goal: at most 5 %)")
    for name, ratio in found["plain_over_bound"].items():
        console.print(f"{name}: plain decoding takes {ratio:.2f} × (bytes ÷ cap + projection) (goal: at most 1.1)")
    for line in [*(f"{name}: {reason}" for name, reason in found["void"].items()), *found["failures"]]:
        console.print(f"[yellow]{line}")
    _print_exactness(console, found)


def _ratios(spreads: Mapping[str, Spread], absent: Mapping[str, str]) -> Table:
    figure = Column("figure", no_wrap=True)
    table = Table(figure, "median", "least – most", "sets", "goal", title="lever over …, paired by prompt set")
    for name in [*TARGETS, *(name for name in spreads if name not in TARGETS)]:
        goal = TARGETS.get(name)
        if name in spreads:
            spread = spreads[name]
            style = "" if goal is None else "green" if spread.median >= goal else "red"
            many = f"{spread.least:.2f} – {spread.most:.2f}"
            table.add_row(name, f"{spread.median:.2f}", many, str(spread.n), f"≥ {goal:g}" if goal else "", style=style)
        else:
            table.add_row(name, "absent", absent.get(name, "").partition(":")[0], "", f"≥ {goal:g}", style="dim")
    return table


def _speeds(times: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Table:
    names = list(dict.fromkeys(name for by in times.values() for sets in by.values() for name in sets))
    table = Table("condition", "contender", *names, title="seconds a token, by prompt set")
    for condition, contenders in times.items():
        for contender, sets in sorted(contenders.items()):
            table.add_row(condition, contender, *(f"{sets[name]:.3f}" if name in sets else "" for name in names))
    return table


def _headroom(headrooms: Mapping[str, Mapping[str, float]]) -> Table:
    figures = list(next(iter(headrooms.values())))
    table = Table("condition", *figures, title="headroom: lever would be so many times faster with …")
    for condition, values in headrooms.items():
        table.add_row(condition, *(f"{values[figure]:.2f}" for figure in figures))
    return table


def _print_exactness(console: Console, found: Mapping[str, Any]) -> None:
    console.print(f"exact tokens {found['exact_tokens']}, ties apart {found['tie_tokens']}")
    for line in found["diverged"]:
        console.print(f"[bold white on red] DIVERGED [/] {line}")
    for line in found["unchecked"]:
        console.print(f"[bold white on red] NOT CHECKED [/] {line}")
