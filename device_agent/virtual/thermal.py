"""The thermal service: what `dumpsys thermalservice` prints and `cmd thermalservice` overrides."""

from __future__ import annotations

from dataclasses import dataclass

from device_agent.virtual.body import Body

_HIGHEST = 6  # shutdown
_DUMP = """\
IsStatusOverride: {overridden}
ThermalEventListeners:
	callbacks: 0
	killed: false
	broadcasts count: -1
ThermalStatusListeners:
	callbacks: 0
	killed: false
	broadcasts count: -1
Thermal Status: {status}
Cached temperatures:
	Temperature{{mValue={celsius:.1f}, mType=2, mName=battery, mStatus={true_status}}}
	Temperature{{mValue={celsius:.1f}, mType=3, mName=skin, mStatus={true_status}}}
HAL Ready: true
HAL connection:
	ThermalHAL 2.0 connected: yes
Current temperatures from HAL:
	Temperature{{mValue={celsius:.1f}, mType=2, mName=battery, mStatus={true_status}}}
	Temperature{{mValue={celsius:.1f}, mType=3, mName=skin, mStatus={true_status}}}
"""


@dataclass
class Thermal:
    body: Body
    override: int | None = None

    def dump(self) -> str:
        self.body.look()
        true_status = self.body.thermal_status()
        return _DUMP.format(
            overridden="true" if self.override is not None else "false",
            status=true_status if self.override is None else self.override,
            celsius=self.body.celsius,
            true_status=true_status,
        )

    def command(self, words: list[str]) -> str | None:
        """`cmd thermalservice …`: its output, None for a command that it does not know."""
        match words:
            case ["reset"]:
                self.override = None
            case ["override-status", status] if status.isdecimal() and int(status) <= _HIGHEST:
                self.override = int(status)
            case _:
                return None
        return ""
