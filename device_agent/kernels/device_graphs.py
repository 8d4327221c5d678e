"""Graphs of one model on a device with memory of its own: fixed shapes, inputs copied in, results copied out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from device_agent.kernels.base import Floats, Halves, OutputRows, Rows, Slots
from device_agent.kernels.block import Inputs, Layer, block
from device_agent.kernels.device_weights import DeviceWeights
from device_agent.kernels.ggml import Array, Tensor, address
from device_agent.kernels.ggml_devices import DeviceGraph, DeviceMemory
from device_agent.kernels.graphs import TENSORS_PER_LAYER, Head, ModelTensors, Span

PLAIN_ATTENTION = 8  # tensors that attention takes more where no fused kernel serves


class DeviceLayersGraph:
    """A run of layers over as many tokens and attended slots as `span` says; batches are padded to that."""

    def __init__(self, device: DeviceMemory, model: ModelTensors, weights: DeviceWeights, span: Span) -> None:
        self.count = span.count
        self._span, self._device, self._weights = span, device, weights
        self._graph = g = DeviceGraph(device, (TENSORS_PER_LAYER + PLAIN_ATTENTION) * span.count + 16)
        self._states = x = g.input("F32", (model.hyper.d_model, span.n))
        positions, slots = g.input("I32", (span.n,)), g.input("I64", (span.n,))
        mask = g.input("F16", (span.n_kv, span.n))
        factors = weights.constant(g, "rope_freqs.weight") if "rope_freqs.weight" in model.named else None
        self._inputs = Inputs(positions, slots, mask, factors)
        self._layers: list[dict[str, Tensor]] = []
        for index in range(span.first, span.first + span.count):
            leaves = {name: g.leaf(spec.ggml_type, spec.shape) for name, spec in model.layers[index].items()}
            self._layers.append(leaves)
            x = block(g, model.hyper, Layer(leaves, *weights.caches(g, index)), self._inputs, x)
        self._result = x
        g.finish_on_device([x])

    def run(self, rows: Rows, bases: Sequence[int]) -> None:
        """Run over `rows`, in place, with the layers' extents at host addresses `bases`."""
        for index, (base, leaves) in enumerate(zip(bases, self._layers, strict=True), start=self._span.first):
            self._weights.place_layer(index, base, leaves)
        n = self._span.n
        _write(self._device, self._states, _padded(rows.states, n))
        _write(self._device, self._inputs.positions, _padded(rows.positions, n))
        _write(self._device, self._inputs.slots, _padded(rows.slots, n, self._weights.spare_slot))
        _write(self._device, self._inputs.mask, _padded_mask(rows.mask, n, self._span.n_kv))
        self._graph.run()
        self._device.read(self._result, rows.states)

    def close(self) -> None:
        self._graph.close()


class DeviceHeadGraph:
    """Final norm and output projection of `head.n` states."""

    count = 1

    def __init__(self, device: DeviceMemory, model: ModelTensors, weights: DeviceWeights, head: Head) -> None:
        self._head, self._device, self._weights = head, device, weights
        self._graph = g = DeviceGraph(device, 16)
        self._states = g.input("F32", (model.hyper.d_model, head.n))
        normed = g.rms_norm(self._states, weights.constant(g, "output_norm.weight"), model.hyper.rms_eps)
        self._rows: tuple[OutputRows, Tensor] | None = None
        if head.rows is None:
            output = weights.constant(g, model.output_name)
        else:
            output = weights.output_rows(g, head.rows)
            self._rows = head.rows, output
        self._logits = g.matmul(output, normed)
        g.finish_on_device([self._logits])

    def run(self, states: Floats, logits: Floats) -> None:
        """Fill `logits` (n, tokens) of `states` (n, d_model)."""
        if self._rows:
            self._weights.refresh(*self._rows)
        _write(self._device, self._states, _padded(states, self._head.n))
        self._graph.run()
        self._device.read(self._logits, logits)

    def close(self) -> None:
        self._graph.close()


@dataclass(frozen=True)
class Moves:
    """What a graph is built for that moves KV rows."""

    n: int


class MoveGraph:
    """Copies `moves.n` KV rows between slots, in all layers."""

    def __init__(self, device: DeviceMemory, model: ModelTensors, weights: DeviceWeights, moves: Moves) -> None:
        self.count = layers = model.hyper.n_layers
        self._n, self._device, self._spare = moves.n, device, weights.spare_slot
        self._graph = g = DeviceGraph(device, 8 * layers + 16)
        self._source, self._destination = g.input("I32", (moves.n,)), g.input("I64", (moves.n,))
        caches = [cache for index in range(layers) for cache in weights.caches(g, index)]
        g.finish_on_device([g.store(cache, g.rows(cache, self._source), self._destination) for cache in caches])

    def run(self, source: Slots, destination: Slots) -> None:
        _write(self._device, self._source, _padded(source.astype(np.int32), self._n, self._spare))
        _write(self._device, self._destination, _padded(destination, self._n, self._spare))
        self._graph.run()

    def close(self) -> None:
        self._graph.close()


def _write(device: DeviceMemory, tensor: Tensor, array: Array) -> None:
    device.write(tensor, address(array), array.nbytes)


def _padded(array: Array, n: int, value: int = 0) -> Array:
    """`array` with rows of `value` added up to `n`."""
    whole = np.full((n, *array.shape[1:]), value, array.dtype)
    whole[: len(array)] = array
    return whole


def _padded_mask(mask: Halves, n: int, n_kv: int) -> Halves:
    """(n, n_kv): rows that are padding see slot 0, so that their softmax is of something."""
    whole = np.full((n, n_kv), -np.inf, np.float16)
    whole[: len(mask), : mask.shape[1]] = mask
    whole[len(mask) :, 0] = 0
    return whole
