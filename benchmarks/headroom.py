"""What recorded rounds would have taken, had a part been perfect: their traces through the model of the pipeline.

Each figure is the modelled time of the rounds as they were ÷ the modelled time with the part made perfect, so 1 means
nothing to be gained. The tokens that a round emits stay as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.cell import Measured
from benchmarks.round_costs import Curves, stream
from device_agent.engine.pipeline import own_costs
from device_agent.pipeline_model import RoundCosts, total_seconds
from device_agent.protocol import RoundTrace


def headroom(rounds: Sequence[RoundTrace], plan: Mapping[str, Any]) -> dict[str, float]:
    """free_drafting: drafts cost no time. perfect_pruning: the tokens that get rejected go before the first layer.
    perfect_tree: only the tokens that get accepted are drafted, one pass each, and verified.

    `plan`: of the job that the rounds are of.
    """
    curves, flash = Curves.of(plan), stream(plan)
    as_it_was = [*map(own_costs(len(flash.read_s)), rounds)]
    pruned = [_pruned(trace, costs, curves) for trace, costs in zip(rounds, as_it_was, strict=True)]
    variants = {
        "free_drafting": [replace(costs, draft_s=0.0) for costs in as_it_was],
        "perfect_pruning": pruned,
        "perfect_tree": [_drafted(trace, costs, curves) for trace, costs in zip(rounds, pruned, strict=True)],
    }
    whole_s = total_seconds(flash, as_it_was)
    return {name: whole_s / total_seconds(flash, costs) for name, costs in variants.items()}


def _pruned(trace: RoundTrace, costs: RoundCosts, curves: Curves) -> RoundCosts:
    """The layers computed on the accepted tokens only: as much less as the measured curve says."""
    share = curves.verify.of_one(trace.acceptance_length) / curves.verify.of_one(trace.nodes_verified)
    return replace(costs, compute_s=costs.compute_s * min(1.0, share))


def _drafted(trace: RoundTrace, costs: RoundCosts, curves: Curves) -> RoundCosts:
    return replace(costs, draft_s=min(costs.draft_s, trace.accepted_tokens * curves.draft.of_one(1)))


def all_headroom(cells: Sequence[Measured]) -> dict[str, list[float]]:
    """Of several cells, by figure."""
    found = [headroom(cell.rounds, cell.result.plan) for cell in cells]
    return {name: [one[name] for one in found] for name in (found[0] if found else {})}
