"""The DRAM budget that every contender gets: its own unpinned minimum and a quarter of the target's layers."""

from __future__ import annotations

from dataclasses import replace

from device_agent.dram_plan import MB, layer_sizes, plan_dram
from device_agent.layer_split import MIN_RING_SLOTS
from device_agent.protocol import EngineSpec, PackManifest, StorageSpec

SHARE = 0.25  # of the target's layer bytes


def budget_mb(target: PackManifest, draft: PackManifest | None, engine: EngineSpec) -> float:
    """MB (10^6 bytes). The minimum counts what the contender holds: plain decoding has no draft model to hold.

    So every contender can pin the same number of layers. With one number for all, plain decoding would have the draft's
    memory for pins besides: `draft` given, that is what this function answers.
    """
    bare = replace(engine, dram_budget_mb=None, storage=StorageSpec(mode="flash", ring_slots=MIN_RING_SLOTS))
    spare = SHARE * sum(layer_sizes(target))
    return float(-(-(plan_dram(target, draft, bare).total + spare) // MB))
