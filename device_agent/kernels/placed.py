"""A model whose layers and output projection run on different backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from device_agent.kernels.base import Floats, Kernels, OutputRows, Rows, Slots


@dataclass(frozen=True)
class PlacedKernels:
    """Implements kernels.base.Kernels; states pass between the two in the host's memory."""

    layers: Kernels
    head: Kernels

    @property
    def n_ctx(self) -> int:
        return self.layers.n_ctx

    @property
    def upload_s(self) -> float:
        return self.layers.upload_s

    @property
    def layer_buckets(self) -> tuple[int, ...]:
        return self.layers.layer_buckets

    @property
    def head_buckets(self) -> tuple[int, ...]:
        return self.head.head_buckets

    def run_layers(self, rows: Rows, first: int, bases: Sequence[int]) -> None:
        self.layers.run_layers(rows, first, bases)

    def project(self, states: Floats) -> Floats:
        return self.head.project(states)

    def project_onto(self, states: Floats, rows: OutputRows) -> Floats:
        return self.head.project_onto(states, rows)

    def move_kv(self, source: Slots, destination: Slots) -> None:
        self.layers.move_kv(source, destination)

    def close(self) -> None:
        self.layers.close()
        self.head.close()
