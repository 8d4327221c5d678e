"""The flash pipeline: a reader thread fills a ring of layer-sized slots while kernels work on earlier ones."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from device_agent.failure import AgentFailure
from device_agent.model.extent_reader import ExtentReader
from device_agent.model.memory import Region
from device_agent.protocol import ExtentSpec


@dataclass(frozen=True)
class Filled:
    """A layer in DRAM until it is given back."""

    index: int
    slot: Region


class LayerRing:
    """Reads layers in the order that they are requested, as long as a slot is free.

    The reader knows no rounds: whoever requests decides how far ahead it goes, within a round or into the next.
    An error of the reader reaches the consumer at the layer that it hit; nobody waits for a dead reader.
    """

    def __init__(self, reader: ExtentReader, layers: Mapping[int, ExtentSpec], n_slots: int) -> None:
        size = max(extent.nbytes for extent in layers.values())
        self._reader, self._layers = reader, layers
        self._free = [Region(size) for _ in range(n_slots)]
        self._wanted: deque[int] = deque()
        self._ready: deque[Filled] = deque()
        self._error: AgentFailure | None = None
        self._closed = False
        self._outstanding = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="flash-reader", daemon=True)
        self._thread.start()

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
        """End the reader; it finishes the piece that it is reading."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        try:
            while (job := self._next_job()) is not None:
                index, slot = job
                self._reader.read(self._layers[index], slot.view)
                self._publish(Filled(index, slot))
        except AgentFailure as failure:
            self._fail(failure)
        except Exception as error:  # noqa: BLE001  # whatever it was, the consumer must hear of it and not wait
            self._fail(AgentFailure("engine_error", f"the flash reader died: {error!r}"))

    def _next_job(self) -> tuple[int, Region] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or (self._wanted and self._free))
            return None if self._closed else (self._wanted.popleft(), self._free.pop())

    def _publish(self, filled: Filled) -> None:
        with self._changed:
            self._ready.append(filled)
            self._changed.notify_all()

    def _fail(self, failure: AgentFailure) -> None:
        with self._changed:
            self._error = failure
            self._changed.notify_all()
