"""Progress as plain lines: for logs, pipes and terminals that cannot redraw. A line whenever something changed."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.entities import Trial, TrialState
from orchestrator.sweeps.describe import activity_text, mishap_text, result_text, trial_name, trial_text
from orchestrator.sweeps.progress import SweepProgress


class PlainView:
    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._phones: dict[str, tuple[str, str]] = {}
        self._waiting: frozenset[str] = frozenset()

    def update(self, progress: SweepProgress) -> None:
        for event in progress.take_mishaps():
            self._write(mishap_text(event, progress.trials[str(event.trial_id)]))
        for name, activity in progress.phones.items():
            step = (activity.trial_id, activity.step if activity.connected else "connection lost")
            if self._phones.get(name) != step:
                self._write(f"{name}: {trial_name(progress.trials[activity.trial_id])}: {activity_text(activity)}")
                self._phones[name] = step
        reasons = frozenset(progress.waiting)
        if reasons != self._waiting:
            for reason, count in progress.waiting.items():
                self._write(f"waiting: {count} {reason}")
            self._waiting = reasons

    def ended(self, trial: Trial) -> None:
        mark = {TrialState.DONE: "done", TrialState.FAILED: "FAILED"}.get(trial.state, trial.state.value)
        self._write(f"{mark}: {trial_text(trial)}: {result_text(trial)}")
