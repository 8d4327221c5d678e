"""The steps of a registration: announced, told, and named when they fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from orchestrator.errors import LeverError


@dataclass(frozen=True)
class Step:
    name: str  # start, connect, authorise, answer, facts, space, runtime, self-test, flash, sensors, calibration
    detail: str | None = None  # None: it has begun; else what came out of it
    share: float | None = None  # of a step that goes on: how much of it is done, 0 to 1
    asks: str = ""  # of a step that waits for a person: what is to be done


Report = Callable[[Step], None]


@contextmanager
def step(name: str, report: Report) -> Iterator[Callable[[str], None]]:
    """Announce the step; an error inside it says which step it was."""
    report(Step(name))
    try:
        yield lambda detail: report(Step(name, detail))
    except LeverError as error:
        raise type(error)(f"step {name!r} failed: {error.message}", error.remedy) from error
