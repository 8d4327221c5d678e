"""ggml's other devices through ctypes: memory of their own that is written and read by copies."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import ggml

from device_agent.failure import AgentFailure
from device_agent.kernels.binding import type_id
from device_agent.kernels.ggml import Array, Graph, Tensor, address

KINDS = {
    ggml.GGML_BACKEND_DEVICE_TYPE_CPU: "cpu",
    ggml.GGML_BACKEND_DEVICE_TYPE_GPU: "gpu",
    ggml.GGML_BACKEND_DEVICE_TYPE_IGPU: "gpu",
    ggml.GGML_BACKEND_DEVICE_TYPE_ACCEL: "npu",
}
LIBRARY = "GGML_BACKEND_PATH"  # ggml's own variable: a library with one more back end


@dataclass(frozen=True)
class DeviceInfo:
    """An entry of ggml's device list."""

    index: int
    name: str  # CPU, Vulkan0, …
    description: str
    kind: str  # cpu | gpu | npu


def list_devices() -> list[DeviceInfo]:
    """What this ggml can compute on. Raises AgentFailure bad_spec when a back end that was asked for does not load."""
    _load_library()
    found = (_info(index) for index in range(ggml.ggml_backend_dev_count()))
    return [info for info in found if info is not None]


def _info(index: int) -> DeviceInfo | None:
    device = ggml.ggml_backend_dev_get(index)
    kind = KINDS.get(ggml.ggml_backend_dev_type(device))
    name, description = ggml.ggml_backend_dev_name(device), ggml.ggml_backend_dev_description(device)
    return DeviceInfo(index, name.decode(), description.decode(), kind) if kind else None


