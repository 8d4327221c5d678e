"""A cap on reading speed, shared by all reader threads: a slower phone's flash, emulated."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Pacer:
    """Each piece ends no earlier than its start plus bytes ÷ cap, and pieces queue behind one another.

    Time in which nobody read earns nothing (no burst credit). A piece that ended late, because the disk hesitated or
    a busy machine woke us late, may be made up for by the next one, by its own duration at most: the average keeps
    to the cap from below, as a flash's would, instead of falling short by each delay.
    """

    def __init__(
        self,
        bytes_per_s: float,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._cancelled = threading.Event()
        self._sleep = sleep or self._cancelled.wait
        self._lock = threading.Lock()
        self._deadline = clock()
        self._late = 0.0

    def start(self) -> float:
        """Call before a read; hand the value to `finish`."""
        return self._clock()

    def finish(self, started: float, nbytes: int) -> None:
        """Call after a read of `nbytes`: sleeps until the flash that is emulated would have delivered them."""
        duration = nbytes / self._bytes_per_s
        with self._lock:
            self._deadline = deadline = max(self._deadline, started - self._late) + duration
        if (left := deadline - self._clock()) > 0:
            self._sleep(left)
        with self._lock:
            self._late = min(max(0.0, self._clock() - deadline), duration)

    def cancel(self) -> None:
        """End all waiting, now and later."""
        self._cancelled.set()
