import time
from mmap import PAGESIZE
from pathlib import Path

import pytest

from device_agent.protocol import EnergySpec
from device_agent.telemetry import energy
from device_agent.telemetry.energy import CpuSampler, gross_joules
from device_agent.telemetry.memory import peak_rss_bytes


class Sampled:
    """Half a core busy, always."""

    def cpu_seconds(self, start_s: float, end_s: float) -> float:
        return (end_s - start_s) / 2


def test_the_model_is_integrated_over_the_windows_alone() -> None:
    model = EnergySpec("model", idle_w=1.0, cpu_w_per_core=4.0, flash_j_per_gb=0.5)
    windows = [(0.0, 2.0), (10.0, 13.0)]
    joules = gross_joules(model, Sampled(), windows, flash_bytes=4_000_000_000)  # type: ignore[arg-type]
    assert joules == pytest.approx(5 * 1.0 + 2.5 * 4.0 + 4 * 0.5)


def test_cpu_seconds_between_samples_are_interpolated(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = CpuSampler()
    sampler.close()
    monkeypatch.setattr(energy, "_sample", lambda: (30.0, 8.0))
    sampler._samples = [(0.0, 0.0), (10.0, 5.0), (20.0, 5.0)]
    assert sampler.cpu_seconds(5.0, 15.0) == pytest.approx(2.5)
    assert sampler.cpu_seconds(15.0, 30.0) == pytest.approx(3.0)


def test_a_busy_loop_is_seen() -> None:
    sampler = CpuSampler()
    start, used = time.perf_counter(), time.process_time()
    while time.process_time() - used < 0.2:
        pass
    seen = sampler.cpu_seconds(start, time.perf_counter())
    sampler.close()
    assert 0.18 < seen < 0.4


def test_peak_memory_is_at_least_what_is_held() -> None:
    block = bytearray(50_000_000)
    block[::4096] = b"x" * len(block[::4096])
    resident_pages = int(Path("/proc/self/statm").read_text().split()[1])
    assert peak_rss_bytes() >= resident_pages * PAGESIZE > 50_000_000
    assert peak_rss_bytes() < 8_000_000_000
