"""A llama, qwen2 or qwen3 model over any weight source: streamed and resident weights take the same path."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Protocol

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

    def only(self, rows: Sequence[int]) -> TokenBatch:
        """The tokens `rows` alone, in their slots; slots that none of them sees are no longer attended to."""
        visible = self.visible[rows]
        n_kv = 1 + int(np.flatnonzero(visible.any(axis=0))[-1])
        return TokenBatch(self.ids[rows], self.positions[rows], self.slots[rows], visible[:, :n_kv])


class Gate(Protocol):
    """Decides between layers which tokens of a pass go on."""

    @property
    def layers(self) -> Collection[int]:
        """Numbers of layers after which it is asked; at most one less than all."""

    def keep(self, layer: int, states: Floats) -> Sequence[int]:
        """Rows of `states` (n, d_model), after `layer` layers, that go on: rising, at least one."""


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
    tokens: int = 0  # that passes read
    compute_s: float = 0.0  # layers and gates between them, without waiting for weights
    projection_s: float = 0.0
    rows_projected: int = 0


class Transformer:
    """Forward passes of one model. Owns its kernels, not its weight source's choice of storage."""

    def __init__(self, source: WeightSource, kernels: Kernels) -> None:
        self.source = source
        self.name = source.manifest.model_name
        self.n_ctx = kernels.n_ctx
        self.counters = PassCounters()
        self.kernels = kernels
        self._layers = source.manifest.hyper.n_layers

    def forward(self, batch: TokenBatch, gate: Gate | None = None) -> Floats:
        """States (n, d_model) after the last layer; of those that `gate` let through. Asks for each layer once, however
        long the batch."""
        states = self.source.embed(batch.ids)
        parts = _parts(states, batch)
        self.source.begin_pass()
        self.counters.passes += 1
        self.counters.tokens += len(states)
        for segment in self._segments(gate.layers if gate else ()):
            with ExitStack() as held:
                bases = [held.enter_context(self.source.layer(index)) for index in segment]
                start = perf_counter()
                for rows in parts or _split(states, batch):
                    self.kernels.run_layers(rows, segment.start, bases)
                self.counters.compute_s += perf_counter() - start
            if gate and segment.stop in gate.layers and segment.stop < self._layers:
                start = perf_counter()
                kept = gate.keep(segment.stop, states)
                if len(kept) < len(states):
                    batch, states = batch.only(kept), states[kept]
                    parts = _parts(states, batch)
                self.counters.compute_s += perf_counter() - start
        return states

    def project(self, states: Floats) -> Floats:
        """Logits (n, n_vocab) of `states` (n, d_model); the array holds until the next call."""
        start = perf_counter()
        logits = self.kernels.project(np.ascontiguousarray(states))
        self.counters.projection_s += perf_counter() - start
        self.counters.rows_projected += len(states)
        return logits

    def project_onto(self, states: Floats, output: TrimmedOutput) -> Floats:
        """Logits (n, output.size) of `states` (n, d_model): a fresh array; columns stand for `output.tokens`."""
        start = perf_counter()
        logits = self.kernels.project_onto(np.ascontiguousarray(states), output.rows)
        self.counters.projection_s += perf_counter() - start
        self.counters.rows_projected += len(states)
        return logits

    def time_layers(self, batches: Sequence[TokenBatch]) -> list[float]:
        """Seconds that the layers compute over each of `batches`, of at most MAX_ROWS tokens, in a single pass."""
        states = [self.source.embed(batch.ids) for batch in batches]
        parts = [next(_split(state, batch)) for state, batch in zip(states, batches, strict=True)]
        seconds = [0.0] * len(batches)
        self.source.begin_pass()
        for segment in self._segments():
            with ExitStack() as held:
                bases = [held.enter_context(self.source.layer(index)) for index in segment]
                for index, rows in enumerate(parts):
                    start = perf_counter()
                    self.kernels.run_layers(rows, segment.start, bases)
                    seconds[index] += perf_counter() - start
        return seconds

    def move_kv(self, source: Slots, destination: Slots) -> None:
        """Copy cached rows between slots, as if all at once."""
        self.kernels.move_kv(source, destination)

    def _segments(self, stops: Collection[int] = ()) -> list[range]:
        """Runs of layers that a graph spans: all up to a stop, or single ones while they are streamed."""
        inner = set(range(1, self._layers)) if not self.source.resident else set(stops) & set(range(1, self._layers))
        ends = [*sorted(inner), self._layers]
        return [range(start, stop) for start, stop in pairwise([0, *ends])]

    def close(self) -> None:
        self.kernels.close()
        self.source.close()


def open_transformer(source: WeightSource, n_ctx: int, threads: int) -> Transformer:
    """A model on the CPU with a KV cache of `n_ctx` tokens; closing it closes `source`."""
    return Transformer(source, GgmlKernels(source.manifest, source.extent, n_ctx, threads, source.layouts))


def _parts(states: Floats, batch: TokenBatch) -> list[Rows] | None:
    """For all layers; None of a long text, whose masks together would take n² memory: made anew for each layer."""
    return [*_split(states, batch)] if len(states) <= MAX_ROWS else None


def _split(states: Floats, batch: TokenBatch) -> Iterator[Rows]:
    for start in range(0, len(states), MAX_ROWS):
        part = slice(start, start + MAX_ROWS)
        yield make_rows(states[part], batch.positions[part], batch.slots[part], batch.visible[part])
