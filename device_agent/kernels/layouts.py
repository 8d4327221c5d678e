"""Layouts of weights that this CPU's kernels multiply by faster than by rows: ggml's extra buffer types, as they are.

AMX tiles, rows interleaved for VNNI, dot products or i8mm: ggml knows them by the buffer that a tensor lies in. An
empty buffer of each type stands for it here, and tensors of our own memory are marked as lying in it.

Interleaved rows multiply states by fours in one kernel and the rest singly in another, which sums K-quants in another
order: a name with IN_FOURS says that batches have to be filled up, or else their products are not those of single rows.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import ggml
import numpy as np

from device_agent.kernels.binding import VERSION, supported, type_id

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

ROWS = "rows"  # as in the GGUF, what every kernel takes
IN_FOURS = "/4"  # after the name of a layout
GROUP = 32  # rows that lie together whatever the layout; layout_check makes sure


def layouts_for(kind: str, columns: int, rows: int) -> list[str]:
    """Those of ggml's own that multiply by such a matrix, best first, each as it is and in fours."""
    if rows % GROUP or not supported(kind) or not ggml.ggml_is_quantized(type_id(kind)):
        return []
    takes = [name for name in _buffer_types() if _takes(name, kind, columns, rows)]
    return [name + step for name in takes for step in ("", IN_FOURS)]


def batch_step(layout: str) -> int:
    """A batch has to be filled up to a multiple of this for its products to be those of single rows, to the bit."""
    return 4 if layout.endswith(IN_FOURS) else 1


def unfilled(layout: str) -> str:
    """`layout` without filling batches up: faster for single rows, for whom equal bits do not matter."""
    return layout.removesuffix(IN_FOURS)


def layout_bytes(layout: str, kind: str, columns: int, rows: int) -> int:
    """Size of a matrix in `layout`."""
    if layout == ROWS:
        return rows * int(ggml.ggml_row_size(type_id(kind), columns))
    with _Scratch() as context:
        return _alloc_size(layout, _matrix(context, kind, columns, rows))


def converted(layout: str, kind: str, columns: int, raw: Bytes) -> Bytes:
    """`raw` (n, bytes per row), n a multiple of GROUP unless by rows, in `layout`: a flat array."""
    raw = np.ascontiguousarray(raw)
    if layout == ROWS:
        return raw.reshape(-1)
    with _Scratch() as context:
        matrix = _matrix(context, kind, columns, len(raw))
        out = np.zeros(_alloc_size(layout, matrix), np.uint8)
        matrix.contents.data = out.ctypes.data
        mark(matrix, layout)
        ggml.ggml_backend_tensor_set(matrix, raw.ctypes.data, 0, raw.nbytes)
    return out


def mark(tensor: Any, layout: str) -> None:
    """Have ggml multiply by `tensor`, which has an address, as lying in `layout`."""
    buffer = _empty_buffer(layout)
    tensor.contents.buffer = buffer
    ggml.ggml_backend_buffer_init_tensor(buffer, tensor)


@cache
def fingerprint() -> str:
    """Of this build of ggml on this CPU: weights in one's layouts mean nothing to another."""
    libraries = sorted(Path(ggml.__file__).parent.rglob("*ggml-cpu*"))
    build = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in libraries]
    content = [VERSION, build, sorted(_buffer_types()), _cpu_features()]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _cpu_features() -> list[str]:
    """x86 calls them flags, arm Features."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return sorted({line for line in lines if line.lower().startswith(("flags", "features"))})


class _Scratch:
    """A context for a tensor that no graph keeps."""

    def __enter__(self) -> Any:
        size = 8 * ggml.ggml_tensor_overhead()
        self._context = ggml.ggml_init(ggml.ggml_init_params(mem_size=size, mem_buffer=None, no_alloc=True))
        return self._context

    def __exit__(self, *_: object) -> None:
        ggml.ggml_free(self._context)


def _matrix(context: Any, kind: str, columns: int, rows: int) -> Any:
    matrix = ggml.ggml_new_tensor_2d(context, type_id(kind), columns, rows)
    matrix.contents.data = 1  # an address that nobody reads
    return matrix


def _takes(layout: str, kind: str, columns: int, rows: int) -> bool:
    """Some kernels end the process when they are given what they did not say they take."""
    with _Scratch() as context:
        matrix = _matrix(context, kind, columns, rows)
        mark(matrix, layout)
        product = ggml.ggml_mul_mat(context, matrix, ggml.ggml_new_tensor_2d(context, ggml.GGML_TYPE_F32, columns, 1))
        return bool(ggml.ggml_backend_dev_supports_op(_cpu(), product))


def _alloc_size(layout: str, matrix: Any) -> int:
    return int(ggml.ggml_backend_buft_get_alloc_size(_buffer_type(layout), matrix))


def _cpu() -> Any:
    return ggml.ggml_backend_reg_dev_get(ggml.ggml_backend_cpu_reg(), 0)


@cache
def _buffer_types() -> dict[str, int]:
    """By name, in ggml's order of preference. Numeric kernels only: not memory of an accelerator."""
    get = ggml.ggml_backend_reg_get_proc_address(ggml.ggml_backend_cpu_reg(), b"ggml_backend_dev_get_extra_bufts")
    if not get:
        return {}
    listed = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)(get)(_cpu())
    found: dict[str, int] = {}
    while listed and (address := listed[len(found)]):
        found[ggml.ggml_backend_buft_name(address).decode()] = address
    return found


def _buffer_type(layout: str) -> int:
    return _buffer_types()[unfilled(layout)]


@cache
def _empty_buffer(layout: str) -> int:
    return int(ggml.ggml_backend_buft_alloc_buffer(_buffer_type(layout), 64))
