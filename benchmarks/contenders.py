"""What is compared: engine settings of the baselines, of lever, and of lever with one part switched off."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.scope import Widths
from device_agent.protocol import CostCalibration, DraftingSpec, EdgeCalibration, EngineSpec, StorageSpec, StreamCosts

N_CTX = 1024
TRIM = 16_384  # rows of the draft's output projection, where it is trimmed
REQUANTIZE = "Q4_1"  # of the draft's layers that no fast kernel takes as they are, where that is done
GUESS = StreamCosts()
NEEDS_DRAFT = {"chain", "static_tree", "lever"}

PARTS: dict[str, tuple[str, Any]] = {  # a field of EngineSpec, and its value that switches the part off
    "drafting": ("drafting.enabled", False),
    "prefetch": ("storage.prefetch", False),
    "pinning": ("storage.pinning", False),
    "trimming": ("drafting.trim_vocabulary", 0),
    "requantizing": ("drafting.requantize", None),
    "pruning": ("pruning.enabled", False),
    "placement": ("placement", "cpu"),
}


@dataclass(frozen=True)
class Condition:
    """Where everybody has to run."""

    name: str
    mode: str  # flash | resident
    cap_mb_s: float | None = None


@dataclass(frozen=True)
class Contender:
    name: str
    engine: EngineSpec
    costs: CostCalibration | None = None  # what the engine is told that passes cost

    @property
    def drafts(self) -> bool:
        return self.engine.strategy in NEEDS_DRAFT


def plain(condition: Condition, features: bool, costs: StreamCosts = GUESS) -> EngineSpec:
    """`features`: reading across rounds and pinning, split by `costs`."""
    return EngineSpec(storage=replace(_storage(condition, features), costs=costs), n_ctx=N_CTX)


def chain(condition: Condition, k: int, features: bool) -> EngineSpec:
    """`features`: reading across rounds, pinning, trimming and requantising."""
    return replace(_drafting(condition, features), strategy="chain", draft_k=k)


def static_tree(condition: Condition, widths: Widths, features: bool) -> EngineSpec:
    return replace(_drafting(condition, features), strategy="static_tree", draft_widths=widths)


def lever(condition: Condition, edges: EdgeCalibration) -> EngineSpec:
    drafting = DraftingSpec(trim_vocabulary=TRIM, requantize=REQUANTIZE, edges=edges)
    return replace(_drafting(condition, True), strategy="lever", drafting=drafting)


def _storage(condition: Condition, features: bool) -> StorageSpec:
    if condition.mode != "flash":
        return StorageSpec(mode=condition.mode)
    return StorageSpec(flash_bandwidth_mb_s=condition.cap_mb_s, prefetch=features, pinning=features)


def _drafting(condition: Condition, features: bool) -> EngineSpec:
    drafting = DraftingSpec(trim_vocabulary=TRIM, requantize=REQUANTIZE) if features else DraftingSpec()
    return EngineSpec(storage=_storage(condition, features), n_ctx=N_CTX, drafting=drafting)


def without(engine: EngineSpec, part: str) -> EngineSpec | None:
    """`engine` with one of PARTS switched off; None when this engine has no such part, or it is off already."""
    path, value = PARTS[part]
    try:
        changed = _changed(engine, path.split("."), value)
    except AttributeError:
        return None
    return None if changed == engine else changed


def _changed(spec: Any, path: list[str], value: Any) -> Any:
    """Raises AttributeError for a field that is not there."""
    inner = getattr(spec, path[0])
    return dataclasses.replace(spec, **{path[0]: _changed(inner, path[1:], value) if path[1:] else value})