def free_bytes(info: DeviceInfo) -> int:
    """Of the device's memory, as it says itself."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    ggml.ggml_backend_dev_memory(ggml.ggml_backend_dev_get(info.index), ctypes.byref(free), ctypes.byref(total))
    return free.value


@cache
def _load_library() -> None:
    path = os.environ.get(LIBRARY)
    if path and not ggml.ggml_backend_load(path.encode()):
        raise AgentFailure("bad_spec", f"{LIBRARY}={path} is no back end that ggml {ggml.GGML_VERSION} can load")


class Buffer:
    """Memory of a device, zeroed."""

    def __init__(self, kind: int, nbytes: int, what: str) -> None:
        self.nbytes = nbytes
        self._buffer = ggml.ggml_backend_buft_alloc_buffer(kind, nbytes)
        if not self._buffer:
            raise AgentFailure("out_of_memory", f"{what} has no {nbytes / 1e6:.1f} MB left")
        ggml.ggml_backend_buffer_clear(self._buffer, 0)
        self._base = ggml.ggml_backend_buffer_get_base(self._buffer)

    def hold(self, tensor: Tensor, offset: int) -> None:
        """Have `tensor` lie here."""
        tensor.contents.buffer = self._buffer
        tensor.contents.data = self._base + offset

    def close(self) -> None:
        ggml.ggml_backend_buffer_free(self._buffer)


class DeviceMemory:
    """A ggml device whose tensors are reached by copies alone, whether or not its memory is the host's."""

    def __init__(self, info: DeviceInfo) -> None:
        self.info = info
        self._device = ggml.ggml_backend_dev_get(info.index)
        self._backend = ggml.ggml_backend_dev_init(self._device, None)
        if not self._backend:
            raise AgentFailure("engine_error", f"device {info.name} ({info.description}) does not start")
        self._memory = ggml.ggml_backend_get_default_buffer_type(self._backend)
        if info.kind in ("cpu", "virtual"):
            ggml.ggml_backend_cpu_set_n_threads(self._backend, 1)
            ggml.ggml_backend_cpu_set_use_ref(self._backend, True)  # as kernels.ggml.Device does

    def close(self) -> None:
        ggml.ggml_backend_free(self._backend)

    def allocator(self) -> int:
        """Of a compute buffer."""
        return int(ggml.ggml_gallocr_new(self._memory))

    def buffer(self, nbytes: int) -> Buffer:
        return Buffer(self._memory, nbytes, self.info.name)

    def offsets(self, tensors: Sequence[Tensor]) -> tuple[list[int], int]:
        """Where `tensors` go one after another in a buffer of this device, and its size."""
        step = int(ggml.ggml_backend_buft_get_alignment(self._memory))
        found, end = [], 0
        for tensor in tensors:
            found.append(end)
            end += -(-int(ggml.ggml_backend_buft_get_alloc_size(self._memory, tensor)) // step) * step
        return found, end

    def write(self, tensor: Tensor, source: int, nbytes: int, offset: int = 0) -> None:
        """Copy `nbytes` from host address `source` to `tensor`, from its byte `offset` on."""
        ggml.ggml_backend_tensor_set(tensor, source, offset, nbytes)

    def read(self, tensor: Tensor, into: Array) -> None:
        """Fill `into` (C-contiguous) with the first bytes of `tensor`."""
        ggml.ggml_backend_tensor_get(tensor, address(into), 0, into.nbytes)

    def compute(self, graph: Tensor) -> None:
        status = ggml.ggml_backend_graph_compute(self._backend, graph)
        if status != ggml.GGML_STATUS_SUCCESS:
            raise AgentFailure("engine_error", f"{self.info.name} stopped with status {status}")

    def supports(self, tensor: Tensor) -> bool:
        """Whether the device computes the operation that makes `tensor`."""
        return bool(ggml.ggml_backend_dev_supports_op(self._device, tensor))


class DeviceGraph(Graph):
    """A computation whose tensors all lie on one device, in a compute buffer of its own that never moves."""

    def __init__(self, device: DeviceMemory, max_tensors: int) -> None:
        super().__init__(device, max_tensors)  # type: ignore[arg-type]  # a Graph only computes and places on it
        self._memory = device
        self._allocator = device.allocator()

    def close(self) -> None:
        ggml.ggml_gallocr_free(self._allocator)
        super().close()

    def input(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        """A tensor that is written before each run; the allocator places it."""
        tensor = ggml.ggml_new_tensor(self._context, type_id(kind), len(shape), (ctypes.c_int64 * len(shape))(*shape))
        ggml.ggml_set_input(tensor)
        return tensor

    def finish_on_device(self, results: Sequence[Tensor]) -> None:
        """End the graph with `results`, which can be read after a run, and place it. Raises AgentFailure bad_spec."""
        for result in results:
            ggml.ggml_set_output(result)
            ggml.ggml_build_forward_expand(self._graph, result)
        for index in range(ggml.ggml_graph_n_nodes(self._graph)):
            node = ggml.ggml_graph_node(self._graph, index)
            if not self._memory.supports(node):
                raise AgentFailure("bad_spec", f"{self._memory.info.name} cannot compute {_described(node)}")
        if not ggml.ggml_gallocr_alloc_graph(self._allocator, self._graph):
            raise AgentFailure("out_of_memory", f"{self._memory.info.name} has no memory for a compute buffer")

    def rows(self, cache: Tensor, indices: Tensor) -> Tensor:
        """Rows `indices` of an F16 `cache`, as F32."""
        return ggml.ggml_get_rows(self._context, cache, indices)

    def attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> Tensor:
        fused = super().attention(q, k, v, mask, scale)
        return fused if self._memory.supports(fused) else self._plain_attention(q, k, v, mask, scale)

    def _plain_attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> Tensor:
        """The same, operation by operation: not every driver has what the fused kernel needs."""
        c = self._context
        scores = ggml.ggml_mul_mat(c, k, ggml.ggml_permute(c, q, 0, 2, 1, 3))
        weights = ggml.ggml_soft_max_ext(c, scores, mask, scale, 0.0)
        mixed = ggml.ggml_mul_mat(c, ggml.ggml_cont(c, ggml.ggml_transpose(c, v)), weights)
        return ggml.ggml_cont(c, ggml.ggml_permute(c, mixed, 0, 2, 1, 3))


def _described(node: Tensor) -> str:
    sources = [source.contents for source in node.contents.src if source]
    kinds = ", ".join(ggml.ggml_type_name(source.type).decode() for source in sources)
    return f"{ggml.ggml_op_desc(node).decode()} of {kinds}"
