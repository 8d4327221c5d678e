"""How close decoding came to what costs and plan allow: the model's time for these very rounds ÷ the measured time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from device_agent.engine.costs import CostCurve
from device_agent.engine.outcome import RequestOutcome
from device_agent.pipeline_model import RoundCosts, Stream, total_seconds
from device_agent.protocol import CostCalibration, RoundTrace

CostsOf = Callable[[RoundTrace], RoundCosts]


def pipeline_efficiency(outcomes: Sequence[RequestOutcome], stream: Stream, costs_of: CostsOf) -> float | None:
    """Modelled ÷ measured seconds of all rounds; None without rounds.

    Reading costs what `stream` says, all else what `costs_of` says of a round's tree: what is lost is waiting for flash
    beyond the model's, slower computing than was calibrated, and work that no cost covers.
    """
    modelled = sum(total_seconds(stream, map(costs_of, outcome.rounds)) for outcome in outcomes)
    measured = sum(trace.round_s for outcome in outcomes for trace in outcome.rounds)
    return modelled / measured if measured else None


def own_costs(layers: int) -> CostsOf:
    """Where nothing is calibrated: rounds cost what they themselves say, so only waiting and overhead are lost."""
    return lambda trace: RoundCosts(trace.verify_compute_s / layers, trace.draft_s, trace.projection_s)


@dataclass(frozen=True)
class CalibratedCosts:
    """What a round's tree costs by calibrated curves. `drafted`: share of the vocabulary that drafts come from."""

    known: CostCalibration
    layers: int
    drafted: float = 1.0

    def __call__(self, trace: RoundTrace) -> RoundCosts:
        known, passes = self.known, trace.draft_passes
        verify_s = CostCurve.of(known.verify).of_one(trace.nodes_verified, trace.n_kv)
        if trace.nodes_pruned:  # how many tokens each layer saw is not known
            verify_s = min(verify_s, trace.verify_compute_s)
        draft_s = 0.0
        if passes:
            draft_s = passes * CostCurve.of(known.draft).of_one(trace.draft_tokens / passes, trace.n_kv)
            draft_s += passes * self.drafted * CostCurve.of(known.draft_project).of_one(trace.draft_rows / passes)
        project_s = CostCurve.of(known.project).of_one(trace.rows_projected)
        return RoundCosts(verify_s / self.layers, draft_s, project_s)
