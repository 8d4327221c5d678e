"""WeightSource over mapped files: the common practice, where the system's page cache decides what is in DRAM.

Waiting for flash happens inside the kernels, at page faults, and shows as compute; the bytes are what the kernel
counts as read for this process. Mapped pages count in the resident set, though the system could take them back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from device_agent.model.mapped_extent import MappedExtent
from device_agent.model.pack import Pack, embedding_spec, open_pack, output_rows_spec
from device_agent.model.source import Bytes, Floats, Ids
from device_agent.model.table_rows import TableRows
from device_agent.telemetry.disk import disk_read_bytes


class MappedWeights:
    """`source.WeightSource`. At most `most` layers stay mapped at a time: the first ones in are evicted first."""

    io_mode = "mmap"
    measured_mb_s = None  # a page fault does not say how long it read
    read_wait_s = 0.0

    def __init__(self, pack: Pack, most: int) -> None:
        self.manifest, self.layouts = pack.manifest, pack.layouts
        self.resident = most >= len(pack.layers)  # one graph for all layers, as nothing is ever given back
        self._most = most
        self._extents = {name: MappedExtent(pack.folder, extent) for name, extent in pack.extents.items()}
        self._touched: deque[MappedExtent] = deque()
        specs = (embedding_spec(pack), output_rows_spec(pack))
        self._embedding, self._output = (TableRows(pack, spec, None) for spec in specs)
        if not self.resident:
            for extent in self._extents.values():
                extent.evict()  # what a push left in the page cache is beyond the budget
        self._read_before = disk_read_bytes()

    @property
    def read_bytes(self) -> int:
        return disk_read_bytes() - self._read_before

    def begin_pass(self) -> None:
        """Nothing to start: nobody reads ahead but the system."""

    @contextmanager
    def layer(self, index: int) -> Iterator[int]:
        extent = self._extents[f"layer.{index}"]
        if not self.resident and extent not in self._touched:
            if len(self._touched) == self._most:
                self._touched.popleft().evict()
            self._touched.append(extent)
        yield extent.address

    def extent(self, name: str) -> int:
        return self._extents[name].address

    def embed(self, ids: Ids) -> Floats:
        return self._embedding.rows(ids)

    def output_rows(self, ids: Ids) -> Bytes:
        return self._output.raw(ids)

    def lift_cap(self) -> None:
        """There is no cap on page faults."""

    def close(self) -> None:
        for extent in self._extents.values():
            extent.close()
        self._embedding.close()
        self._output.close()


def open_mapped(folder: Path, most: int) -> MappedWeights:
    """The pack's files mapped, at most `most` layers at a time. Raises AgentFailure: pack_corrupt, io_error."""
    return MappedWeights(open_pack(folder), most)
