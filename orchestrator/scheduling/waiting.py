"""A waiting trial as the scheduler sees it: small, since tens of thousands of them are kept in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from orchestrator.entities import Trial
from orchestrator.scheduling.durations import Kind


@dataclass(frozen=True)
class Waiting:
    """`number` grows with submission; `phones` is the selector, also of a trial that is bound to one phone; `pair`
    names the models that its phone must have; `avoid` are phones where it failed."""

    trial_id: str
    number: int
    sweep: str
    device: str | None
    phones: str = "any"
    pair: str = ""
    kind: Kind = field(default_factory=Kind)
    repeat: int = 0
    alone: bool = False  # its figures need the host's cores and disk
    priority: int = 0
    order: str = "blocked"
    seed: int = 0
    push_mb: float = 0.0
    avoid: frozenset[str] = frozenset()
    reason: str = field(default="", compare=False)  # why it waits, as the registry has it

    @cached_property
    def rank(self) -> tuple[int, int, int]:
        """Smaller runs earlier among the trials of one sweep. `paired` is a randomised complete block: all
        configurations of one repeat, shuffled, before any of the next, so that A and B alternate on their phone."""
        if self.order == "random":
            return 0, self._shuffled, self.number
        if self.order == "paired":
            return self.repeat, self._shuffled, self.number
        return 0, 0, self.number

    @property
    def _shuffled(self) -> int:
        """Depends on nothing but seed and trial: the same after a restart, and when the sweep has grown."""
        return int.from_bytes(hashlib.blake2b(f"{self.seed}:{self.trial_id}".encode(), digest_size=6).digest())


def alone(config: Mapping[str, Any]) -> bool:
    """Whether a trial's figures need the host's cores and disk: `schedule.exclusive_host`, on unless switched off."""
    schedule = config.get("schedule")
    return bool(schedule.get("exclusive_host", True)) if isinstance(schedule, dict) else True


def waiting_of(trial: Trial, number: int, sweep: str, avoid: frozenset[str] = frozenset()) -> Waiting:
    spec, schedule = trial.spec, trial.spec.config.get("schedule") or {}
    return Waiting(
        trial_id=spec.trial_id,
        number=number,
        sweep=sweep,
        device=spec.device,
        phones=str(spec.config.get("phones", "any")),
        pair=spec.labels.get("pair", ""),
        kind=Kind.of(spec.labels),
        repeat=spec.repeat,
        alone=alone(spec.config),
        priority=int(schedule.get("priority", 0)),
        order=str(schedule.get("order", "blocked")),
        seed=int(schedule.get("seed", 0)),
        push_mb=float(spec.labels.get("pack_mb", 0)),
        avoid=avoid,
        reason=trial.reason,
    )
