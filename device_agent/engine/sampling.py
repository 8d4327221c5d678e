"""Choosing a token from logits. Greedy so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from device_agent.failure import AgentFailure
from device_agent.kernels.base import Floats


@dataclass(frozen=True)
class Choice:
    token: int
    margin: float  # best minus second logit


def greedy(logits: Floats, model: str) -> Choice:
    """The best of `logits` (n_vocab,), the lowest id on a draw; raises AgentFailure nan_logits naming the model."""
    best = int(logits.argmax())  # NaN, if any, is the maximum to numpy
    top = float(logits[best])
    if not np.isfinite(top):
        raise AgentFailure("nan_logits", f"{model}: the logit of token {best} is {top}; its pack may be damaged")
    logits[best] = -np.inf
    second = float(logits.max())
    logits[best] = top
    return Choice(best, top - second)


def top_tokens(logits: Floats, count: int) -> tuple[tuple[int, float], ...]:
    """The `count` best (token, logit) of `logits` (n_vocab,), best first."""
    ids = np.argpartition(-logits, count - 1)[:count]
    return tuple((int(i), float(logits[i])) for i in ids[np.argsort(-logits[ids], kind="stable")])
