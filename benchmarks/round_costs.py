"""What rounds cost by a job's own record: JobResult.plan holds cost curves and the stream that layers came by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from device_agent.engine.costs import CostCurve
from device_agent.layer_split import LayerSplit, stream_of
from device_agent.pipeline_model import Stream
from device_agent.protocol import CostCalibration, from_json

MB = 1_000_000


@dataclass(frozen=True)
class Curves:
    """Seconds by tokens or rows."""

    draft: CostCurve  # projection included
    verify: CostCurve
    project: CostCurve

    @classmethod
    def of(cls, plan: Mapping[str, Any]) -> Curves:
        """Those that the job's strategy ended with, else those it was given. Raises KeyError when it had none."""
        if "verify_s_by_tokens" in plan:
            return cls(*(_curve(plan[f"{name}_s_by_tokens"]) for name in ("draft", "verify", "project")))
        known = from_json(CostCalibration, plan["pass_costs"])
        draft = CostCurve.of(known.draft).plus(CostCurve.of(known.draft_project))
        return cls(draft, CostCurve.of(known.verify), CostCurve.of(known.project))


def _curve(by_tokens: Mapping[str, float]) -> CostCurve:
    return CostCurve({int(tokens): seconds for tokens, seconds in by_tokens.items()})


def stream(plan: Mapping[str, Any]) -> Stream:
    """A resident job's reads nothing."""
    if "stream" not in plan:
        return Stream((0.0,), 0)
    read = plan["stream"]
    split = LayerSplit(int(plan["ring_slots"]), 0, tuple(plan["pinned"]))
    return stream_of(read["layer_bytes"], split, read["mb_s"] * MB, read["prefetch"])
