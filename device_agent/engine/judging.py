"""Whether an emitted token is the target's own choice, given the target's logits there from another pass.

Rounding moves logits: two of them by up to `tolerance` apart (exactness.tie_tolerance). A token that the logits at
hand do not choose is a tie if logits within that tolerance of them could have chosen it, else the text diverged.

Greedy: its logit lies at most `tolerance` below the best. Sampled: the draw's uniform number u is known, so the
question is whether some shift puts u into the token's span of the cumulative distribution. The log odds of a set of
tokens move by at most ε = tolerance ÷ temperature. A filter keeps a token for certain that beats the best one it
leaves out by ε, and possibly one that misses the last one it keeps by no more than ε, where top-p's share is itself
taken at odds ε lower and higher. Sums over the tokens kept for certain and over those possibly kept bound both ends
of the span. That is a superset of what rounding can do: a fault that shifts a draw by less than rounding might passes
as a tie, which is why ties are counted apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from device_agent.engine.sampling import Doubles, Sampler, log_odds, tempered, threshold
from device_agent.kernels.base import Floats
from device_agent.protocol import SamplingSpec

Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Standing(Enum):
    EXACT = "exact"
    TIE = "tie"
    DIVERGED = "diverged"


@dataclass(frozen=True)
class Judgement:
    standing: Standing
    sure: bool  # no other token could have been chosen within the tolerance


def judge(sampler: Sampler, logits: Floats, index: int, token: int, tolerance: float) -> Judgement:
    """`token`, emitted as number `index`, against the target's `logits` (n_vocab,). Raises AgentFailure nan_logits."""
    choice = sampler.choose(logits, index)
    if sampler.spec.temperature == 0:
        gap = float(logits[choice.token] - logits[token])
        return Judgement(_standing(gap == 0, gap <= tolerance), choice.margin > tolerance)
    possible, sure = _span(sampler.spec, logits, token, sampler.uniform(index), tolerance)
    return Judgement(_standing(choice.token == token, possible), sure)


def _standing(chosen: bool, possible: bool) -> Standing:
    if chosen:
        return Standing.EXACT
    return Standing.TIE if possible else Standing.DIVERGED


def _span(spec: SamplingSpec, logits: Floats, token: int, uniform: float, tolerance: float) -> tuple[bool, bool]:
    """Whether the draw could be `token`, and whether it must be."""
    slack = tolerance / spec.temperature
    scaled = tempered(logits, spec.temperature)
    certain = _kept_for_certain(spec, scaled, slack)
    possible = scaled >= threshold(scaled, replace(spec, top_p=_shifted(spec.top_p, slack))) - slack
    weights = np.exp(scaled)
    before, through = (_log_odds_range(weights, certain, possible, end, slack) for end in (token, token + 1))
    here = log_odds(uniform)
    could = bool(possible[token]) and before[0] <= here <= through[1]
    return could, bool(certain[token]) and before[1] <= here <= through[0]


def _kept_for_certain(spec: SamplingSpec, scaled: Doubles, slack: float) -> Mask:
    """Tokens that beat the first one left out, by rank or by min-p, by `slack`."""
    ranked_from = threshold(scaled, replace(spec, min_p=0.0, top_p=_shifted(spec.top_p, -slack)))
    left_out = float(scaled[scaled < ranked_from].max(initial=-math.inf))
    floor = math.log(spec.min_p) if spec.min_p else -math.inf
    return np.asarray(scaled >= max(left_out, floor) + slack, np.bool_)


def _log_odds_range(weights: Doubles, certain: Mask, possible: Mask, end: int, slack: float) -> tuple[float, float]:
    """Least and most that the log odds of drawing an id below `end` can be."""
    least, most = float(weights[:end][certain[:end]].sum()), float(weights[:end][possible[:end]].sum())
    least_rest, most_rest = float(weights[end:][certain[end:]].sum()), float(weights[end:][possible[end:]].sum())
    return _log_ratio(least, most_rest) - slack, _log_ratio(most, least_rest) + slack


def _log_ratio(part: float, rest: float) -> float:
    if part and rest:
        return math.log(part / rest)
    return math.inf if part else -math.inf  # nothing on either side: nobody asks


def _shifted(share: float, slack: float) -> float:
    """`share` with its log odds moved by `slack`; 1 stays 1."""
    if share >= 1:
        return 1.0
    return 1 / (1 + math.exp(min(700.0, -log_odds(share) - slack)))
