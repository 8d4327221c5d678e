"""Graphs of one model, kept as long as the compute buffer that they were placed in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

CACHED_LAYERS = 512  # graphs kept, counted in layers (some 20 KB each)


class Cached(Protocol):
    @property
    def count(self) -> int:
        """Layers that it is worth."""

    def close(self) -> None: ...


AnyGraph = TypeVar("AnyGraph", bound=Cached)


class GraphCache:
    """The graphs used last, by what they were built for. `buffer_bytes` tells the size of a compute buffer that they
    share: when it grows it moves, and graphs placed before are void."""

    def __init__(self, buffer_bytes: Callable[[], int] = lambda: 0) -> None:
        self._buffer_bytes = buffer_bytes
        self._graphs: OrderedDict[Hashable, Cached] = OrderedDict()

    def __len__(self) -> int:
        return len(self._graphs)

    def get(self, key: Hashable, build: Callable[[], AnyGraph]) -> AnyGraph:
        """The graph of `key`: a key always names the same type of graph."""
        graph = self._graphs.get(key)
        if graph is None:
            graph = self._graphs[key] = self._built(build)
        self._graphs.move_to_end(key)
        return graph  # type: ignore[return-value]  # a key always stands for graphs of one class

    def clear(self) -> None:
        for graph in self._graphs.values():
            graph.close()
        self._graphs.clear()

    def _built(self, build: Callable[[], AnyGraph]) -> AnyGraph:
        before = self._buffer_bytes()
        graph = build()
        if self._buffer_bytes() != before:
            self.clear()
        while sum(kept.count for kept in self._graphs.values()) > CACHED_LAYERS:
            self._graphs.popitem(last=False)[1].close()
        return graph
