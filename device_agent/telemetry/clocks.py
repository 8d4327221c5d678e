"""What the cores' clocks are, of what they could be."""

from __future__ import annotations

from device_agent.telemetry.reading import Missing, Reading, node, number

_RANGE_KHZ = (1e4, 1e7)


def clock_share(core: int) -> Reading:
    """Current clock ÷ highest clock of one core."""
    folder = f"/sys/devices/system/cpu/cpu{core}/cpufreq"
    now, most = (number(node(f"{folder}/{name}"), _RANGE_KHZ) for name in ("scaling_cur_freq", "cpuinfo_max_freq"))
    if isinstance(now, Missing):
        return now
    return most if isinstance(most, Missing) else now / most
