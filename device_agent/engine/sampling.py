"""Choosing a token from logits: the best one, or a draw from the tempered and filtered distribution.

A draw inverts the distribution's cumulative sum over token ids at a uniform number that seed, request and position
alone determine. So whoever has the same logits at a position draws the same token, whatever was drafted or verified
before: a drafted tree is followed where it carries the token drawn (sample-and-match), and the text is plain
sampling's under the same seed.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from device_agent.failure import AgentFailure
from device_agent.kernels.base import Floats
from device_agent.protocol import SamplingSpec

Doubles = np.ndarray[Any, np.dtype[np.float64]]

GREEDY = SamplingSpec()
FAR = 100.0  # a margin that no rounding reaches; stands for infinity, which JSON does not know
BLOCK = 256  # tokens of one block in the search for the best few
FIRST_BEST = 256  # of the search for a nucleus, which mostly is small


@dataclass(frozen=True)
class Choice:
    token: int
    margin: float  # RequestResult.margins


class Sampler:
    """The choices of one request."""

    def __init__(self, spec: SamplingSpec, request: str, model: str) -> None:
        self.spec = spec
        self._request = request
        self._model = model

    def choose(self, logits: Floats, index: int) -> Choice:
        """Output token `index` from `logits` (n_vocab,); raises AgentFailure nan_logits naming the model."""
        if self.spec.temperature == 0:
            return greedy(logits, self._model)
        _refuse_nan(int(logits.argmax()), logits, self._model)
        scaled = tempered(logits, self.spec.temperature)
        return _drawn(scaled, threshold(scaled, self.spec), self.uniform(index), self.spec.temperature)

    def uniform(self, index: int) -> float:
        """In (0, 1), of output token `index`: 52 bits of a hash, the same on every machine."""
        key = f"{self.spec.seed}/{index}/{self._request}".encode()
        bits = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") >> 12
        return (bits + 0.5) / 2**52


def check_sampling(spec: SamplingSpec) -> None:
    """Raises AgentFailure bad_spec for values outside their ranges."""
    ranges = {"temperature": (0, 100), "top_k": (0, math.inf), "top_p": (1e-6, 1), "min_p": (0, 1)}
    for name, (low, high) in ranges.items():
        if not low <= getattr(spec, name) <= high:
            raise AgentFailure("bad_spec", f"sampling.{name}={getattr(spec, name)} is not within {low} to {high}")


def greedy(logits: Floats, model: str) -> Choice:
    """The best of `logits` (n_vocab,), the lowest id on a draw; raises AgentFailure nan_logits naming the model."""
    best = int(logits.argmax())  # NaN, if any, is the maximum to numpy
    _refuse_nan(best, logits, model)
    top = float(logits[best])
    logits[best] = -np.inf
    second = float(logits.max())
    logits[best] = top
    return Choice(best, top - second)


def tempered(logits: Floats, temperature: float) -> Doubles:
    """Logarithms of relative probabilities (n_vocab,); the best token has 0."""
    scaled: Doubles = (logits - logits.max()).astype(np.float64) / temperature
    return scaled


def threshold(scaled: Doubles, spec: SamplingSpec) -> float:
    """The value of `scaled` from which on tokens are kept; equal ones are kept together."""
    floor = math.log(spec.min_p) if spec.min_p else -math.inf
    if 0 < spec.top_k < len(scaled):
        worst = float(np.partition(scaled, -spec.top_k)[-spec.top_k])
        scaled, floor = scaled[scaled >= worst], max(floor, worst)
    return max(floor, _nucleus(scaled, spec.top_p)) if spec.top_p < 1 else floor


def top_tokens(logits: Floats, count: int) -> tuple[tuple[int, float], ...]:
    """The `count` best (token, logit) of `logits` (n_vocab,), best first, the lower id on a draw.

    The best few lie in the best few blocks, which a vectorised maximum finds, faster than partitioning everything.
    """
    count = min(count, len(logits))
    whole = len(logits) // BLOCK
    rest = np.arange(whole * BLOCK, len(logits))
    blocks = np.argsort(-logits[: whole * BLOCK].reshape(whole, BLOCK).max(axis=1), kind="stable")[:count]
    ids = np.concatenate([(blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel(), rest])
    best = ids[np.lexsort((ids, -logits[ids]))[:count]]
    return tuple((int(i), float(logits[i])) for i in best)


def likely_tokens(logits: Floats, count: int, probabilities: bool, model: str) -> tuple[tuple[int, float | None], ...]:
    """The `count` best tokens of `logits` (n_vocab,), best first, with their softmax if `probabilities` are wanted.

    Raises AgentFailure nan_logits naming the model.
    """
    _refuse_nan(int(logits.argmax()), logits, model)  # anywhere: a damaged row is not the best one
    best = top_tokens(logits, count)
    if not probabilities:
        return tuple((token, None) for token, _ in best)
    log_sum = log_sum_exp(logits)
    return tuple((token, math.exp(logit - log_sum)) for token, logit in best)


def log_sum_exp(logits: Floats) -> float:
    best = float(logits.max())
    return best + math.log(float(np.exp(logits - best).sum()))


def _drawn(scaled: Doubles, kept_from: float, uniform: float, temperature: float) -> Choice:
    ids = np.flatnonzero(scaled >= kept_from)
    sums = np.cumsum(np.exp(scaled[ids]))
    total = float(sums[-1])
    at = min(int(np.searchsorted(sums, uniform * total, side="right")), len(ids) - 1)
    before, through = float(sums[at - 1]) if at else 0.0, float(sums[at])
    here = log_odds(uniform)
    margin = min(here - log_odds(before / total), log_odds(through / total) - here)
    return Choice(int(ids[at]), max(0.0, min(temperature * margin, FAR)))


def log_odds(share: float) -> float:
    """-inf at 0, inf at 1. Moving two logits apart by x moves the log odds of any set of tokens by at most x ÷ T."""
    if not 0 < share < 1:
        return math.inf if share >= 1 else -math.inf
    return math.log(share / (1 - share))


def _nucleus(scaled: Doubles, top_p: float) -> float:
    """Value of the last of the fewest best tokens whose probabilities sum to `top_p` of all."""
    weights = np.exp(scaled)
    wanted, size = top_p * float(weights.sum()), min(FIRST_BEST, len(scaled))
    while True:
        best = np.sort(np.partition(scaled, -size)[-size:])[::-1]
        at = int(np.searchsorted(np.cumsum(np.exp(best)), wanted))
        if at < size or size == len(scaled):
            return float(best[min(at, size - 1)])
        size = min(16 * size, len(scaled))


def _refuse_nan(best: int, logits: Floats, model: str) -> None:
    top = float(logits[best])
    if not np.isfinite(top):
        raise AgentFailure("nan_logits", f"{model}: the logit of token {best} is {top}; its pack may be damaged")
