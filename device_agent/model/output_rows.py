"""Single rows of a model's output projection, dequantised: directions in which states grow likelier for a token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from device_agent.kernels.base import Floats
from device_agent.kernels.ggml import dequantize
from device_agent.model.source import WeightSource


class OutputTable:
    """Reads a row where the source keeps it."""

    def __init__(self, source: WeightSource) -> None:
        self._kind, self._source = source.manifest.output.ggml_type, source

    def rows(self, tokens: Sequence[int]) -> Floats:
        """(len(tokens), d_model)."""
        return dequantize(self._kind, self._source.output_rows(np.array(tokens, np.int32)))
