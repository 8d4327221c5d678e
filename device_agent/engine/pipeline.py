"""How close decoding came to what its plan allows: the model's time for these very rounds ÷ the measured time."""

from __future__ import annotations

from collections.abc import Sequence

from device_agent.engine.outcome import RequestOutcome
from device_agent.pipeline_model import RoundCosts, Stream, total_seconds
from device_agent.protocol import RoundTrace


def pipeline_efficiency(outcomes: Sequence[RequestOutcome], stream: Stream) -> float | None:
    """Modelled ÷ measured seconds of all rounds; None without rounds.

    Drafting, computing and projecting cost what the rounds themselves say, reading what `stream` says: the rest, that
    is waiting for flash beyond the model's and work that no counter covers, is what is lost.
    """
    modelled = sum(total_seconds(stream, [_costs(trace, stream) for trace in o.rounds]) for o in outcomes)
    measured = sum(trace.round_s for outcome in outcomes for trace in outcome.rounds)
    return modelled / measured if measured else None


def _costs(trace: RoundTrace, stream: Stream) -> RoundCosts:
    return RoundCosts(trace.verify_compute_s / len(stream.read_s), trace.draft_s, trace.projection_s)
