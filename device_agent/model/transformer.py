"""A llama, qwen2 or qwen3 model over any weight source: streamed and resident weights take the same path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from device_agent.kernels.base import MAX_ROWS, Floats, Kernels, Positions, Rows, Slots, Visible, make_rows
from device_agent.kernels.decoder import GgmlKernels
from device_agent.model.source import WeightSource
from device_agent.model.trimmed_output import TrimmedOutput


@dataclass(frozen=True)
class TokenBatch:
    """Tokens for one pass. A token's own slot must be visible to it and comes no later than those that see it."""

    ids: Positions  # (n,)
    positions: Positions  # (n,), as the rotary embedding counts
    slots: Slots  # (n,): KV slots to write
    visible: Visible  # (n, n_kv): which slots each token attends to


def causal_batch(ids: Sequence[int]) -> TokenBatch:
    """A whole text from position 0 in slots 0, 1, …, each token seeing itself and those before it."""
    n = len(ids)
    order = np.arange(n, dtype=np.int64)
    # Row i of a lower triangle is a window of one row of n ones and n-1 zeros: n² entries in 2n-1 bytes.
    visible = np.lib.stride_tricks.sliding_window_view(np.arange(2 * n - 1) < n, n)[::-1]
    return TokenBatch(np.array(ids, np.int32), order.astype(np.int32), order, visible)


@dataclass
class PassCounters:
    """What a model did so far."""

    passes: int = 0
    compute_s: float = 0.0  # layers, without waiting for weights
    projection_s: float = 0.0
    rows_projected: int = 0


class Transformer:
    """Forward passes of one model. Owns its kernels, not its weight source's choice of storage."""

    def __init__(self, source: WeightSource, kernels: Kernels) -> None:
        self.source = source
        self.name = source.manifest.model_name
        self.n_ctx = kernels.n_ctx
        self.counters = PassCounters()
        self._kernels = kernels
        layers = source.manifest.hyper.n_layers
        self._segments = [range(layers)] if source.resident else [range(i, i + 1) for i in range(layers)]

    def forward(self, batch: TokenBatch) -> Floats:
        """States (n, d_model) after the last layer. Each layer is asked for once, however long the batch."""
        states = self.source.embed(batch.ids)
        # A long text's masks are made anew for each layer: all of them at once would take n² memory.
        parts = [*_split(states, batch)] if len(states) <= MAX_ROWS else None
        self.source.begin_pass()
        self.counters.passes += 1
        for segment in self._segments:
            with ExitStack() as held:
                bases = [held.enter_context(self.source.layer(index)) for index in segment]
                start = perf_counter()
                for rows in parts or _split(states, batch):
                    self._kernels.run_layers(rows, segment.start, bases)
                self.counters.compute_s += perf_counter() - start
        return states

    def project(self, states: Floats) -> Floats:
        """Logits (n, n_vocab) of `states` (n, d_model); the array holds until the next call."""
        start = perf_counter()
        logits = self._kernels.project(np.ascontiguousarray(states))
        self.counters.projection_s += perf_counter() - start
        self.counters.rows_projected += len(states)
        return logits

    def project_onto(self, states: Floats, output: TrimmedOutput) -> Floats:
        """Logits (n, output.size) of `states` (n, d_model): a fresh array; columns stand for `output.tokens`."""
        start = perf_counter()
        logits = self._kernels.project_onto(np.ascontiguousarray(states), output.rows)
        self.counters.projection_s += perf_counter() - start
        self.counters.rows_projected += len(states)
        return logits

    def time_layers(self, batches: Sequence[TokenBatch]) -> list[float]:
        """Seconds that the layers compute over each of `batches`, of at most MAX_ROWS tokens, in a single pass."""
        states = [self.source.embed(batch.ids) for batch in batches]
        parts = [next(_split(state, batch)) for state, batch in zip(states, batches, strict=True)]
        seconds = [0.0] * len(batches)
        self.source.begin_pass()
        for segment in self._segments:
            with ExitStack() as held:
                bases = [held.enter_context(self.source.layer(index)) for index in segment]
                for index, rows in enumerate(parts):
                    start = perf_counter()
                    self._kernels.run_layers(rows, segment.start, bases)
                    seconds[index] += perf_counter() - start
        return seconds

    def move_kv(self, source: Slots, destination: Slots) -> None:
        """Copy cached rows between slots, as if all at once."""
        self._kernels.move_kv(source, destination)

    def close(self) -> None:
        self._kernels.close()
        self.source.close()


def open_transformer(source: WeightSource, n_ctx: int, threads: int) -> Transformer:
    """A model on the CPU with a KV cache of `n_ctx` tokens; closing it closes `source`."""
    return Transformer(source, GgmlKernels(source.manifest, source.extent, n_ctx, threads))


def _split(states: Floats, batch: TokenBatch) -> Iterator[Rows]:
    for start in range(0, len(states), MAX_ROWS):
        part = slice(start, start + MAX_ROWS)
        yield make_rows(states[part], batch.positions[part], batch.slots[part], batch.visible[part])
