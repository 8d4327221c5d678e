"""An output projection onto fewer tokens: the frequent ones and those of the text at hand, in their own matrix.

A draft model's whole projection takes a third of a pass. What the trimmed one cannot say, it does not draft: that
costs acceptance, never correctness. The whole matrix stays on flash; rows are read when they are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from device_agent.kernels.base import OutputRows
from device_agent.kernels.layouts import GROUP, ROWS, converted, layout_bytes
from device_agent.model.memory import Region
from device_agent.model.source import Ids, WeightSource

PART = 32 * GROUP  # rows read at a time


class TrimmedOutput:
    """`size` rows. Byte-pair vocabularies are built by frequency, so the lowest ids are the most frequent tokens.

    They lie in the layout of the source's own output projection, in groups that are laid out anew when a row changes.
    """

    def __init__(self, source: WeightSource, size: int) -> None:
        spec = source.manifest.output
        self._columns, self._n_vocab = spec.shape
        self._kind, self._source = spec.ggml_type, source
        self.size = min(size, self._n_vocab)
        self._layout = ROWS if self.size % GROUP else source.layouts.get("output.weight", ROWS)
        self._group_bytes = layout_bytes(self._layout, self._kind, self._columns, GROUP)
        self._region = Region(-(-self.size // GROUP) * self._group_bytes)
        self.tokens: Ids = np.arange(self.size, dtype=np.int32)  # of each row
        for first in range(0, self.size, PART):
            self._lay_out(first, PART)
        self._kept = set(range(self.size))
        self._next = self.size - 1
        row_bytes = spec.nbytes // spec.shape[1]
        self.rows = OutputRows(self._kind, self.size, self._region.address, row_bytes, self._layout)

    def keep(self, tokens: Iterable[int]) -> None:
        """Have rows for `tokens`, in place of the least frequent ones or of tokens kept long ago."""
        changed: set[int] = set()
        for token in tokens:
            if token not in self._kept and token < self._n_vocab:
                self._kept.remove(int(self.tokens[self._next]))
                self._kept.add(token)
                self.tokens[self._next] = token
                changed.add(self._next // GROUP * GROUP)
                self.rows.overwritten.append(self._next)
                self._next = self._next - 1 if self._next > self.size // 2 else self.size - 1
        for first in changed:
            self._lay_out(first, GROUP)

    def _lay_out(self, first: int, count: int) -> None:
        """Read rows first … first+count-1, as far as there are so many, and put them as they are multiplied by."""
        raw = self._source.output_rows(self.tokens[first : first + count])
        data = converted(self._layout, self._kind, self._columns, raw)
        start = first // GROUP * self._group_bytes
        self._region.bytes[start : start + len(data)] = data
