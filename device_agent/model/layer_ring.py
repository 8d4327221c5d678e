"""The flash pipeline: reader threads fill a ring of layer-sized slots while kernels work on earlier ones."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from device_agent.failure import AgentFailure
from device_agent.model.extent_reader import ExtentReader, Piece
from device_agent.model.memory import Region
from device_agent.protocol import ExtentSpec


@dataclass(frozen=True)
class Filled:
    """A layer in DRAM until it is given back."""

    index: int
    slot: Region


class _Filling:
    """A layer on its way, piece by piece."""

    def __init__(self, filled: Filled, pieces: list[Piece]) -> None:
        self.filled = filled
        self.to_read = deque(pieces)
        self.unread = len(pieces)  # not yet arrived, whether begun or not


class LayerRing:
    """Reads layers in the order that they are requested, as long as a slot is free.

    The threads share a layer's pieces and go on to the next layer without waiting for one another, so that the flash
    always has several requests. They know no rounds: whoever requests decides how far ahead they go, within a round or
    into the next. They run on `cores`; (): where whoever starts them does. An error of a reader reaches the consumer at
    the layer that it hit; nobody waits for a dead reader.
    """

    def __init__(
        self,
        reader: ExtentReader,
        layers: Mapping[int, ExtentSpec],
        n_slots: int,
        n_threads: int,
        cores: Collection[int] = (),
    ) -> None:
        size = max(extent.nbytes for extent in layers.values())
        self._reader, self._layers, self._cores = reader, layers, cores
        self._free = [Region(size) for _ in range(n_slots)]
        self._wanted: deque[int] = deque()
        self._filling: deque[_Filling] = deque()
        self._ready: deque[Filled] = deque()
        self._error: AgentFailure | None = None
        self._closed = False
        self._outstanding = 0
        self._changed = threading.Condition()
        names = [f"flash-reader-{number}" for number in range(n_threads)]
        self._threads = [threading.Thread(target=self._run, name=name, daemon=True) for name in names]
        for thread in self._threads:
            thread.start()

    @property
    def outstanding(self) -> int:
        """Layers requested and not yet taken."""
        return self._outstanding

    def request(self, indices: Collection[int]) -> None:
        """Have these layers read, after those requested before."""
        with self._changed:
            self._wanted.extend(indices)
            self._outstanding += len(indices)
            self._changed.notify_all()

    def take(self, index: int) -> Filled:
        """Wait for the next requested layer, which must be `index`; raises the reader's AgentFailure if it failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._error or self._closed)
            if not self._ready:
                raise self._error or AgentFailure("engine_error", f"layer {index} was asked of a closed ring")
            if self._ready[0].index != index:
                raise AgentFailure("engine_error", f"layer {index} was asked, layer {self._ready[0].index} is next")
            self._outstanding -= 1
            return self._ready.popleft()

    def give_back(self, filled: Filled) -> None:
        with self._changed:
            self._free.append(filled.slot)
            self._changed.notify_all()

    def close(self) -> None:
        """End the readers; they finish the pieces that they are reading."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        if self._cores:
            os.sched_setaffinity(0, self._cores)  # of this thread
        try:
            while (job := self._next_job()) is not None:
                layer, piece = job
                self._reader.read_piece(piece, layer.filled.slot.view)
                self._arrived(layer)
        except AgentFailure as failure:
            self._fail(failure)
        except Exception as error:  # noqa: BLE001  # whatever it was, the consumer must hear of it and not wait
            self._fail(AgentFailure("engine_error", f"the flash reader died: {error!r}"))

    def _next_job(self) -> tuple[_Filling, Piece] | None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._error or self._begun() or (self._wanted and self._free)
            )
            if self._closed or self._error:
                return None
            if not self._begun():
                filled = Filled(self._wanted.popleft(), self._free.pop())
                self._filling.append(_Filling(filled, self._reader.pieces(self._layers[filled.index])))
            layer = self._filling[-1]
            return layer, layer.to_read.popleft()

    def _begun(self) -> bool:
        """A layer has pieces that nobody reads yet; it can only be the last."""
        return bool(self._filling and self._filling[-1].to_read)

    def _arrived(self, layer: _Filling) -> None:
        with self._changed:
            layer.unread -= 1
            while self._filling and not self._filling[0].unread:
                self._ready.append(self._filling.popleft().filled)
            self._changed.notify_all()

    def _fail(self, failure: AgentFailure) -> None:
        with self._changed:
            self._error = self._error or failure
            self._changed.notify_all()
