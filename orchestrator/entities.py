"""The nouns of the farm, frozen: they cross process borders as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class TrialState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"  # for good: retries are used up or pointless
    CANCELLED = "cancelled"


class AttemptState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class DeviceState(StrEnum):
    READY = "ready"
    BUSY = "busy"
    COOLING = "cooling"
    LOW_BATTERY = "low_battery"
    OFFLINE = "offline"
    UNAUTHORIZED = "unauthorized"
    QUARANTINED = "quarantined"
    RETIRED = "retired"


class FailureKind(StrEnum):
    """Why an attempt failed. The first group is the phone's or the cable's, the second the trial's own."""

    UNREACHABLE = "unreachable"
    UNAUTHORIZED = "unauthorized"
    COMMAND_FAILED = "command_failed"
    PROVISIONING = "provisioning"
    AGENT_VANISHED = "agent_vanished"  # process gone, no result, no exit code (kill of the whole group)
    REBOOTED = "rebooted"  # the phone, during the run
    ADBD_RESTARTED = "adbd_restarted"  # which takes along what it started, the agent too
    AGENT_KILLED = "agent_killed"  # exit code 137 or 143
    AGENT_CRASHED = "agent_crashed"  # a signal of its own making: SIGSEGV, SIGILL, SIGABRT…
    OUT_OF_MEMORY = "out_of_memory"
    DISK_FULL = "disk_full"
    DEADLINE = "deadline"
    HOST_LOST = "host_lost"
    BAD_SPEC = "bad_spec"
    PACK_CORRUPT = "pack_corrupt"
    BUDGET_TOO_SMALL = "budget_too_small"
    NAN_LOGITS = "nan_logits"
    IO_ERROR = "io_error"
    ENGINE_ERROR = "engine_error"
    BAD_RESULT = "bad_result"  # result.json is not what the protocol says
    CANCELLED = "cancelled"  # stopped because somebody asked: nobody's fault


@dataclass(frozen=True)
class Device:
    """A phone as the farm knows it; `name` is unique and is what people type."""

    name: str
    address: (
        str  # "tcp:HOST:PORT" | "wireless:HOST:PORT" | "usb:SERIAL"; a virtual phone's port may change when it restarts
    )
    kind: str  # virtual | tcp | wireless | usb
    host: str  # farm host that it is cabled to
    serial: str  # what the phone calls itself: a different answer at the same address is another phone
    root: str  # our folder on the phone, e.g. /data/local/tmp/lever
    state: DeviceState = DeviceState.READY
    state_reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)  # model, soc, ram_gb, abi, sdk, cores, profile, power model…
    tags: tuple[str, ...] = ()
    state_since: float = field(default=0.0, compare=False)  # unix time, set by the registry; 0: not known

    @property
    def simulated(self) -> bool:
        return self.kind == "virtual"


@dataclass(frozen=True)
class TrialSpec:
    """One resolved configuration on one phone, one repeat. `trial_id` is a hash over all that matters."""

    trial_id: str
    device: str | None  # None: any phone that `phones` selects
    repeat: int
    config: dict[str, Any]  # resolved Hydra config without the hydra node
    job: dict[str, Any]  # device_agent.protocol.JobSpec as JSON; attempt_id empty, filled in by the controller
    labels: dict[str, str]  # pair, strategy, storage, workload…: what tables and dashboards group by


@dataclass(frozen=True)
class Sweep:
    sweep_id: str
    name: str  # unique: the same name again is the same sweep, grown
    created_at: datetime | None = None  # set by the registry
    record: dict[str, Any] = field(
        default_factory=dict
    )  # overrides, git revision, package versions, engine version, packs
    max_failures: int | None = None  # so many failed trials cancel the rest; None: it goes on whatever fails


@dataclass(frozen=True)
class Trial:
    spec: TrialSpec
    state: TrialState
    attempts: int  # how many were started
    charged_failures: int  # failures that count against the trial
    device: str | None  # phone of the last attempt
    result: dict[str, Any] | None = None  # protocol.JobResult as JSON, when done
    failure_kind: str | None = None
    failure_message: str | None = None
    attempt_id: str | None = None  # last attempt
    attempt_wall_s: float | None = None
    reason: str = ""  # why it waits, in words for a person
    earlier_attempts: int = 0  # attempts of before it was last submitted anew: they count no more


@dataclass(frozen=True)
class Attempt:
    attempt_id: str
    trial_id: str
    device: str
    token: int  # fencing token of its lease: grows with every lease on that phone
    state: AttemptState = AttemptState.RUNNING
    number: int = 1  # 1-based within the trial
    started_at: datetime | None = None
    ended_at: datetime | None = None
    failure_kind: str | None = None
    failure_message: str | None = None
    log_tail: str = ""
    charged: bool = False  # its failure counts against the trial
    owner: str = ""  # who holds, or last held, its lease
    lease_expired: bool = False  # by the database clock, when read: anybody may adopt it
    cancel_requested: bool = False  # its sweep was cancelled: stop it


@dataclass(frozen=True)
class AttemptOrder:
    """Start this attempt on this phone, or re-attach to it if the phone already has its job folder."""

    attempt_id: str
    device: Device
    job: dict[str, Any]  # protocol.JobSpec as JSON with attempt_id filled in
    deadline_s: float  # from the agent's start


@dataclass(frozen=True)
class Progress:
    """A step of an attempt. kinds: provisioning (data: step, done_bytes, total_bytes), agent_event, connection_lost,
    reattached."""

    attempt_id: str
    kind: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AttemptOutcome:
    """What an executor hands back: a result or a failure, never both."""

    attempt_id: str
    result: dict[str, Any] | None = None  # protocol.JobResult as JSON
    rounds_jsonl: str = ""  # the agent's rounds.jsonl as it is
    nodes_packed: str = ""  # its nodes.jsonl, which can be tens of MB: gzip in base64; empty when there is none
    failure_kind: FailureKind | None = None
    failure_message: str = ""
    log_tail: str = ""
    attempt_wall_s: float = 0.0
    connection_losses: int = 0  # how often the cable was lost and the attempt re-attached


@dataclass(frozen=True)
class FarmEvent:
    """Append-only history: what happened to which sweep, trial, attempt or phone."""

    kind: str  # sweep_{submitted,cancelled,finished}, attempt_{started,adopted,finished}, progress,
    # trial_{done,failed,cancelled,derived,rerun}, device_state, farm_{paused,resumed}
    event_id: int = 0  # set by the registry, grows
    at: datetime | None = None  # set by the registry
    sweep_id: str | None = None
    trial_id: str | None = None
    attempt_id: str | None = None
    device: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
