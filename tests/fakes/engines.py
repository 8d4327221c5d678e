"""Engines over tiny random models, with strategies that a test gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from device_agent.engine import engine as engine_module
from device_agent.engine.engine import Engine
from device_agent.engine.strategy import Proposal, Room, Strategy, build_strategy
from device_agent.engine.tree import TokenTree
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
    """Drops a share of another strategy's nodes, and what hangs below them, whether the target would accept them or
    not. Children are dropped from the proposal only: the strategy is told of the path in its own tree's nodes."""

    inner: Strategy
    share: float = 0.3
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    dropped: int = 0
    _whole: TokenTree | None = None
    _origin: list[int] = field(default_factory=list)  # node of the pruned tree → of the whole one

    def begin(self, prompt: Sequence[int]) -> None:
        self.inner.begin(prompt)

    def propose(self, root: int, room: Room) -> Proposal:
        proposal = self.inner.propose(root, room)
        whole, pruned = proposal.tree, TokenTree(root)
        kept = {0: 0}
        for node in range(1, len(whole)):
            if whole.parents[node] in kept and self.rng.random() >= self.share:
                kept[node] = pruned.add(whole.tokens[node], kept[whole.parents[node]])
        self.dropped += len(whole) - len(pruned)
        self._whole, self._origin = whole, list(kept)
        return Proposal(pruned, proposal.draft_passes, proposal.nodes_drafted)

    def settle(self, tree: TokenTree, path: Sequence[int]) -> None:
        assert self._whole is not None
        self.inner.settle(self._whole, [self._origin[node] for node in path])


def prune_at_random(monkeypatch: pytest.MonkeyPatch) -> list[RandomPruner]:
    """From now on engines get their strategy in a RandomPruner; returns those made."""
    made: list[RandomPruner] = []

    def build(*args: Any) -> RandomPruner:
        made.append(RandomPruner(build_strategy(*args)))
        return made[-1]

    monkeypatch.setattr(engine_module, "build_strategy", build)
    return made
