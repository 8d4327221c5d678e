"""WeightSource over a pack: each layer pinned in DRAM or streamed through the ring, by one and the same code."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from device_agent.failure import AgentFailure
from device_agent.kernels.layouts import unfilled
from device_agent.model.extent_reader import ExtentReader
from device_agent.model.layer_ring import LayerRing
from device_agent.model.memory import PAGE, Region
from device_agent.model.pacer import Pacer
from device_agent.model.pack import Pack, embedding_spec, open_pack, output_rows_spec
from device_agent.model.source import Bytes, Floats, Ids
from device_agent.model.table_rows import TableRows
from device_agent.protocol import ExtentSpec, PackManifest

MB = 1_000_000


class PackWeights:
    """`source.WeightSource`: layers of `pinned` stay in DRAM, all others come through a ring of `ring_slots`.

    With `prefetch` a pass begins with layers already waiting: the reader goes on with the next pass's while nothing
    asks for them. It may belong to another request or a check: every pass takes all layers in order. `projects`: hold
    the output projection. `alike`: a batch's products are those of its rows alone, to the bit, even if that is slower.
    """

    def __init__(
        self,
        pack: Pack,
        pinned: Collection[int],
        ring_slots: int,
        chunk_kib: int,
        pacer: Pacer | None,
        prefetch: bool = False,
        reader_threads: int = 1,
        reader_cores: Collection[int] = (),
        projects: bool = True,
        alike: bool = True,
    ) -> None:
        self.manifest: PackManifest = pack.manifest
        self.layouts = pack.layouts if alike else {name: unfilled(layout) for name, layout in pack.layouts.items()}
        self.read_bytes, self.read_wait_s = 0, 0.0
        self._pack, self._pacer = pack, pacer
        piece_bytes = -(-chunk_kib * 1024 // PAGE) * PAGE
        self._loader = ExtentReader(pack.folder, piece_bytes)
        self._streamer = ExtentReader(pack.folder, piece_bytes, pacer)
        self._extents = {name: self._load(pack.extents[name]) for name in _always_resident(pack, projects)}
        self._pinned = {index: self._load(pack.layers[index]) for index in sorted(pinned)}
        self._streamed = {index: layer for index, layer in enumerate(pack.layers) if index not in self._pinned}
        self._passes_ahead = 1 if prefetch else 0
        self.resident = not self._streamed
        self._embedding, self._output = (
            TableRows(pack, spec, self._extents.get(spec.extent))
            for spec in (embedding_spec(pack), output_rows_spec(pack))
        )
        self._ring: LayerRing | None = None
        if self._streamed:
            self._ring = LayerRing(self._streamer, self._streamed, ring_slots, reader_threads, reader_cores)

    @property
    def io_mode(self) -> str:
        """How layers are read: direct | buffered."""
        return self._streamer.io_mode if self._ring else self._loader.io_mode

    @property
    def measured_mb_s(self) -> float | None:
        """Speed of streaming while the reader was at it; None before its first piece was timed."""
        busy_s = self._streamer.busy_s  # told after the bytes, by another thread
        return self._streamer.read_bytes / MB / busy_s if busy_s else None

    def begin_pass(self) -> None:
        if not self._ring:
            return
        ahead, rest = divmod(self._ring.outstanding, len(self._streamed))
        if rest or ahead > self._passes_ahead:
            raise AgentFailure("engine_error", "a pass began before the one before had taken all its layers")
        for _ in range(1 + self._passes_ahead - ahead):
            self._ring.request(self._streamed)

    @contextmanager
    def layer(self, index: int) -> Iterator[int]:
        if index in self._pinned:
            yield self._pinned[index].address
            return
        assert self._ring is not None
        started = time.perf_counter()
        filled = self._ring.take(index)
        self.read_wait_s += time.perf_counter() - started
        self.read_bytes += self._pack.layers[index].nbytes
        try:
            yield filled.slot.address
        finally:
            self._ring.give_back(filled)

    def extent(self, name: str) -> int:
        if name not in self._extents:
            what = f"{self.manifest.model_name}: {name} is not in DRAM: with a trimmed vocabulary only some rows are"
            raise AgentFailure("engine_error", what)
        return self._extents[name].address

    def embed(self, ids: Ids) -> Floats:
        return self._embedding.rows(ids)

    def output_rows(self, ids: Ids) -> Bytes:
        return self._output.raw(ids)

    def lift_cap(self) -> None:
        """Read as fast as the disk from now on: what follows is not timed."""
        if self._pacer:
            self._pacer.cancel()

    def close(self) -> None:
        self.lift_cap()
        if self._ring:
            self._ring.close()
        for holder in (self._loader, self._streamer, self._embedding, self._output):
            holder.close()

    def _load(self, extent: ExtentSpec) -> Region:
        region = Region(extent.nbytes)
        self._loader.read(extent, region.view)
        return region


def open_resident(folder: Path, projects: bool = True, alike: bool = True) -> PackWeights:
    """All layers of the pack in DRAM, and the output projection if it `projects` by itself; `alike`: see PackWeights.

    Raises AgentFailure: pack_corrupt, io_error.
    """
    pack = open_pack(folder)
    layers = range(len(pack.layers))
    return PackWeights(pack, layers, ring_slots=0, chunk_kib=4096, pacer=None, projects=projects, alike=alike)


def open_streamed(
    folder: Path,
    ring_slots: int,
    chunk_kib: int,
    cap_mb_s: float | None,
    pinned: Collection[int] = (),
    prefetch: bool = False,
    reader_threads: int = 1,
    reader_cores: Collection[int] = (),
) -> PackWeights:
    """Layers read from flash for each pass, no faster than `cap_mb_s` (10^6 bytes/s; None: as the disk can)."""
    pacer = Pacer(cap_mb_s * MB) if cap_mb_s else None
    return PackWeights(open_pack(folder), pinned, ring_slots, chunk_kib, pacer, prefetch, reader_threads, reader_cores)


def _always_resident(pack: Pack, projects: bool) -> tuple[str, ...]:
    return ("globals", pack.manifest.output.extent) if projects else ("globals",)
