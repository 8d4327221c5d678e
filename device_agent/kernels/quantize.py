"""Float rows as a tensor type stores them."""

from __future__ import annotations

import ctypes

import ggml
import numpy as np

from device_agent.kernels.base import Floats
from device_agent.kernels.binding import type_id
from device_agent.kernels.layouts import Bytes


def quantized(kind: str, values: Floats) -> Bytes:
    """`values` (n, columns) as the bytes (n, bytes per row) of type `kind`, by ggml's own rounding."""
    n, columns = values.shape
    values = np.ascontiguousarray(values, np.float32)
    out = np.empty((n, ggml.ggml_row_size(type_id(kind), columns)), np.uint8)
    source = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    ggml.ggml_quantize_chunk(type_id(kind), source, out.ctypes.data, 0, n, columns, None)
    return out
