from __future__ import annotations

import ggml
import gguf
import numpy as np
import pytest

from device_agent.failure import AgentFailure
from device_agent.kernels.binding import supported
from device_agent.kernels.ggml import dequantize


@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0", "Q5_0", "Q4_1"])
def test_rows_are_dequantised_as_gguf_does(kind: str) -> None:
    rows = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    raw = gguf.quants.quantize(rows, gguf.GGMLQuantizationType[kind]).view(np.uint8)
    right = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind])
    np.testing.assert_array_equal(dequantize(kind, raw), right)


def test_an_unknown_tensor_type_is_named() -> None:
    assert not supported("Q9_Z")
    with pytest.raises(AgentFailure, match="Q9_Z"):
        dequantize("Q9_Z", np.zeros((1, 32), np.uint8))


def test_pointers_are_not_cut() -> None:
    backend = ggml.ggml_backend_cpu_init()
    whole = ggml.ggml_backend_get_default_buffer_type(backend)
    ggml.ggml_backend_free(backend)
    assert ggml.ggml_backend_cpu_buffer_type() == whole
