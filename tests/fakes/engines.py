"""Engines over tiny random models, with strategies that a test gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from device_agent.engine import engine as engine_module
from device_agent.engine.engine import Engine
from device_agent.engine.strategy import Proposal, Room, Strategy, build_strategy
from device_agent.engine.tree import TokenTree
from device_agent.kernels.base import Floats
from device_agent.model.transformer import Transformer, open_transformer
from device_agent.protocol import EngineSpec, SamplingSpec
from tests.fakes.memory_source import MemorySource
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

# Full precision, so that batch sizes change logits by nothing that a test could meet.
TARGET = TinyModel(quantisation="F32", n_layers=3)
DRAFT = TinyModel(quantisation="F32", n_layers=3, noise=0.1)  # agrees with its target most of the time


@dataclass(frozen=True)
class TinyPair:
    target: Transformer
    draft: Transformer

    def engine(self, spec: EngineSpec, sampling: SamplingSpec = SamplingSpec()) -> Engine:  # noqa: B008  # frozen
        return Engine(self.target, self.draft, spec, sampling)


@contextmanager
def opened_pair(folder: Path, n_ctx: int = 256) -> Iterator[TinyPair]:
    with ExitStack() as stack:
        models = []
        for name, model in (("target", TARGET), ("draft", DRAFT)):
            source = MemorySource(write_pack(folder / name, model))
            models.append(open_transformer(source, n_ctx, threads=1))
            stack.callback(models[-1].close)
        yield TinyPair(*models)


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyPair]:
    with opened_pair(tmp_path_factory.mktemp("tiny-models")) as pair:
        yield pair


@dataclass
class RandomPruner:
    """A strategy whose nodes are dropped between the target's layers, a share of them after each of `layers`, and what
    hangs below them: whether the target would accept them or not."""

    inner: Strategy
    layers: tuple[int, ...] = (1, 2)
    share: float = 0.3
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    dropped: int = 0
    lost: int = 0  # times that the target chose a node that was gone
    _end: tuple[TokenTree, int] | None = None  # the last round's tree, and the last node it accepted

    def begin(self, prompt: Sequence[int]) -> None:
        self._end = None
        self.inner.begin(prompt)

    def propose(self, root: int, room: Room) -> Proposal:
        if self._end and self._end[0].child(self._end[1], root) is not None:
            self.lost += 1
        return replace(self.inner.propose(root, room), pruner=self, pruning="tried")

    def settle(self, tree: TokenTree, path: Sequence[int]) -> None:
        self._end = tree, path[-1]
        self.inner.settle(tree, path)

    def drop(self, tree: TokenTree, nodes: Sequence[int], layer: int, states: Floats) -> list[int]:
        assert states.shape[0] == len(nodes)
        gone = [node for node in nodes[1:] if self.rng.random() < self.share]
        self.dropped += len(gone)
        return gone


def prune_at_random(monkeypatch: pytest.MonkeyPatch) -> list[RandomPruner]:
    """From now on engines get their strategy in a RandomPruner; returns those made."""
    made: list[RandomPruner] = []

    def build(*args: Any) -> RandomPruner:
        made.append(RandomPruner(build_strategy(*args)))
        return made[-1]

    monkeypatch.setattr(engine_module, "build_strategy", build)
    return made
