"""What runs, on which ports, what the phones do and how far the sweeps are: from run files and the registry, no Ray."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.controller.disk import shortage
from orchestrator.entities import Attempt, Device, DeviceState
from orchestrator.farm import virtual_phones
from orchestrator.ray_runtime import heartbeat
from orchestrator.registry.contract import Registry
from orchestrator.service import state
from orchestrator.service.outlook import Outlook, outlook
from orchestrator.settings import Settings


@dataclass(frozen=True)
class PhoneStatus:
    name: str
    kind: str
    state: str
    reason: str
    address: str  # where it listens now; empty: a virtual phone that does not run
    attempt: str  # "<sweep> <trial>" that it works on; empty when none


@dataclass(frozen=True)
class SweepStatus:
    """A sweep that is not over."""

    name: str
    sweep_id: str
    counts: dict[str, int]  # trials by state


@dataclass(frozen=True)
class FarmStatus:
    state: str  # up | starting | restarting | down | died (the supervisor is gone, what it left is not ended yet)
    home: str
    paused: str  # why nothing is started now; empty when it is
    error: str  # why Ray's head or the controller was last started again
    supervisor_pid: int | None
    head_pid: int | None
    controller_pid: int | None
    controller_restarts: int
    ray_address: str
    joined: str  # the farm that this machine is a host of; empty: it has its own
    hosts: tuple[str, ...]  # farm hosts that have joined
    phones: tuple[PhoneStatus, ...]
    sweeps: tuple[SweepStatus, ...]
    outlook: Outlook = Outlook()  # noqa: RUF009  # frozen


def status(settings: Settings, registry: Registry) -> FarmStatus:
    service = state.read(settings)
    head = heartbeat.read_head(settings, service.run_id) if service else None
    beat = heartbeat.read_beat(settings, service.run_id) if service else None
    alive = service is not None and service.process() is not None
    return FarmStatus(
        state=_state(settings, service),
        home=str(settings.home),
        paused=shortage(settings.home),
        error=(service.error if service else "") or (head.error if head else ""),
        supervisor_pid=service.supervisor.pid if service and alive else None,
        head_pid=service.head.pid if service and alive and service.head else None,
        controller_pid=beat.pid if alive and beat else None,
        controller_restarts=head.controller_restarts if head else 0,
        ray_address=head.ray_address if head and alive else "",
        joined=settings.joined,
        hosts=head.hosts if head and alive else (),
        phones=_phones(settings, registry, service.phone_errors if service else {}),
        sweeps=_sweeps(registry),
        outlook=outlook(registry),
    )


def _state(settings: Settings, service: state.Service | None) -> str:
    if service is None:
        return "down"
    if service.process() is None:
        return "died"
    if state.answers(settings, service):
        return "up"
    return "restarting" if service.error else "starting"


def _phones(settings: Settings, registry: Registry, errors: dict[str, str]) -> tuple[PhoneStatus, ...]:
    attempts = {attempt.device: attempt for attempt in registry.running()}
    ours = virtual_phones.names(settings)
    return tuple(
        PhoneStatus(
            device.name,
            device.kind,
            standing(device, attempts.get(device.name)),
            errors.get(device.name, "") or why_not(device),
            (virtual_phones.address_of(settings, device.name) or "") if device.name in ours else device.address,
            _working_on(registry, attempts.get(device.name)),
        )
        for device in registry.devices()
        if device.state != DeviceState.RETIRED
    )


def standing(device: Device, attempt: Attempt | None) -> DeviceState:
    """Its state for people: busy only while somebody follows what it does. An attempt whose follower is gone is taken
    up again when the farm is."""
    left = attempt is not None and attempt.lease_expired
    return DeviceState.READY if left and device.state is DeviceState.BUSY else device.state


def why_not(device: Device) -> str:
    """Why nothing can start there; a ready phone's reason (released by hand, say) is history."""
    return "" if device.state in (DeviceState.READY, DeviceState.BUSY) else device.state_reason


def _working_on(registry: Registry, attempt: Attempt | None) -> str:
    if attempt is None:
        return ""
    labels = registry.trial(attempt.trial_id).spec.labels
    sweeps = ", ".join(sweep.name for sweep in registry.sweeps_of(attempt.trial_id))
    left = "left, goes on with lever up: " if attempt.lease_expired else ""
    return f"{left}{sweeps}: {labels.get('overrides') or labels.get('strategy', attempt.trial_id)}"


def _sweeps(registry: Registry) -> tuple[SweepStatus, ...]:
    return tuple(
        SweepStatus(s.name, s.sweep_id, {str(k): n for k, n in registry.counts(s.sweep_id).items()})
        for s in reversed(registry.unfinished())
    )
