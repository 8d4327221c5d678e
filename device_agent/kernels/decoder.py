"""The kernels of one model on ggml's CPU backend: cached graphs, KV cache, output projection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from device_agent.kernels.base import Floats, Halves, OutputRows, Rows, Slots, padded
from device_agent.kernels.ggml import Device
from device_agent.kernels.graph_cache import GraphCache
from device_agent.kernels.graphs import Head, HeadGraph, LayersGraph, ModelTensors, Span
from device_agent.protocol import PackManifest


class GgmlKernels:
    """Implements kernels.base.Kernels. `extent` gives the address of the pack's resident extents."""

    upload_s = 0.0
    layer_buckets: tuple[int, ...] = ()
    head_buckets: tuple[int, ...] = ()

    def __init__(
        self,
        manifest: PackManifest,
        extent: Callable[[str], int],
        n_ctx: int,
        threads: int,
        layouts: Mapping[str, str],
    ) -> None:
        self.n_ctx = n_ctx
        self._model = ModelTensors(manifest, extent, layouts)
        self._device = Device(threads)
        hyper = manifest.hyper
        shape = (hyper.n_layers, 2, padded(n_ctx), hyper.n_kv_heads * hyper.head_dim)
        self._cache: Halves = np.zeros(shape, np.float16)
        self._logits: Floats = np.empty((0, hyper.n_vocab), np.float32)
        self._graphs = GraphCache(lambda: self._device.buffer_bytes)

    def run_layers(self, rows: Rows, first: int, bases: Sequence[int]) -> None:
        n, n_kv = rows.mask.shape
        span = Span(first, len(bases), n, n_kv)
        self._graphs.get(span, lambda: LayersGraph(self._device, self._model, self._cache, span)).run(rows, bases)

    def project(self, states: Floats) -> Floats:
        n = len(states)
        if n > len(self._logits):
            self._logits = np.empty((n, self._logits.shape[1]), np.float32)
        head = Head(n)
        self._graphs.get(head, lambda: HeadGraph(self._device, self._model, head)).run(states, self._logits)
        return self._logits[:n]

    def project_onto(self, states: Floats, rows: OutputRows) -> Floats:
        head, logits = Head(len(states), rows), np.empty((len(states), rows.count), np.float32)
        self._graphs.get(head, lambda: HeadGraph(self._device, self._model, head)).run(states, logits)
        return logits

    def move_kv(self, source: Slots, destination: Slots) -> None:
        self._cache[:, :, destination] = self._cache[:, :, source]

    def close(self) -> None:
        self._graphs.clear()
        self._device.close()
