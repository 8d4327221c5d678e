"""Energy by a phone's stated power model, integrated over windows of time: honest arithmetic, not a measurement."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np

from device_agent.protocol import EnergySpec

PERIOD_S = 0.02  # a sample costs some 20 µs: 0.1 % of a core


class CpuSampler:
    """Samples this process's CPU time on a thread, so that any window of the past can be asked for."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, float]] = [_sample()]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cpu-sampler", daemon=True)
        self._thread.start()

    def cpu_seconds(self, start_s: float, end_s: float) -> float:
        """CPU seconds of all threads between two times of `time.perf_counter()`, interpolated between samples."""
        times, used = zip(*[*self._samples, _sample()], strict=True)
        at_start, at_end = np.interp([start_s, end_s], times, used)
        return float(at_end - at_start)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_S):
            self._samples.append(_sample())


def gross_joules(
    model: EnergySpec, sampler: CpuSampler, windows: Sequence[tuple[float, float]], flash_bytes: int
) -> float:
    """P = idle + cpu_w_per_core · busy cores + flash_j_per_gb · GB/s, integrated over `windows` of perf_counter times.

    `flash_bytes`: what the windows' rounds consumed.
    """
    seconds = sum(end - start for start, end in windows)
    cpu_seconds = sum(sampler.cpu_seconds(start, end) for start, end in windows)
    return model.idle_w * seconds + model.cpu_w_per_core * cpu_seconds + model.flash_j_per_gb * flash_bytes / 1e9


def _sample() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()
