"""Which backend computes what: arithmetic over calibrated costs.

Roles compute one after another, so a round computes for the sum of theirs. However much of it hides behind reading, a
round never gets shorter by computing longer: the least sum is also the shortest round, on any flash. What ties roles
together is memory: those placed on one backend share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from device_agent.engine.costs import CostCurve
from device_agent.failure import AgentFailure
from device_agent.protocol import CostTable

DRAFT, DRAFT_PROJECT = "draft", "draft_project"  # layers of a draft pass, and its logits
VERIFY, PROJECT = "verify", "project"  # the target's layers, and its logits


@dataclass(frozen=True)
class Usual:
    """What a usual round asks of a role."""

    calls: float
    size: int  # tokens or rows of each


@dataclass(frozen=True)
class Offer:
    """What a backend would take for the roles that it can play."""

    backend: str
    costs: Mapping[str, CostTable]  # by role: seconds of a call by its size
    nbytes: Mapping[str, int] = field(default_factory=dict)  # by role: memory there
    free_bytes: int | None = None  # None: as much as is asked

    def seconds(self, role: str, usual: Usual) -> float:
        """Of a round."""
        return usual.calls * CostCurve.of(self.costs[role]).of_one(usual.size)

    def holds(self, roles: Sequence[str]) -> bool:
        return self.free_bytes is None or sum(self.nbytes.get(role, 0) for role in roles) <= self.free_bytes


@dataclass(frozen=True)
class Placement:
    """Backends by role, and the seconds that a usual round then computes."""

    backends: Mapping[str, str]
    seconds: float


def place(offers: Sequence[Offer], round_: Mapping[str, Usual]) -> Placement:
    """The cheapest placement of the roles in `round_`; among equals the one that prefers earlier offers.

    Tries all: four roles on three backends are 81. Raises AgentFailure bad_spec when none fits.
    """
    roles = [*round_]
    able = [[offer for offer in offers if role in offer.costs] for role in roles]
    best: Placement | None = None
    for chosen in product(*able):
        if not all(offer.holds([r for r, o in zip(roles, chosen, strict=True) if o is offer]) for offer in offers):
            continue
        seconds = sum(offer.seconds(role, round_[role]) for role, offer in zip(roles, chosen, strict=True))
        if best is None or seconds < best.seconds:
            best = Placement({role: o.backend for role, o in zip(roles, chosen, strict=True)}, seconds)
    if best is None:
        names = ", ".join(offer.backend for offer in offers)
        raise AgentFailure("bad_spec", f"no placement of {', '.join(roles)} on {names} is possible")
    return best
