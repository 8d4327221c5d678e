"""What a sweep is doing, told from the registry's trials and events. Pure: no clock, no output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.entities import FarmEvent, Trial, TrialState

FINAL = frozenset({TrialState.DONE, TrialState.FAILED, TrialState.CANCELLED})


@dataclass(frozen=True)
class PhoneActivity:
    """What one phone does now; `done` of `total` in bytes while provisioning, in tokens while decoding."""

    trial_id: str
    step: str = "starting"
    done: int = 0
    total: int = 0
    unit: str = ""  # B | tokens
    rounds: int = 0
    connected: bool = True


@dataclass
class SweepProgress:
    """`trials` are those of the batch that is followed, in order, done ones of an earlier time included."""

    trials: dict[str, Trial]
    phones: dict[str, PhoneActivity] = field(default_factory=dict)
    mishaps: list[FarmEvent] = field(default_factory=list)  # attempts that failed and whose trials wait again

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> SweepProgress:
        return cls({trial.spec.trial_id: trial for trial in trials})

    @property
    def counts(self) -> Counter[TrialState]:
        return Counter(trial.state for trial in self.trials.values())

    @property
    def finished(self) -> bool:
        return all(trial.state in FINAL for trial in self.trials.values())

    @property
    def waiting(self) -> Counter[str]:
        """How many trials wait, by reason."""
        return Counter(
            trial.reason or "for its turn" for trial in self.trials.values() if trial.state is TrialState.WAITING
        )

    def refresh(self, trials: Sequence[Trial]) -> list[Trial]:
        """Take over the registry's trials; returns those of the batch that ended since the last time."""
        ended = []
        for trial in trials:
            known = self.trials.get(trial.spec.trial_id)
            if known is None:
                continue
            self.trials[trial.spec.trial_id] = trial
            if trial.state in FINAL and known.state not in FINAL:
                ended.append(trial)
        running = {t.spec.trial_id for t in self.trials.values() if t.state is TrialState.RUNNING}
        self.phones = {name: activity for name, activity in self.phones.items() if activity.trial_id in running}
        return ended

    def apply(self, event: FarmEvent) -> bool:
        """Returns whether a trial of the batch may have changed its state, so that a refresh is due."""
        if event.trial_id not in self.trials or event.trial_id is None:
            return False
        if event.kind in ("attempt_started", "attempt_adopted") and event.device:
            self.phones[event.device] = PhoneActivity(event.trial_id)
        elif event.kind == "progress" and event.device:
            before = self.phones.get(event.device) or PhoneActivity(event.trial_id)
            self.phones[event.device] = advance(before, event.data)
        elif event.kind == "attempt_finished" and event.data.get("trial_state") == TrialState.WAITING.value:
            self.mishaps.append(event)
        return event.kind != "progress"

    def take_mishaps(self) -> list[FarmEvent]:
        """Those that were not taken yet."""
        taken, self.mishaps = self.mishaps, []
        return taken


def advance(activity: PhoneActivity, data: dict[str, Any]) -> PhoneActivity:
    """The activity after one progress event: `kind` and data of entities.Progress in one dict; for a line of the
    agent's, `event` is its kind and `data` its data."""
    kind = data.get("kind")
    if kind == "connection_lost":
        return replace(activity, connected=False)
    if kind == "reattached":
        return replace(activity, connected=True)
    if kind == "provisioning":
        done, total = int(data.get("done_bytes", 0)), int(data.get("total_bytes", 0))
        step = f"provisioning {data.get('step', '')}".strip()
        return replace(activity, step=step, done=done, total=total, unit="B", connected=True)
    if data.get("event") == "progress":
        return _decoding(activity, data["data"])
    return replace(activity, step=str(data.get("event", kind)).replace("_", " "), total=0, connected=True)


def _decoding(activity: PhoneActivity, numbers: dict[str, Any]) -> PhoneActivity:
    return replace(
        activity,
        step=f"decoding {numbers['request']}",
        done=int(numbers["tokens"]),
        total=int(numbers["max_new_tokens"]),
        rounds=int(numbers["rounds"]),
        unit="tokens",
        connected=True,
    )
