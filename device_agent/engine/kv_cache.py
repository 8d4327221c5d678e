"""Which KV slots of a model hold accepted tokens, and moving accepted branches into place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from device_agent.kernels.base import Slots
from device_agent.model.transformer import Transformer


class KvCache:
    """Slots 0..length-1 hold the accepted text in order; slots from length on are scratch for a tree."""

    def __init__(self, model: Transformer) -> None:
        self.length = 0
        self.capacity = model.n_ctx
        self._model = model

    @property
    def room(self) -> int:
        return self.capacity - self.length

    def scratch(self, offsets: Sequence[int]) -> Slots:
        """Slots `offsets` past the accepted text."""
        return self.length + np.array(offsets, np.int64)

    def accept(self, offsets: Sequence[int]) -> None:
        """Append the scratch slots `offsets`, one branch from its top down, to the text; the other scratch is free."""
        source, wanted = self.scratch(offsets), self.scratch(range(len(offsets)))
        if moved := [i for i, offset in enumerate(offsets) if offset != i]:
            self._model.move_kv(source[moved], wanted[moved])
        self.length += len(offsets)

    def truncate(self, length: int) -> None:
        """Forget what was accepted after `length` tokens."""
        self.length = min(self.length, length)
