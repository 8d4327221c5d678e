"""How tokens are drawn, as options of commands that decode by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from orchestrator.cli.finite import finite

OPTIONS = (
    click.option("--temperature", type=float, callback=finite, default=0.0, show_default=True, help="0: greedy."),
    click.option("--top-k", type=int, default=0, help="Keep the k best; default: all."),
    click.option(
        "--top-p", type=float, callback=finite, default=1.0, help="Keep the best that make up this share; default: 1."
    ),
    click.option(
        "--min-p",
        type=float,
        callback=finite,
        default=0.0,
        help="Keep those with this share of the best one's probability.",
    ),
)


def sampling_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: `command` gets temperature, top_k, top_p and min_p."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command
