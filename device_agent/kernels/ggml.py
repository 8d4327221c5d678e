"""ggml through ctypes: graphs are built once, re-pointed at other memory and rerun. No pointer of theirs leaves."""

from __future__ import annotations

import ctypes
from typing import Any

import ggml
import numpy as np

from device_agent.failure import AgentFailure
from device_agent.kernels.base import Floats
from device_agent.kernels.binding import type_id
from device_agent.kernels.layouts import ROWS, batch_step, mark
from device_agent.protocol import HyperParams

Tensor = Any  # a pointer to ggml_tensor; opaque outside this file
Array = np.ndarray[Any, np.dtype[Any]]


def address(array: Array) -> int:
    """Where the array's first element lies; the caller keeps the array alive."""
    return int(array.ctypes.data)


def dequantize(kind: str, raw: np.ndarray[Any, np.dtype[np.uint8]]) -> Floats:
    """Rows of tensor bytes `raw` (n, bytes per row) as float32 (n, columns); raises AgentFailure bad_spec."""
    if kind == "F32":
        return np.array(raw.view(np.float32))
    raw = np.ascontiguousarray(raw)
    traits = ggml.ggml_get_type_traits(type_id(kind)).contents
    columns = raw.shape[1] // traits.type_size * traits.blck_size
    out = np.empty((raw.shape[0], columns), np.float32)
    traits.to_float(raw.ctypes.data, out.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), out.size)
    return out


class Device:
    """The CPU backend and one compute buffer for all graphs of a model, which never run at the same time."""

    def __init__(self, threads: int) -> None:
        self._backend = ggml.ggml_backend_cpu_init()
        ggml.ggml_backend_cpu_set_n_threads(self._backend, threads)
        # Otherwise attention sums in another order and precision for 1, 2 to 63 and 64 tokens, and verifying a batch
        # would not give the logits of decoding token by token.
        ggml.ggml_backend_cpu_set_use_ref(self._backend, True)
        self._allocator = ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(self._backend))

    @property
    def buffer_bytes(self) -> int:
        """Size of the compute buffer; when it grows it moves, and graphs placed before are void."""
        return int(ggml.ggml_gallocr_get_buffer_size(self._allocator, 0))

    def place(self, graph: Tensor) -> None:
        if not ggml.ggml_gallocr_alloc_graph(self._allocator, graph):
            raise AgentFailure("out_of_memory", f"no memory for a compute buffer above {self.buffer_bytes} bytes")

    def compute(self, graph: Tensor) -> None:
        status = ggml.ggml_backend_graph_compute(self._backend, graph)
        if status != ggml.GGML_STATUS_SUCCESS:
            raise AgentFailure("engine_error", f"ggml stopped with status {status}")

    def close(self) -> None:
        ggml.ggml_gallocr_free(self._allocator)
        ggml.ggml_backend_free(self._backend)


class Graph:
    """A computation over tensors of our own memory; intermediate results lie in the device's buffer."""

    def __init__(self, device: Device, max_tensors: int) -> None:
        self._device = device
        self._steps: dict[int, int] = {}  # of weights that multiply batches in steps, by their tensor
        size = max_tensors * ggml.ggml_tensor_overhead() + ggml.ggml_graph_overhead_custom(max_tensors, False)
        self._context = ggml.ggml_init(ggml.ggml_init_params(mem_size=size, mem_buffer=None, no_alloc=True))
        self._graph = ggml.ggml_new_graph_custom(self._context, max_tensors, False)

    def close(self) -> None:
        ggml.ggml_free(self._context)

    def leaf(self, kind: str, shape: tuple[int, ...], at: int | None = None, layout: str = ROWS) -> Tensor:
        """A tensor of memory at address `at`; `shape` in ggml's order. Without `at`, point it before running."""
        sizes = (ctypes.c_int64 * len(shape))(*shape)
        tensor = ggml.ggml_new_tensor(self._context, type_id(kind), len(shape), sizes)
        tensor.contents.data = at if at is not None else 1  # any address keeps the allocator away from it
        if layout != ROWS:
            mark(tensor, layout)
            self._steps[ctypes.addressof(tensor.contents)] = batch_step(layout)
        return tensor

    @staticmethod
    def point(tensor: Tensor, at: int) -> None:
        tensor.contents.data = at

    def finish(self, result: Tensor) -> None:
        """End the graph with `result`, which is written where a later `point` says, and place it."""
        result.contents.data = 1
        ggml.ggml_build_forward_expand(self._graph, result)
        self._device.place(self._graph)

    def run(self) -> None:
        self._device.compute(self._graph)

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return ggml.ggml_add(self._context, a, b)

    def matmul(self, weight: Tensor, x: Tensor) -> Tensor:
        """`weight` (columns, rows) times x (columns, n): (rows, n)."""
        n, step = int(x.contents.ne[1]), self._steps.get(ctypes.addressof(weight.contents), 1)
        if n % step == 0:
            return ggml.ggml_mul_mat(self._context, weight, x)
        full = ggml.ggml_mul_mat(self._context, weight, ggml.ggml_pad(self._context, x, 0, -n % step, 0, 0))
        rows, row_bytes = int(full.contents.ne[0]), int(full.contents.nb[1])
        return ggml.ggml_cont(self._context, ggml.ggml_view_2d(self._context, full, rows, n, row_bytes, 0))

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return ggml.ggml_mul(self._context, ggml.ggml_rms_norm(self._context, x, eps), weight)

    def swiglu(self, gate: Tensor, up: Tensor) -> Tensor:
        return ggml.ggml_swiglu_split(self._context, gate, up)

    def reshape(self, x: Tensor, *shape: int) -> Tensor:
        make = ggml.ggml_reshape_2d if len(shape) == 2 else ggml.ggml_reshape_3d
        return make(self._context, x, *shape)

    def rope(self, x: Tensor, positions: Tensor, factors: Tensor | None, hyper: HyperParams) -> Tensor:
        """Rotary embedding of x (head_dim, heads, n). llama's GGUFs keep a pair adjacent, others half a head apart."""
        mode = ggml.GGML_ROPE_TYPE_NORMAL if hyper.architecture == "llama" else ggml.GGML_ROPE_TYPE_NEOX
        shape = (hyper.rope_dims, mode, hyper.n_ctx_train, hyper.rope_theta)
        no_scaling = (1.0, 0.0, 1.0, 32.0, 1.0)
        return ggml.ggml_rope_ext(self._context, x, positions, factors, *shape, *no_scaling)

    def store(self, cache: Tensor, rows: Tensor, slots: Tensor) -> Tensor:
        """`cache` after its rows `slots` were overwritten by `rows`."""
        return ggml.ggml_set_rows(self._context, cache, rows, slots)

    def heads(self, cache: Tensor, head_dim: int, n_kv: int, n_heads: int) -> Tensor:
        """The first `n_kv` rows of an F16 cache (heads·head_dim, slots), seen as (head_dim, n_kv, heads)."""
        row = head_dim * n_heads * 2
        return ggml.ggml_view_3d(self._context, cache, head_dim, n_kv, n_heads, row, head_dim * 2, 0)

    def attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> Tensor:
        """Masked attention of q (head_dim, heads, n): (head_dim, heads, n)."""
        by_head = ggml.ggml_permute(self._context, q, 0, 2, 1, 3)
        return ggml.ggml_flash_attn_ext(self._context, by_head, k, v, mask, scale, 0.0, 0.0)
