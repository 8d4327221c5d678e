"""The kernels of one model on ggml's CPU backend: cached graphs, KV cache, output projection."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from device_agent.kernels.base import Floats, Halves, OutputRows, Rows, Slots, padded
from device_agent.kernels.ggml import Device
from device_agent.kernels.graphs import Head, HeadGraph, LayersGraph, ModelTensors, Span
from device_agent.protocol import PackManifest

CACHED_LAYERS = 512  # graphs kept, counted in layers (some 20 KB each)

AnyGraph = TypeVar("AnyGraph", HeadGraph, LayersGraph)


class GgmlKernels:
    """Implements kernels.base.Kernels. `extent` gives the address of the pack's resident extents."""

    def __init__(self, manifest: PackManifest, extent: Callable[[str], int], n_ctx: int, threads: int) -> None:
        self.n_ctx = n_ctx
        self._model = ModelTensors(manifest, extent)
        self._device = Device(threads)
        hyper = manifest.hyper
        shape = (hyper.n_layers, 2, padded(n_ctx), hyper.n_kv_heads * hyper.head_dim)
        self._cache: Halves = np.zeros(shape, np.float16)
        self._logits: Floats = np.empty((0, hyper.n_vocab), np.float32)
        self._graphs: OrderedDict[Span | Head, HeadGraph | LayersGraph] = OrderedDict()

    def run_layers(self, rows: Rows, first: int, bases: Sequence[int]) -> None:
        n, n_kv = rows.mask.shape
        span = Span(first, len(bases), n, n_kv)
        self._cached(span, lambda: LayersGraph(self._device, self._model, self._cache, span)).run(rows, bases)

    def project(self, states: Floats) -> Floats:
        n = len(states)
        if n > len(self._logits):
            self._logits = np.empty((n, self._logits.shape[1]), np.float32)
        head = Head(n)
        self._cached(head, lambda: HeadGraph(self._device, self._model, head)).run(states, self._logits)
        return self._logits[:n]

    def project_onto(self, states: Floats, rows: OutputRows) -> Floats:
        head, logits = Head(len(states), rows), np.empty((len(states), rows.count), np.float32)
        self._cached(head, lambda: HeadGraph(self._device, self._model, head)).run(states, logits)
        return logits

    def move_kv(self, source: Slots, destination: Slots) -> None:
        self._cache[:, :, destination] = self._cache[:, :, source]

    def close(self) -> None:
        self._drop_graphs()
        self._device.close()

    def _cached(self, key: Span | Head, build: Callable[[], AnyGraph]) -> AnyGraph:
        graph = self._graphs.get(key)
        if graph is None:
            graph = self._graphs[key] = self._built(build)
        self._graphs.move_to_end(key)
        return graph  # type: ignore[return-value]  # a Head is of a head graph, a Span of a layers graph

    def _built(self, build: Callable[[], AnyGraph]) -> AnyGraph:
        buffer_bytes = self._device.buffer_bytes
        graph = build()
        if self._device.buffer_bytes != buffer_bytes:
            self._drop_graphs()  # the compute buffer moved under them
        while sum(kept.count for kept in self._graphs.values()) > CACHED_LAYERS:
            self._graphs.popitem(last=False)[1].close()
        return graph

    def _drop_graphs(self) -> None:
        for graph in self._graphs.values():
            graph.close()
        self._graphs.clear()
