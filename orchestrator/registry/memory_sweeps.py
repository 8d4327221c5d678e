"""Sweeps and trials in memory."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from orchestrator.comparison import BASELINE, streamed
from orchestrator.entities import (
    Attempt,
    AttemptState,
    FarmEvent,
    Sweep,
    Trial,
    TrialSpec,
    TrialState,
)
from orchestrator.registry import rules
from orchestrator.registry.contract import Queued, Submission
from orchestrator.registry.memory_phones import MemoryPhones


class MemorySweeps(MemoryPhones):
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._sweeps: dict[str, Sweep] = {}
        self._unwanted: set[str] = set()  # cancelled sweeps
        self._trials: dict[str, Trial] = {}
        self._order: dict[str, int] = {}
        self._open: set[str] = set()
        self._underived: set[str] = set()
        self._attempts: dict[str, Attempt] = {}

    def submit(self, sweep: Sweep, trials: Sequence[TrialSpec], rerun: bool = False) -> Submission:
        with self._lock:
            mine = self._grow(sweep)
            groups: dict[str, list[str]] = {"queued": [], "reused": [], "in_progress": []}
            for spec in {t.trial_id: t for t in trials}.values():
                groups[self._link(mine.sweep_id, spec, rerun)].append(spec.trial_id)
            event_id = self._append(
                FarmEvent(
                    "sweep_submitted",
                    sweep_id=mine.sweep_id,
                    data={"name": mine.name, **{k: len(v) for k, v in groups.items()}},
                )
            )
            self._owe("sweep", mine.sweep_id, None, {"event": "submitted"})
            self._finish_sweep(mine.sweep_id)
            return Submission(mine, event_id=event_id, **{k: tuple(v) for k, v in groups.items()})

    def _grow(self, sweep: Sweep) -> Sweep:
        known = next((s for s in self._sweeps.values() if s.name == sweep.name), self._sweeps.get(sweep.sweep_id))
        record, most = sweep.record, sweep.max_failures
        grown = replace(known, record=record, max_failures=most) if known else replace(sweep, created_at=self._now())
        self._sweeps[grown.sweep_id] = grown
        self._links.setdefault(grown.sweep_id, {})
        self._unwanted.discard(grown.sweep_id)
        return grown

    def _link(self, sweep_id: str, spec: TrialSpec, rerun: bool) -> str:
        """Returns the group of Submission that the trial belongs to."""
        new_link = spec.trial_id not in self._links[sweep_id]
        self._links[sweep_id][spec.trial_id] = None
        known = self._trials.get(spec.trial_id)
        if known is None or known.state in (TrialState.FAILED, TrialState.CANCELLED):
            self._enqueue(spec, known)
            return "queued"
        if known.state is TrialState.DONE and rerun:
            self._append(rules.rerun_event(known))
            self._underived.discard(spec.trial_id)
            self._enqueue(spec, known)
            return "queued"
        if known.state is TrialState.DONE:
            if new_link:
                self._owe("trial", sweep_id, spec.trial_id, {"state": "done"})
            return "reused"
        if known.state is TrialState.RUNNING and known.attempt_id:
            self._attempts[known.attempt_id] = replace(self._attempts[known.attempt_id], cancel_requested=False)
        return "in_progress"

    def _enqueue(self, spec: TrialSpec, known: Trial | None) -> None:
        attempts = known.attempts if known else 0
        self._order.setdefault(spec.trial_id, len(self._order))
        self._open.add(spec.trial_id)
        self._trials[spec.trial_id] = Trial(spec, TrialState.WAITING, attempts, 0, None, earlier_attempts=attempts)

    def sweep(self, name_or_id: str) -> Sweep:
        with self._lock:
            for sweep in self._sweeps.values():
                if name_or_id in (sweep.name, sweep.sweep_id):
                    return sweep
            names = [s.name for s in self._sweeps.values()]
            raise rules.unknown("sweep", name_or_id, names, "List them: lever results")

    def sweeps(self) -> list[Sweep]:
        with self._lock:
            return list(reversed(self._sweeps.values()))

    def unfinished(self) -> list[Sweep]:
        with self._lock:
            return [s for s in self._sweeps.values() if self._open.intersection(self._links[s.sweep_id])]

    def sweeps_of(self, trial_id: str) -> list[Sweep]:
        with self._lock:
            return [s for s in self._sweeps.values() if trial_id in self._links[s.sweep_id]]

    def trials(self, sweep_id: str) -> list[Trial]:
        with self._lock:
            return [self._trials[t] for t in self._links[self.sweep(sweep_id).sweep_id]]

    def trial(self, trial_id: str) -> Trial:
        with self._lock:
            if trial_id not in self._trials:
                raise rules.unknown("trial", trial_id, self._trials)
            return self._trials[trial_id]

    def counts(self, sweep_id: str) -> dict[TrialState, int]:
        return dict(Counter(t.state for t in self.trials(sweep_id)))

    def wanted_packs(self) -> set[str]:
        with self._lock:
            jobs = [self._trials[t].spec.job for t in self._open]
            return {job[name] for job in jobs for name in ("target_pack", "draft_pack") if job.get(name)}

    def queue(self, trial_ids: Sequence[str] | None = None, sweep_id: str | None = None) -> list[Queued]:
        with self._lock:
            linked = self._links[sweep_id] if sweep_id is not None else self._open
            found = [t for t in self._open & set(linked) if trial_ids is None or t in trial_ids]
            light = [self._light(self._trials[t]) for t in sorted(found, key=self._order.__getitem__)]
            waiting = [t for t in light if t.state is TrialState.WAITING]
            return [Queued(self._order[t.spec.trial_id], self._owner(t.spec.trial_id), t) for t in waiting]

    def _owner(self, trial_id: str) -> str:
        wanted = (s for s in self._sweeps if s not in self._unwanted and trial_id in self._links[s])
        return next(wanted, "")

    def _light(self, trial: Trial) -> Trial:
        return replace(trial, spec=replace(trial.spec, job={}), result=None)

    def queue_length(self) -> int:
        with self._lock:
            return sum(self._trials[t].state is TrialState.WAITING for t in self._open)

    def lasted(self, limit: int) -> list[tuple[dict[str, str], str, float]]:
        with self._lock:
            done = [a for a in self._attempts.values() if a.state is AttemptState.DONE]
            newest = sorted(done, key=lambda a: str(a.ended_at))[-limit:]
            trials = [(self._trials[a.trial_id], a.device) for a in newest]
            return [(t.spec.labels, device, t.attempt_wall_s or 0.0) for t, device in trials]

    def set_waiting_reason(self, reasons: dict[str, str]) -> None:
        with self._lock:
            for trial_id, reason in reasons.items():
                if (known := self._trials.get(trial_id)) and known.state is TrialState.WAITING:
                    self._trials[trial_id] = replace(known, reason=reason)

    def cancel(self, sweep_id: str) -> list[Attempt]:
        with self._lock:
            mine = self.sweep(sweep_id).sweep_id
            first = mine not in self._unwanted
            self._unwanted.add(mine)
            stop = []
            unwanted = [self._trials[t] for t in self._links[mine] if t in self._open and not self._wanted(t)]
            for trial in unwanted:
                if trial.state is TrialState.RUNNING and trial.attempt_id:
                    stop.append(replace(self._attempts[trial.attempt_id], cancel_requested=True))
                    self._attempts[trial.attempt_id] = stop[-1]
                else:
                    self._close(trial.spec.trial_id, TrialState.CANCELLED)
            if first:
                data = {"waiting": len(unwanted) - len(stop), "running": len(stop)}
                self._append(FarmEvent("sweep_cancelled", sweep_id=mine, data=data))
                self._finish_sweep(mine)
            return stop

    def _wanted(self, trial_id: str) -> bool:
        return any(trial_id in links and s not in self._unwanted for s, links in self._links.items())

    def _close(self, trial_id: str, state: TrialState) -> None:
        self._trials[trial_id] = replace(self._trials[trial_id], state=state, reason="")
        self._open.discard(trial_id)

    def _finish_sweep(self, sweep_id: str) -> None:
        if not self._open.intersection(self._links[sweep_id]):
            self._append(FarmEvent("sweep_finished", sweep_id=sweep_id))
            self._owe("sweep", sweep_id, None, {"event": "finished"})

    def _count_failures(self, sweep: Sweep) -> None:
        failed = sum(self._trials[t].state is TrialState.FAILED for t in self._links[sweep.sweep_id])
        waits = self._open.intersection(self._links[sweep.sweep_id])
        if sweep.max_failures is not None and failed >= sweep.max_failures and waits:
            self.cancel(sweep.sweep_id)

    def baselines(self, trial: Trial) -> list[Trial]:
        with self._lock:
            found = [t for t in self._alike(trial, "reference_key") if t.spec.labels.get("strategy") == BASELINE]
            key = trial.spec.labels.get("baseline_key")
            own = [t for t in found if key and t.spec.labels.get("baseline_key") == key]
            plainest = sorted(found, key=_plainness)[:1]
            return list({t.spec.trial_id: t for t in (*own, *plainest)}.values())

    def compare_again(self, baseline: Trial) -> int:
        with self._lock:
            same_text = self._alike(baseline, "reference_key")
            plain = [t for t in same_text if t.spec.labels.get("strategy") == BASELINE]
            first = min(plain, key=_plainness).spec.trial_id == baseline.spec.trial_id
            keyed = self._alike(baseline, "baseline_key") if baseline.spec.labels.get("baseline_key") else []
            concerned = same_text if first else keyed
            marked = {t.spec.trial_id for t in concerned} - self._underived - {baseline.spec.trial_id}
            self._underived |= marked
            return len(marked)

    def _alike(self, trial: Trial, label: str) -> list[Trial]:
        """Done trials of the same phone whose label is the same."""
        done = (t for t in self._trials.values() if t.state is TrialState.DONE and t.device == trial.device)
        return [t for t in done if t.spec.labels.get(label) == trial.spec.labels.get(label)]

    def underived(self, limit: int) -> list[Trial]:
        with self._lock:
            return [self._trials[t] for t in sorted(self._underived, key=self._order.__getitem__)[:limit]]


def _plainness(trial: Trial) -> tuple[bool, int, str]:
    return streamed(trial.spec.labels), trial.spec.repeat, trial.spec.trial_id
