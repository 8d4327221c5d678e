"""Which of a phone's cores compute and which read, and how such a list is written: `4-7`, `0-2+5`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby

MOST_CORES = 1024  # Linux's own limit on a process's mask
ANY = "any"
_PART = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


@dataclass(frozen=True)
class CoresSpec:
    """With `auto` the phone's cost calibration says the threads and the cores, or, without one, its clusters do."""

    auto: bool = False
    compute: tuple[int, ...] = ()  # of the kernels' threads, rising; empty: any
    readers: tuple[int, ...] = ()  # of the flash reader's; empty: any

    def __str__(self) -> str:
        return "auto" if self.auto else f"{said_cores(self.compute)}, reader on {said_cores(self.readers)}"


ANYWHERE = CoresSpec()


def parse_cores(text: str) -> tuple[int, ...]:
    """Rising numbers; () for `any`. Raises ValueError, which says what is wrong with `text`."""
    if text == ANY:
        return ()
    found: set[int] = set()
    for part in re.split(r"[+,]", text):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{part!r} is neither a core nor a range of cores")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < MOST_CORES:
            raise ValueError(f"{part!r} is no range of cores below {MOST_CORES}")
        found |= set(range(first, last + 1))
    return tuple(sorted(found))


def said_cores(cores: tuple[int, ...]) -> str:
    """As `parse_cores` takes it."""
    runs = (list(run) for _, run in groupby(enumerate(sorted(cores)), lambda at: at[1] - at[0]))
    ends = ((run[0][1], run[-1][1]) for run in runs)
    return "+".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ends) or ANY
