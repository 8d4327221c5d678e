"""What has to be put right about ggml-python before anybody uses it, and ggml's tensor types by name."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import ggml

from device_agent.failure import AgentFailure

VERSION = ggml.ggml_version().decode()
# Types by which ggml-python 0.0.45 declares results that are pointers: ctypes cuts them to 32 bits.
POINTERS = (
    "cpu_buffer_type",
    "cpu_buffer_from_ptr",
    "alloc_buffer",
    "buft_alloc_buffer",
    "sched_get_tensor_backend",
)
TOLD = (ggml.GGML_LOG_LEVEL_WARN, ggml.GGML_LOG_LEVEL_ERROR)

for _name in POINTERS:
    getattr(ggml, f"ggml_backend_{_name}").restype = ctypes.c_void_p


@ggml.ggml_log_callback  # type: ignore[untyped-decorator]  # a ctypes function type
def _log(level: int, text: bytes, _: Any) -> None:
    """ggml tells every repacked tensor at debug level."""
    if level in TOLD:
        os.write(2, text)


ggml.ggml_log_set(_log, None)


def supported(kind: str) -> bool:
    """Whether `kind` (F32, Q4_K, …) is a tensor type of this ggml."""
    return hasattr(ggml, f"GGML_TYPE_{kind}")


def type_id(kind: str) -> int:
    """ggml's number of `kind`; raises AgentFailure bad_spec."""
    if not supported(kind):
        raise AgentFailure("bad_spec", f"tensor type {kind} is unknown to ggml {VERSION}")
    return int(getattr(ggml, f"GGML_TYPE_{kind}"))
