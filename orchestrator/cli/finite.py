"""Numbers on the command line that click lets through."""

from __future__ import annotations

import math

import click


def finite(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    """A click callback: `nan` passes every range, and `inf` those without an upper bound."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number.")
    return value
