"""Whether an emitted text is what the target itself would say, position by position along that text.

Kernels round differently for different batch sizes, so two logits closer than that noise may swap: a tie. How
large the noise is gets measured, on the model and device at hand, not assumed; judging.py says what follows from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from device_agent.engine.judging import Judgement, Standing
from device_agent.kernels.base import Floats
from device_agent.model.transformer import TokenBatch, Transformer, causal_batch
from device_agent.protocol import ExactnessCount

PROBED = 4  # positions whose logits are compared; each costs one pass of one token
CANDIDATES = 16  # best logits of a position
ROWS_AT_ONCE = 8  # projected together, to bound memory


def tie_tolerance(target: Transformer, text: Sequence[int], round_tokens: int) -> float:
    """Largest logit margin that rounding may overturn.

    The last positions of `text` are computed in one pass over the whole text; then again over a cache that two passes
    of half the text filled, in a pass of `round_tokens` and one token at a time. Two logits can move apart by twice
    what one moves, so the tolerance is twice the largest difference that a logit showed. Only logits that compete for
    being chosen count: the noisiest of a whole vocabulary, far below the best, says nothing about a tie and would let
    real errors pass as one.
    """
    n = len(text)
    probed = min(PROBED, n)
    whole = _logits(target, _part(text, 0, n), probed)
    for start, stop in ((0, n // 2), (n // 2, n - probed)):
        if start < stop:
            target.forward(_part(text, start, stop))
    in_round = _logits(target, _part(text, max(0, n - max(probed, round_tokens)), n), probed)
    singly = np.concatenate([_logits(target, _part(text, i, i + 1), 1) for i in range(n - probed, n)])
    return 2 * max(_noise(a, b) for a, b in ((whole, in_round), (whole, singly), (in_round, singly)))


def _noise(one: Floats, other: Floats) -> float:
    """Largest difference of a logit that is among a position's best in either of two passes (positions, n_vocab)."""
    count = min(CANDIDATES, one.shape[1])
    best = np.hstack([np.argpartition(-logits, count - 1, axis=1)[:, :count] for logits in (one, other)])
    return float(np.abs(np.take_along_axis(one - other, best, axis=1)).max())


def reference_rows(target: Transformer, prompt: Sequence[int], output: Sequence[int]) -> Iterator[Floats]:
    """The target's logits (n_vocab,) where each of `output` was chosen, in one fresh pass over both texts.

    A row holds until the next one is asked for.
    """
    states = target.forward(causal_batch([*prompt, *output[:-1]]))[len(prompt) - 1 :]
    for start in range(0, len(output), ROWS_AT_ONCE):
        yield from target.project(states[start : start + ROWS_AT_ONCE])


def count_exactness(judgements: Sequence[Judgement], tolerance: float) -> ExactnessCount:
    """One judgement a position."""
    found = [judgement.standing for judgement in judgements]
    return ExactnessCount(
        exact_tokens=found.count(Standing.EXACT),
        tie_tokens=found.count(Standing.TIE),
        diverged_tokens=found.count(Standing.DIVERGED),
        diverged_at=found.index(Standing.DIVERGED) if Standing.DIVERGED in found else None,
        tie_tolerance=tolerance,
    )


def _part(text: Sequence[int], start: int, stop: int) -> TokenBatch:
    """Tokens start..stop of `text`, the ones before them being cached."""
    whole = causal_batch(text)
    part = slice(start, stop)
    return TokenBatch(whole.ids[part], whole.positions[part], whole.slots[part], whole.visible[part, :stop])


def _logits(target: Transformer, batch: TokenBatch, last: int) -> Floats:
    return target.project(target.forward(batch)[-last:]).copy()
