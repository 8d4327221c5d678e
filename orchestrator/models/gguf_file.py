"""Reading a GGUF: its metadata and tensor table, or a ModelError that says what is wrong with the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, ReaderField

from orchestrator.errors import ModelError

REMEDY = "Get the file again, or use another one."


@dataclass(frozen=True)
class GgufTensor:
    name: str
    ggml_type: str  # F32, Q4_K, …
    shape: tuple[int, ...]  # ggml order: shape[0] is contiguous
    offset: int  # bytes from the start of the file
    nbytes: int


@dataclass(frozen=True)
class GgufFile:
    path: Path
    fields: dict[str, ReaderField]
    tensors: dict[str, GgufTensor]

    def get(self, key: str, default: Any = None) -> Any:
        """A metadata value as Python scalars, strings or lists; `default` when the file does not have it."""
        field = self.fields.get(key)
        if field is None:
            return default
        with sound_metadata(self.path):
            return field.contents()

    def require(self, key: str) -> Any:
        """As `get`, but a missing value is a ModelError."""
        if key not in self.fields:
            raise ModelError(f"{self.path}: the metadata has no {key!r}", REMEDY)
        return self.get(key)


class _FastReader(GGUFReader):
    """GGUFReader slices a memmap once per token of the vocabulary, 20 s for 150 000; a plain view takes 3 s."""

    def _get(self, offset: int, dtype: Any, count: int = 1, override_order: str | None = None) -> Any:
        kind = np.dtype(dtype).newbyteorder(override_order or self.byte_order)
        if count == 0:
            return np.empty(0, kind)
        return np.frombuffer(self.data, kind, int(count), int(offset))


@contextmanager
def sound_metadata(path: Path) -> Iterator[None]:
    """A value of the wrong kind (not UTF-8, text for a number, a zero to divide by) is a ModelError."""
    try:
        yield
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ModelError(f"{path}: the metadata is corrupt: {error}", REMEDY) from error


def open_gguf(path: Path) -> GgufFile:
    """Parse `path`. Raises ModelError for a missing, foreign, truncated or corrupt file."""
    if not path.is_file():
        raise ModelError(f"{path}: no such file", "Check the path.")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ModelError(f"{path} is not a GGUF file: it does not start with 'GGUF'", REMEDY)
    try:
        reader = _FastReader(path)
    except (ValueError, KeyError, IndexError, OverflowError, MemoryError, TypeError) as error:
        raise ModelError(f"{path} is truncated or corrupt: {_reason(error)}", REMEDY) from error
    tensors = {
        tensor.name: GgufTensor(
            tensor.name,
            tensor.tensor_type.name,
            tuple(int(n) for n in tensor.shape),
            int(tensor.data_offset),
            int(tensor.n_bytes),
        )
        for tensor in reader.tensors
    }
    return GgufFile(path, dict(reader.fields), tensors)


def _reason(error: Exception) -> str:
    text = str(error)
    if "buffer" in text or "reshape" in text:
        return f"it ends before the data that it announces ({text})"
    return text or type(error).__name__
