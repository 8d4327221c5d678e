"""How often the controller looks, in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    poll: float = 0.5  # between two looks for news; one indexed query when nothing happens
    lease: float = 30.0  # how long a lease lasts; renewed at a third of that
    reconcile: float = 5.0  # between two full looks without news: leases that expired, a clock that jumped
    progress: float = 0.4  # between two notes of the progress of an attempt, whose agent tells it each 0.5
    trouble: float = 1.0  # after the database did not answer
    tracker: float = 1.0  # between two looks into an empty outbox
    farewell: float = 20.0  # to deliver what is owed to the tracker when the controller stops
