"""What a transformer needs of its kernels: run decoder layers over a batch, project states, move cached rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]
Halves = np.ndarray[Any, np.dtype[np.float16]]
Positions = np.ndarray[Any, np.dtype[np.int32]]
Slots = np.ndarray[Any, np.dtype[np.int64]]
Visible = np.ndarray[Any, np.dtype[np.bool_]]

MAX_ROWS = 63  # tokens of one kernel call; from 64 on, ggml attends by tiles in half precision, which rounds coarsely
KV_STEP = 128  # attended slots are padded to a multiple, so that a graph serves many lengths


def padded(n_kv: int) -> int:
    """`n_kv` rounded up to what the kernels attend to."""
    return -(-n_kv // KV_STEP) * KV_STEP


@dataclass(frozen=True)
class Rows:
    """At most MAX_ROWS tokens on their way through the layers. All arrays are C-contiguous."""

    states: Floats  # (n, d_model), overwritten by each run
    positions: Positions  # (n,)
    slots: Slots  # (n,): KV slots that the tokens are written to
    mask: Halves  # (n, padded n_kv): 0 where token i sees slot j, else -inf


def make_rows(states: Floats, positions: Positions, slots: Slots, visible: Visible) -> Rows:
    """Rows over views of `states` (n, d_model), with the additive mask of `visible` (n, n_kv)."""
    n, n_kv = visible.shape
    mask = np.full((n, padded(n_kv)), -np.inf, np.float16)
    mask[:, :n_kv][visible] = 0
    return Rows(states, positions, slots, mask)


@dataclass(frozen=True)
class OutputRows:
    """Some rows of the output projection, one after another in memory that their owner keeps in place."""

    kind: str  # tensor type
    count: int
    address: int
    row_bytes: int  # by rows
    layout: str = "rows"  # kernels.layouts
    overwritten: list[int] = field(default_factory=list, compare=False)  # rows, as their owner replaced them


class Kernels(Protocol):
    """One model on one device, with its KV cache of `n_ctx` slots."""

    @property
    def n_ctx(self) -> int:
        """KV slots."""

    @property
    def upload_s(self) -> float:
        """Seconds that copying layers to the device took so far."""

    @property
    def layer_buckets(self) -> tuple[int, ...]:
        """Tokens that batches are padded to; empty: any number."""

    @property
    def head_buckets(self) -> tuple[int, ...]:
        """Rows that projections are padded to; empty: any number."""

    def run_layers(self, rows: Rows, first: int, bases: Sequence[int]) -> None:
        """Run layers first, first+1, … whose extents lie at `bases` over `rows.states`, in place."""

    def project(self, states: Floats) -> Floats:
        """Logits (n, n_vocab) of `states` (n, d_model); the array holds until the next call."""

    def project_onto(self, states: Floats, rows: OutputRows) -> Floats:
        """Logits (n, rows.count) of `states` (n, d_model): a fresh array."""

    def move_kv(self, source: Slots, destination: Slots) -> None:
        """Copy the cached keys and values of `source` slots to `destination` slots, in all layers, at once."""

    def close(self) -> None: ...
