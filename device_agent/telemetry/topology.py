"""Which cores there are, and how much each does: phones have several kinds (big.LITTLE)."""

from __future__ import annotations

import os

from device_agent.telemetry.reading import Missing, node, number

_CPUS = "/sys/devices/system/cpu"
_CAPACITY = "cpu_capacity"  # of the kernel's scheduler, 1024 the most; arm64 has it
_CLOCK = "cpufreq/cpuinfo_max_freq"
_RANGE = (1.0, 1e8)


def core_capacities() -> dict[int, float]:
    """Of the cores that this process may use, rising. Kernels that tell capacities of no core have their highest clocks
    compared instead; where neither is told of every core, they count as alike."""
    cores = sorted(os.sched_getaffinity(0))
    for file in (_CAPACITY, _CLOCK):
        found = {core: number(node(f"{_CPUS}/cpu{core}/{file}"), _RANGE) for core in cores}
        known = {core: value for core, value in found.items() if not isinstance(value, Missing)}
        if len(known) == len(cores):
            return known
    return dict.fromkeys(cores, 1.0)
