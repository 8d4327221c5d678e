"""What a decoding strategy is, and finding one by name: each is a module in `strategies/` with a `build` function.

`build(spec, draft)`, or `build(spec, draft, conditions)` for one that weighs costs.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from device_agent.engine import strategies
from device_agent.engine.costs import FlashLoad
from device_agent.engine.pruning import Pruner
from device_agent.engine.tree import TokenTree
from device_agent.failure import AgentFailure
from device_agent.model.transformer import Transformer
from device_agent.protocol import CostCalibration, EnergySpec, EngineSpec, RoundTrace


@dataclass(frozen=True)
class Room:
    """What a round can use: more could not be emitted or kept in the target's KV cache."""

    depth: int  # draft tokens on one branch
    nodes: int  # draft tokens in all


@dataclass(frozen=True)
class Proposal:
    """What one round should verify."""

    tree: TokenTree
    draft_passes: int = 0
    nodes_drafted: int = 0  # draft tokens considered; the tree may hold fewer
    pruner: Pruner | None = None  # of the tree, between layers
    pruning: str = "off"  # RoundTrace.pruning


class Strategy(Protocol):
    """Decides what each verification round checks. The target's answer never depends on it, only the speed."""

    def begin(self, prompt: Sequence[int]) -> None:
        """A new request with these token ids."""

    def propose(self, root: int, room: Room) -> Proposal:
        """A tree below `root`, the last emitted token, within `room`."""

    def settle(self, tree: TokenTree, path: Sequence[int]) -> None:
        """The target accepted `path` of the proposed tree, from the root down."""


@dataclass(frozen=True)
class Conditions:
    """What a strategy that weighs costs is told of the device and the other model."""

    target: Transformer
    load: FlashLoad = field(default_factory=FlashLoad)
    bandwidth: Callable[[], float | None] = lambda: None  # flash, bytes/s in force; None: not known yet
    energy: EnergySpec = field(default_factory=EnergySpec)
    cores: int = 1  # that compute
    costs: CostCalibration | None = None  # of passes, calibrated on this device; None: not known


@runtime_checkable
class Adaptive(Protocol):
    """A strategy that follows how its rounds went."""

    def observe(self, trace: RoundTrace) -> None:
        """A round that it proposed is over."""

    def report(self) -> dict[str, Any]:
        """What its decisions rest on, for JobResult.plan."""


def build_strategy(spec: EngineSpec, draft: Transformer | None, conditions: Conditions) -> Strategy:
    """The strategy that `spec` names; raises AgentFailure bad_spec for an unknown one or one that lacks its draft."""
    names = sorted(module.name for module in pkgutil.iter_modules(strategies.__path__))
    if spec.strategy not in names:
        raise AgentFailure("bad_spec", f"strategy {spec.strategy!r} is not known; there are {', '.join(names)}")
    module = importlib.import_module(f"{strategies.__name__}.{spec.strategy}")
    told = (conditions,) if "conditions" in inspect.signature(module.build).parameters else ()
    strategy: Strategy = module.build(spec, draft, *told)
    return strategy
