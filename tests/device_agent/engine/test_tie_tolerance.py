"""What counts as noise: differences of logits that could be chosen, between passes of different sizes."""

from typing import Any, cast

import numpy as np
import pytest

from device_agent.engine.exactness import CANDIDATES, PROBED, tie_tolerance
from device_agent.kernels.base import Floats
from device_agent.model.transformer import TokenBatch, Transformer

N_VOCAB = 500
LOGITS = np.linspace(20, -20, N_VOCAB).astype(np.float32)  # token 0 is the best


class NoisyTarget:
    """Its logits for `token` are off by `by` in passes of `rows` tokens."""

    def __init__(self, token: int, by: float, rows: int) -> None:
        self._token, self._by, self._rows = token, by, rows
        self._off = 0.0

    def forward(self, batch: TokenBatch) -> Floats:
        self._off = self._by if len(batch.ids) == self._rows else 0.0
        return np.zeros((len(batch.ids), 1), np.float32)

    def project(self, states: Floats) -> Floats:
        logits = np.repeat(LOGITS[None], len(states), axis=0)
        logits[:, self._token] += self._off
        return logits


def tolerance(token: int, by: float, rows: int) -> float:
    return tie_tolerance(cast(Transformer, cast(Any, NoisyTarget(token, by, rows))), range(40), round_tokens=6)


@pytest.mark.parametrize("rows", [1, 6, 40], ids=["one token", "a round", "the whole text"])
@pytest.mark.parametrize("token", [0, 1, CANDIDATES - 1])
def test_noise_of_a_candidate_counts_twice_whichever_pass_shows_it(token: int, rows: int) -> None:
    assert tolerance(token, 0.01, rows) == pytest.approx(0.02, abs=1e-5)


def test_noise_far_below_the_best_does_not_count() -> None:
    assert tolerance(300, 5.0, 1) == 0.0


def test_a_logit_that_noise_lifts_to_the_top_counts() -> None:
    assert tolerance(300, 60.0, 1) == pytest.approx(120, rel=1e-4)


def test_kernels_that_round_alike_have_no_ties() -> None:
    assert PROBED < 40
    assert tolerance(0, 0.0, 1) == 0.0
