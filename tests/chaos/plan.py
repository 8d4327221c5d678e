"""What dies next, chosen by a seeded die: a process at a random moment, or whoever reaches a failpoint."""

from __future__ import annotations

import random
from dataclasses import dataclass

CONTROLLER_POINTS = (
    "start_attempt",
    "finish_attempt",
    "adopt",
    "renew",
    "add_events",
    "set_derived",
    "set_tracking_run_id",
    "outbox_done",
    "create_run",
    "log_batch",
    "log_artifacts",
    "set_terminated",
)
HOST_POINTS = ("prepare_and_start", "collect")
FREQUENT = {"start_attempt", "finish_attempt"}  # where a trial could be lost or run twice

# Part → weight among kills at random moments.
PARTS = {
    "agent": 30,
    "cli": 20,
    "controller": 16,
    "host": 14,
    "phone": 6,
    "postgres": 6,
    "mlflow": 4,
    "head": 3,
    "supervisor": 1,
}
HEAVY = {"controller", "head", "supervisor"}  # what restarts with back-off when it dies young


@dataclass(frozen=True)
class Kill:
    """`part` at a random moment, or (with a point) the process of this role that comes there, before or after."""

    part: str
    point: str = ""
    when: str = ""
    wait_s: float = 0.0
    choose: int = 0

    def __str__(self) -> str:
        return f"{self.part} {self.when} {self.point}" if self.point else self.part

    @property
    def role(self) -> str:
        return "cli" if self.part == "cli" else "farm"


def next_kill(dice: random.Random, light: bool) -> Kill:
    """`light`: nothing that needs a rest between two deaths."""
    wait_s, choose = dice.uniform(0.0, 0.5), dice.randrange(1000)
    if dice.random() < 0.55:
        when = dice.choice(("before", "after"))
        if light:
            point = dice.choice((*HOST_POINTS, "submit"))
            return Kill("cli" if point == "submit" else "host", point, when, wait_s, choose)
        weights = [3 if point in FREQUENT else 1 for point in CONTROLLER_POINTS]
        return Kill("controller", dice.choices(CONTROLLER_POINTS, weights)[0], when, wait_s, choose)
    parts = {part: weight for part, weight in PARTS.items() if not (light and part in HEAVY)}
    return Kill(dice.choices(list(parts), list(parts.values()))[0], wait_s=wait_s, choose=choose)
