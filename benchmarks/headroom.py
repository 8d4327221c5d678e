"""What lever's own rounds would have taken, had a part been perfect: their traces through the model of the pipeline.

Each figure is the modelled time of the rounds as they were ÷ the modelled time with the part made perfect, so 1 means
nothing to be gained. The tokens that a round emits stay as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.cell import Measured
from device_agent.dram_plan import MB, layer_sizes
from device_agent.layer_split import LayerSplit, stream_of
from device_agent.pipeline_model import RoundCosts, Stream, total_seconds
from device_agent.protocol import PackManifest, RoundTrace


def headroom(measured: Measured, target: PackManifest, bandwidth_mb_s: float, prefetch: bool) -> dict[str, float]:
    """free_drafting: drafts cost no time. perfect_pruning: the tokens that get rejected go before the first layer.
    perfect_tree: only the tokens that get accepted are drafted, one pass each, and verified.
    """
    plan = measured.result.plan
    split = LayerSplit(int(plan["ring_slots"]), 0, tuple(plan["pinned"]))
    stream = stream_of(layer_sizes(target), split, bandwidth_mb_s * MB, prefetch)
    draft, verify = plan["draft_s_by_tokens"], plan["verify_s_by_tokens"]
    rounds = measured.rounds
    as_it_was = [_costs(trace, stream) for trace in rounds]
    pruned = [_pruned(trace, costs, verify) for trace, costs in zip(rounds, as_it_was, strict=True)]
    variants = {
        "free_drafting": [replace(costs, draft_s=0.0) for costs in as_it_was],
        "perfect_pruning": pruned,
        "perfect_tree": [_drafted(trace, costs, draft) for trace, costs in zip(rounds, pruned, strict=True)],
    }
    whole_s = total_seconds(stream, as_it_was)
    return {name: whole_s / total_seconds(stream, costs) for name, costs in variants.items()}


def _costs(trace: RoundTrace, stream: Stream) -> RoundCosts:
    return RoundCosts(trace.verify_compute_s / len(stream.read_s), trace.draft_s, trace.projection_s)


def _pruned(trace: RoundTrace, costs: RoundCosts, verify: Mapping[str, float]) -> RoundCosts:
    """The layers computed on the accepted tokens only: as much less as the measured curve says."""
    share = _at(verify, trace.acceptance_length) / _at(verify, trace.nodes_verified)
    return replace(costs, compute_s=costs.compute_s * min(1.0, share))


def _drafted(trace: RoundTrace, costs: RoundCosts, draft: Mapping[str, float]) -> RoundCosts:
    return replace(costs, draft_s=min(costs.draft_s, trace.accepted_tokens * _at(draft, 1)))


def _at(curve: Mapping[str, float], tokens: int) -> float:
    """Seconds of a pass over `tokens`, by a curve of JobResult.plan, which rises beyond its end as over all of it."""
    sizes = np.array(sorted(int(size) for size in curve))
    seconds = np.array([curve[str(size)] for size in sizes])
    return float(np.interp(tokens, sizes, seconds)) * max(1.0, tokens / float(sizes[-1]))


def all_headroom(cells: Sequence[tuple[Measured, float]], target: PackManifest) -> dict[str, list[float]]:
    """Of several cells with their flash bandwidth, MB/s, by figure."""
    found = [headroom(measured, target, bandwidth, prefetch=True) for measured, bandwidth in cells]
    return {name: [one[name] for one in found] for name in (found[0] if found else {})}
