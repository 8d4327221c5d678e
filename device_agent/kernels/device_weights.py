"""A model's weights and KV cache in a device's memory: uploaded when first needed, and whenever others lay there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

from device_agent.kernels.base import OutputRows, padded
from device_agent.kernels.ggml import Graph, Tensor
from device_agent.kernels.ggml_devices import Buffer, DeviceMemory
from device_agent.kernels.graphs import ModelTensors


@dataclass
class _Slot:
    """Room for a layer; a ring's slots hold one after another."""

    buffer: Buffer
    layer: int | None = None


class DeviceWeights:
    """One model on `device`. Weights never change, so a layer that lies in a slot already is not copied again."""

    def __init__(self, device: DeviceMemory, model: ModelTensors, n_ctx: int) -> None:
        self._device, self._model = device, model
        self._width = model.hyper.n_kv_heads * model.hyper.head_dim
        self.spare_slot = padded(n_ctx)  # KV that padding writes and nobody attends to
        self._slots: dict[int, _Slot] = {}  # by the host address that layers come from
        self._constants: dict[str, Buffer] = {}
        self._caches: dict[int, Buffer] = {}
        self._outputs: dict[OutputRows, tuple[Buffer, int]] = {}  # and how much of its log was followed
        self.upload_s, self.uploaded_bytes = 0.0, 0

    def place_layer(self, index: int, base: int, leaves: Mapping[str, Tensor]) -> None:
        """Have `leaves` be layer `index`, whose extent lies at host address `base`."""
        offsets, nbytes = self._device.offsets([*leaves.values()])
        slot = self._slots.get(base)
        if slot is None or slot.buffer.nbytes < nbytes:
            if slot is not None:
                slot.buffer.close()
            slot = self._slots[base] = _Slot(self._device.buffer(nbytes))
        for leaf, offset in zip(leaves.values(), offsets, strict=True):
            slot.buffer.hold(leaf, offset)
        if slot.layer != index:
            for name, leaf in leaves.items():
                spec = self._model.layers[index][name]
                self._upload(leaf, base + spec.offset, spec.nbytes)
            slot.layer = index

    def constant(self, g: Graph, name: str) -> Tensor:
        """A tensor outside the layers."""
        spec = self._model.named[name]
        leaf = g.leaf(spec.ggml_type, spec.shape)
        known = self._constants.get(name)
        buffer = self._constants[name] = known or self._device.buffer(self._device.offsets([leaf])[1])
        buffer.hold(leaf, 0)
        if known is None:
            self._upload(leaf, self._model.address(name), spec.nbytes)
        return leaf

    def output_rows(self, g: Graph, rows: OutputRows) -> Tensor:
        """Room for some rows of the output projection; `refresh` fills it."""
        leaf = g.leaf(rows.kind, (self._model.hyper.d_model, rows.count))
        if rows not in self._outputs:
            self._outputs[rows] = self._device.buffer(self._device.offsets([leaf])[1]), -1
        self._outputs[rows][0].hold(leaf, 0)
        return leaf

    def refresh(self, rows: OutputRows, leaf: Tensor) -> None:
        """Copy what their owner has overwritten since the last time."""
        buffer, followed = self._outputs[rows]
        if followed < 0:
            self._upload(leaf, rows.address, rows.count * rows.row_bytes)
        else:
            for row in sorted(set(rows.overwritten[followed:])):
                self._device.write(leaf, rows.address + row * rows.row_bytes, rows.row_bytes, row * rows.row_bytes)
        self._outputs[rows] = buffer, len(rows.overwritten)

    def caches(self, g: Graph, index: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer: F16 (width, slots)."""
        halves = [g.leaf("F16", (self._width, self.spare_slot + 1)) for _ in range(2)]
        offsets, nbytes = self._device.offsets(halves)
        if index not in self._caches:
            self._caches[index] = self._device.buffer(nbytes)
        for half, offset in zip(halves, offsets, strict=True):
            self._caches[index].hold(half, offset)
        return halves[0], halves[1]

    def close(self) -> None:
        slots = (slot.buffer for slot in self._slots.values())
        outputs = (buffer for buffer, _ in self._outputs.values())
        for buffer in (*slots, *outputs, *self._constants.values(), *self._caches.values()):
            buffer.close()

    def _upload(self, leaf: Tensor, source: int, nbytes: int) -> None:
        started = perf_counter()
        self._device.write(leaf, source, nbytes)
        self.upload_s += perf_counter() - started
        self.uploaded_bytes += nbytes
