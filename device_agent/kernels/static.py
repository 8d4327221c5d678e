"""The kernels of one model on a device with static shapes: batches are padded to buckets, a graph is built for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from device_agent.kernels.base import KV_STEP, MAX_ROWS, Floats, OutputRows, Rows, Slots, padded
from device_agent.kernels.device_graphs import DeviceHeadGraph, DeviceLayersGraph, MoveGraph, Moves
from device_agent.kernels.device_weights import DeviceWeights
from device_agent.kernels.ggml_devices import DeviceMemory
from device_agent.kernels.graph_cache import GraphCache
from device_agent.kernels.graphs import Head, ModelTensors, Span
from device_agent.protocol import PackManifest

BUCKETS = (1, 2, 4, 8, 16, 32, MAX_ROWS)  # tokens of a batch
HEAD_BUCKETS = (1, 2, 4, 8, 16)  # rows of a projection; more go one bucket after another


def bucket(n: int) -> int:
    """The least bucket that takes `n`, at most MAX_ROWS."""
    return next(size for size in BUCKETS if size >= n)


def kv_bucket(n_kv: int, slots: int) -> int:
    """Attended slots by doublings of KV_STEP, at most `slots`: a few shapes for any length of text."""
    size = KV_STEP
    while size < n_kv:
        size *= 2
    return min(size, slots)


class StaticKernels:
    """Implements kernels.base.Kernels on `device`, which it closes. `extent` gives host addresses of extents."""

    layer_buckets, head_buckets = BUCKETS, HEAD_BUCKETS

    def __init__(self, manifest: PackManifest, extent: Callable[[str], int], n_ctx: int, device: DeviceMemory) -> None:
        self.n_ctx = n_ctx
        self.device = device
        self._model = ModelTensors(manifest, extent, {})
        self._weights = DeviceWeights(device, self._model, n_ctx)
        self.graphs = GraphCache()

    @property
    def upload_s(self) -> float:
        return self._weights.upload_s

    @property
    def uploaded_bytes(self) -> int:
        """Of weights, so far."""
        return self._weights.uploaded_bytes

    def run_layers(self, rows: Rows, first: int, bases: Sequence[int]) -> None:
        n, n_kv = rows.mask.shape
        span = Span(first, len(bases), bucket(n), kv_bucket(n_kv, padded(self.n_ctx)))
        graph = self.graphs.get(span, lambda: DeviceLayersGraph(self.device, self._model, self._weights, span))
        graph.run(rows, bases)

    def project(self, states: Floats) -> Floats:
        return self._project(states, None, self._model.hyper.n_vocab)

    def project_onto(self, states: Floats, rows: OutputRows) -> Floats:
        return self._project(states, rows, rows.count)

    def move_kv(self, source: Slots, destination: Slots) -> None:
        # Branches move towards the text: a later part lies past whatever an earlier one writes.
        for start in range(0, len(source), MAX_ROWS):
            part = slice(start, start + MAX_ROWS)
            self._move_graph(Moves(bucket(len(source[part])))).run(source[part], destination[part])

    def close(self) -> None:
        self.graphs.clear()
        self._weights.close()
        self.device.close()

    def _project(self, states: Floats, rows: OutputRows | None, columns: int) -> Floats:
        logits = np.empty((len(states), columns), np.float32)
        for start in range(0, len(states), HEAD_BUCKETS[-1]):
            part = slice(start, start + HEAD_BUCKETS[-1])
            self._head_graph(Head(bucket(len(states[part])), rows)).run(states[part], logits[part])
        return logits

    def _head_graph(self, head: Head) -> DeviceHeadGraph:
        return self.graphs.get(head, lambda: DeviceHeadGraph(self.device, self._model, self._weights, head))

    def _move_graph(self, moves: Moves) -> MoveGraph:
        return self.graphs.get(moves, lambda: MoveGraph(self.device, self._model, self._weights, moves))
