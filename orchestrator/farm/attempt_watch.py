"""What we remember of an attempt between two connections to its phone, and when we stop waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.entities import AttemptOrder, Progress
from orchestrator.errors import LeverError, PhoneUnreachable
from orchestrator.farm.event_tail import EventTail
from orchestrator.farm.job_folder import JobState

TELL_EVERY_S = 0.5  # provisioning progress
SHARE = 0.05  # of a job's age, between two looks: no short job waits long to be collected


class AttemptCancelled(LeverError): ...


@dataclass(frozen=True)
class Limits:
    """Seconds."""

    poll: float = 0.5  # between two looks at a job, at most; a young one is looked at more often
    first_contact: float = 60.0  # a phone that never answers
    unreachable: float = 180.0  # lost, or no progress over one lost connection after another
    longest_backoff: float = 10.0
    birth: float = 20.0  # from the start command to the agent's pid
    farewell: float = 10.0  # from result.json to the end of the process


class AttemptWatch:
    def __init__(
        self, order: AttemptOrder, report: Callable[[Progress], None], cancelled: threading.Event, limits: Limits
    ) -> None:
        self.order, self.cancelled, self.limits = order, cancelled, limits
        self.tail = EventTail(order.device.root, order.attempt_id)
        self.losses = 0
        self._report = report
        self._began = self._watched_since = time.monotonic()
        self._give_up_at = self._began + limits.first_contact
        self._deadline_at: float | None = None
        self._result_seen_at: float | None = None
        self._told_at = 0.0
        self._provisioned = -1

    def age(self) -> float:
        return time.monotonic() - self._began

    def rest(self) -> None:
        """Until the next look at the job."""
        age_s = 0.0 if self._result_seen_at else time.monotonic() - self._watched_since  # it only has to exit
        self.cancelled.wait(min(self.limits.poll, max(self.limits.poll / 10, SHARE * age_s)))

    def tell(self, kind: str, /, **data: object) -> None:
        self._report(Progress(self.order.attempt_id, kind, data))

    def patience(self) -> float:
        """Seconds left to reach the phone again, at least 0."""
        return max(0.0, self._give_up_at - time.monotonic())

    def lost(self, error: PhoneUnreachable) -> None:
        """Raises `error` when connections come and go without getting us anywhere."""
        if not self.patience():
            raise error
        self.losses += 1
        self.tell("connection_lost", message=error.message)
        self.cancelled.wait(self.limits.poll)

    def provisioned(self, done: int, total: int) -> None:
        """Progress in bytes. Raises AttemptCancelled: between two chunks is a good moment."""
        if self.cancelled.is_set():
            raise AttemptCancelled("the attempt was cancelled while the phone was provisioned")
        if done > self._provisioned:
            self._provisioned = done
            self._moved()
        if done >= total or time.monotonic() - self._told_at >= TELL_EVERY_S:
            self._told_at = time.monotonic()
            self.tell("provisioning", step="push", done_bytes=done, total_bytes=total)

    def seen(self, state: JobState) -> None:
        """The job was looked at: its clock starts with the first look at it, wherever it was started from."""
        self._moved()
        if self._deadline_at is None:
            self._watched_since = time.monotonic() - max(0.0, state.age_s)
            self._deadline_at = time.monotonic() + self.order.deadline_s - max(0.0, state.age_s)
        if state.has_result and self._result_seen_at is None:
            self._result_seen_at = time.monotonic()

    def late(self) -> bool:
        return self._deadline_at is not None and time.monotonic() > self._deadline_at

    def over(self, state: JobState) -> bool:
        """The agent will not do anything any more, or has said all that it has to say."""
        if state.exit_code is not None:
            return True
        if self._result_seen_at is not None:
            return not state.alive or time.monotonic() - self._result_seen_at > self.limits.farewell
        if state.alive:
            return False
        return state.has_pid or state.age_s > self.limits.birth

    def _moved(self) -> None:
        self._give_up_at = time.monotonic() + self.limits.unreachable
