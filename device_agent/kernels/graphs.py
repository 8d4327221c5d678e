"""Reusable graphs of one model: a run of layers, and the output projection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from device_agent.kernels.base import Floats, Halves, OutputRows, Rows
from device_agent.kernels.block import Inputs, Layer, block
from device_agent.kernels.ggml import Device, Graph, Tensor, address
from device_agent.kernels.layouts import ROWS
from device_agent.protocol import PackManifest, TensorSpec

TENSORS_PER_LAYER = 72  # a qwen2 or qwen3 layer makes 42, and 3 more for each product in steps


class ModelTensors:
    """The manifest's tensors by where graphs need them. `extent` gives the address of a resident extent, `layouts` how
    tensors lie that do not lie by rows."""

    def __init__(self, manifest: PackManifest, extent: Callable[[str], int], layouts: Mapping[str, str]) -> None:
        self.hyper = manifest.hyper
        self.named = {spec.name: spec for spec in manifest.tensors}
        self.layers: list[dict[str, TensorSpec]] = [{} for _ in range(manifest.hyper.n_layers)]
        for spec in manifest.tensors:
            if spec.name.startswith("blk."):
                _, index, name = spec.name.split(".", 2)
                self.layers[int(index)][name] = spec
        self.output_name = manifest.output.name
        self._extent, self._layouts = extent, layouts

    def address(self, name: str) -> int:
        """Of a tensor outside the layers."""
        return self._extent(self.named[name].extent) + self.named[name].offset

    def leaf(self, g: Graph, name: str) -> Tensor:
        spec = self.named[name]
        return g.leaf(spec.ggml_type, spec.shape, self.address(name), self.layout(name))

    def layout(self, name: str) -> str:
        return self._layouts.get(name, ROWS)

    def rope_factors(self, g: Graph) -> Tensor | None:
        return self.leaf(g, "rope_freqs.weight") if "rope_freqs.weight" in self.named else None

    def output(self, g: Graph, rows: OutputRows | None) -> Tensor:
        if rows is not None:
            return g.leaf(rows.kind, (self.hyper.d_model, rows.count), rows.address, rows.layout)
        return self.leaf(g, self.output_name)


@dataclass(frozen=True)
class Span:
    """What a layers graph is built for: layers first … first+count-1, `n` tokens, `n_kv` attended slots."""

    first: int
    count: int
    n: int
    n_kv: int


class LayersGraph:
    """A run of layers over `cache` (layers, 2, slots, width)."""

    def __init__(self, device: Device, model: ModelTensors, cache: Halves, span: Span) -> None:
        self.count = span.count
        self._graph = g = Graph(device, TENSORS_PER_LAYER * span.count + 16)
        self._states = x = g.leaf("F32", (model.hyper.d_model, span.n))
        positions, slots, mask = g.leaf("I32", (span.n,)), g.leaf("I64", (span.n,)), g.leaf("F16", (span.n_kv, span.n))
        self._inputs = Inputs(positions, slots, mask, model.rope_factors(g))
        self._weights: list[list[tuple[Tensor, int]]] = []
        for index in range(span.first, span.first + span.count):
            specs = model.layers[index]
            weights = {
                name: g.leaf(spec.ggml_type, spec.shape, layout=model.layout(spec.name)) for name, spec in specs.items()
            }
            self._weights.append([(weights[name], spec.offset) for name, spec in specs.items()])
            keys, values = (g.leaf("F16", half.shape[::-1], address(half)) for half in cache[index])
            x = block(g, model.hyper, Layer(weights, keys, values), self._inputs, x)
        self._result = x
        self._bases: list[int] = []
        g.finish(x)

    def run(self, rows: Rows, bases: Sequence[int]) -> None:
        """Run over `rows`, in place, with the layers' extents at `bases`."""
        self._point_inputs(rows)
        if bases != self._bases:
            self._bases = list(bases)
            for base, weights in zip(bases, self._weights, strict=True):
                for tensor, offset in weights:
                    Graph.point(tensor, base + offset)
        self._graph.run()

    def _point_inputs(self, rows: Rows) -> None:
        Graph.point(self._states, address(rows.states))
        Graph.point(self._result, address(rows.states))  # the states were read long before the last sum is written
        Graph.point(self._inputs.positions, address(rows.positions))
        Graph.point(self._inputs.slots, address(rows.slots))
        Graph.point(self._inputs.mask, address(rows.mask))

    def close(self) -> None:
        self._graph.close()


@dataclass(frozen=True)
class Head:
    """What a head graph is built for: `n` states, onto all tokens or some."""

    n: int
    rows: OutputRows | None = None


class HeadGraph:
    """Final norm and output projection."""

    count = 1

    def __init__(self, device: Device, model: ModelTensors, head: Head) -> None:
        self._graph = g = Graph(device, 16)
        self._states = g.leaf("F32", (model.hyper.d_model, head.n))
        normed = g.rms_norm(self._states, model.leaf(g, "output_norm.weight"), model.hyper.rms_eps)
        self._logits = g.matmul(model.output(g, head.rows), normed)
        g.finish(self._logits)

    def run(self, states: Floats, logits: Floats) -> None:
        Graph.point(self._states, address(states))
        Graph.point(self._logits, address(logits))
        self._graph.run()

    def close(self) -> None:
        self._graph.close()
