"""Whether an emitted text is what the target itself would say, position by position along that text.

Kernels round differently for different batch sizes, so two logits closer than that noise may swap: a tie. How
large the noise is gets measured, on the model and device at hand, not assumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from device_agent.engine.sampling import greedy
from device_agent.kernels.base import Floats
from device_agent.model.transformer import TokenBatch, Transformer, causal_batch
from device_agent.protocol import ExactnessCount

PROBED = 4  # positions whose logits are compared; each costs one pass of one token
ROWS_AT_ONCE = 8  # projected together, to bound memory


def tie_tolerance(target: Transformer, text: Sequence[int], round_tokens: int) -> float:
    """Largest logit margin that rounding may overturn.

    The last positions of `text` are computed in one pass over the whole text; then again over a cache that two passes
    of half the text filled, in a pass of `round_tokens` and one token at a time. Two logits can move apart by twice
    what one moves, so the tolerance is twice the largest difference that any logit showed.
    """
    n = len(text)
    probed = min(PROBED, n)
    whole = _logits(target, _part(text, 0, n), probed)
    for start, stop in ((0, n // 2), (n // 2, n - probed)):
        if start < stop:
            target.forward(_part(text, start, stop))
    in_round = _logits(target, _part(text, max(0, n - max(probed, round_tokens)), n), probed)
    singly = np.concatenate([_logits(target, _part(text, i, i + 1), 1) for i in range(n - probed, n)])
    return 2 * float(max(np.abs(a - b).max() for a, b in ((whole, in_round), (whole, singly), (in_round, singly))))


def check_exactness(
    target: Transformer, prompt: Sequence[int], output: Sequence[int], tolerance: float
) -> ExactnessCount:
    """Compare `output` with the target's choices in one fresh pass over `prompt` + `output`."""
    gaps = [*_gaps(target, prompt, output)]
    diverged = [i for i, gap in enumerate(gaps) if gap > tolerance]
    exact = sum(gap == 0 for gap in gaps)
    return ExactnessCount(
        exact_tokens=exact,
        tie_tokens=len(gaps) - exact - len(diverged),
        diverged_tokens=len(diverged),
        diverged_at=diverged[0] if diverged else None,
        tie_tolerance=tolerance,
    )


def _gaps(target: Transformer, prompt: Sequence[int], output: Sequence[int]) -> Iterator[float]:
    """For each output token, how far its logit lies below the best one."""
    text = [*prompt, *output[:-1]]
    states = target.forward(causal_batch(text))[len(prompt) - 1 :]
    for start in range(0, len(output), ROWS_AT_ONCE):
        rows = target.project(states[start : start + ROWS_AT_ONCE])
        for row, token in zip(rows, output[start : start + ROWS_AT_ONCE], strict=True):
            yield float(row[greedy(row, target.name).token] - row[token])


def _part(text: Sequence[int], start: int, stop: int) -> TokenBatch:
    """Tokens start..stop of `text`, the ones before them being cached."""
    whole = causal_batch(text)
    part = slice(start, stop)
    return TokenBatch(whole.ids[part], whole.positions[part], whole.slots[part], whole.visible[part, :stop])


def _logits(target: Transformer, batch: TokenBatch, last: int) -> Floats:
    return target.project(target.forward(batch)[-last:]).copy()
