"""Ctrl-C on a sweep: it can go on without us, or be cancelled; people are asked once."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console

from orchestrator.entities import Sweep
from orchestrator.registry.contract import Registry

QUESTION = "Detach (the sweep goes on) or cancel it? [D/c] "


def ask_and_leave(
    registry: Registry, sweep: Sweep, runtime: str, console: Console, answer: Callable[[str], str] = input
) -> bool:
    """Detach or cancel; returns whether it was cancelled. Without a terminal to ask on, or at a second Ctrl-C, it
    detaches: nothing is lost by that."""
    if _wants_cancel(answer if sys.stdin.isatty() and console.is_terminal else None):
        attempts = registry.cancel(sweep.sweep_id)
        running = f"; {len(attempts)} running attempts are being stopped" if attempts else ""
        _say(console, f"sweep {sweep.name}: cancelled{running}")
        return True
    if runtime == "ray":
        goes_on = f"detached: sweep {sweep.name} goes on. `lever results {sweep.name}` shows it"
    else:
        goes_on = f"stopped: what runs on phones of sweep {sweep.name} finishes there, what waits is kept"
    again = f"lever attach {sweep.name}" + ("" if runtime == "ray" else " --inline")
    _say(console, f"{goes_on}; `{again}`, or the same `lever sweep` command, follows it again.")
    return False


def _wants_cancel(answer: Callable[[str], str] | None) -> bool:
    if answer is None:
        return False
    try:
        return answer(QUESTION).strip().lower().startswith("c")
    except (EOFError, KeyboardInterrupt):
        return False


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
