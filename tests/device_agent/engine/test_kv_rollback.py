"""Whatever was drafted, accepted and rejected before, the caches answer as a fresh prefill of the accepted text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_agent.engine.drafter import Drafter
from device_agent.engine.kv_cache import KvCache
from device_agent.engine.pruning import TreeGate
from device_agent.engine.tree import TokenTree
from device_agent.kernels.base import Floats
from device_agent.model.transformer import TokenBatch, Transformer, causal_batch
from tests.fakes.tiny_engine import TARGET, tiny_transformers

N_CTX = 256
# A round: where nodes hang, which node the target accepts up to, how many nodes the drafter expanded.
rounds = st.lists(
    st.tuples(st.lists(st.integers(0, 10**6), max_size=6), st.integers(0, 10**6), st.integers(0, 7)),
    min_size=1,
    max_size=5,
)
few = settings(max_examples=40, deadline=None)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Transformer]]:
    """The same model twice: one is used, the other starts afresh."""
    with tiny_transformers(tmp_path_factory.mktemp("packs"), TARGET, TARGET, n_ctx=N_CTX) as opened:
        yield opened


@pytest.fixture(scope="module")
def pruned_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, list[Transformer]]]:
    """By ring slots: a model of four layers, and the same afresh."""
    with ExitStack() as opened:
        model = replace(TARGET, n_layers=4)
        yield {
            ring: opened.enter_context(
                tiny_transformers(tmp_path_factory.mktemp("packs"), model, model, n_ctx=N_CTX, ring=ring)
            )
            for ring in (0, 2)
        }


def grown(root: int, picks: list[int]) -> TokenTree:
    tree = TokenTree(root)
    for index, pick in enumerate(picks):
        tree.add((root + 3 * index + pick) % 250, pick % len(tree))
    return tree


def path_to(tree: TokenTree, node: int) -> list[int]:
    return [] if node < 0 else [*path_to(tree, tree.parents[node]), node]


def verify(model: Transformer, cache: KvCache, tree: TokenTree, gate: TreeGate | None = None) -> Floats:
    visible = np.ones((len(tree), cache.length + len(tree)), np.bool_)
    visible[:, cache.length :] = tree.ancestry()
    slots = cache.scratch(range(len(tree)))
    ids = np.array(tree.tokens, np.int32)
    return model.forward(TokenBatch(ids, tree.positions(cache.length), slots, visible), gate)


@dataclass(frozen=True)
class Dropping:
    """Drops the same share of nodes after each layer."""

    layers: tuple[int, ...]
    share: float
    rng: np.random.Generator

    def drop(self, tree: TokenTree, nodes: Sequence[int], layer: int, states: Floats) -> list[int]:
        return [node for node in nodes if self.rng.random() < self.share]


def fresh(model: Transformer, text: list[int]) -> Floats:
    return model.project(model.forward(causal_batch(text))[-1:]).copy()


def continued(model: Transformer, cache: KvCache, token: int) -> Floats:
    """Logits after `token` behind the cached text."""
    position = np.array([cache.length], np.int32)
    visible = np.ones((1, cache.length + 1), np.bool_)
    batch = TokenBatch(np.array([token], np.int32), position, cache.scratch([0]), visible)
    return model.project(model.forward(batch)).copy()


def assert_same(found: Floats, right: Floats) -> None:
    np.testing.assert_allclose(found, right, atol=1e-3 * right.std())


@few
@given(rounds, st.integers(0, 12))
def test_the_target_forgets_what_was_rejected(
    pair: list[Transformer], played: list[tuple[list[int], int, int]], cut: int
) -> None:
    model, other = pair
    cache, text = KvCache(model), [1, 2, 3]
    model.forward(causal_batch(text))
    cache.accept(range(3))
    for root, (picks, chosen, _) in enumerate(played):
        tree = grown(root, picks)
        verify(model, cache, tree)
        path = path_to(tree, chosen % len(tree))
        cache.accept(path)
        text += [tree.tokens[node] for node in path]
    assert cache.length == len(text)
    cache.truncate(len(text) - min(cut, len(text) - 1))
    text = text[: cache.length]
    assert_same(continued(model, cache, 9), fresh(other, [*text, 9]))


@pytest.mark.parametrize("ring", [0, 2], ids=["resident", "streamed"])
@few
@given(rounds, st.sets(st.integers(0, 4)), st.floats(0, 1), st.integers(0, 2**32))
def test_what_is_pruned_between_layers_leaves_no_trace(
    pruned_pair: dict[int, list[Transformer]],
    ring: int,
    played: list[tuple[list[int], int, int]],
    layers: set[int],
    share: float,
    seed: int,
) -> None:
    """The states of the nodes that are left, and what is cached of the accepted ones, are those of a fresh prefill."""
    model, other = pruned_pair[ring]
    pruner = Dropping(tuple(layers), share, np.random.default_rng(seed))
    cache, text = KvCache(model), [1, 2, 3]
    model.forward(causal_batch(text))
    cache.accept(range(3))
    for root, (picks, chosen, _) in enumerate(played):
        tree = grown(root, picks)
        gate = TreeGate(tree, pruner)
        states = verify(model, cache, tree, gate)
        assert len(states) == len(gate.nodes) == len(tree) - len(gate.pruned_at)
        assert gate.nodes[0] == 0
        assert all(tree.parents[node] in gate.nodes for node in gate.nodes[1:])
        row = chosen % len(gate.nodes)
        path = path_to(tree, gate.nodes[row])
        cache.accept(path)
        text += [tree.tokens[node] for node in path]
        assert_same(model.project(states[[row]]).copy(), fresh(other, text))
    assert_same(continued(model, cache, 9), fresh(other, [*text, 9]))


def test_tokens_left_out_keep_their_positions(pair: list[Transformer]) -> None:
    model, other = pair
    drafter, root = Drafter(model), TokenTree(9)
    drafter.begin([4, 5, 6, 7])
    for token in (20, 21, 22, 23):
        drafter.settle(TokenTree(token), [0])
    drafter.leave_out(2)
    assert drafter.waiting == (22, 23)
    found = drafter.expand(root, [0]).copy()
    ids, positions = np.array([4, 5, 6, 7, 22, 23, 9], np.int32), np.array([0, 1, 2, 3, 6, 7, 8], np.int32)
    whole = replace(causal_batch(ids.tolist()), positions=positions)
    expected = other.project(other.forward(whole)[-3:]).copy()
    assert_same(found[0], expected[2])
    for row, logits in zip(drafter.would_have(3), expected, strict=False):
        assert [token for token, _ in row] == np.argsort(-logits, kind="stable")[:3].tolist()
    assert len(drafter.would_have(3)) == 2
    drafter.begin([4, 5])
    assert_same(drafter.expand(root, [0])[0], fresh(other, [4, 5, 9])[0])


@few
@given(rounds)
def test_the_drafter_catches_up_with_what_was_accepted(
    pair: list[Transformer], played: list[tuple[list[int], int, int]]
) -> None:
    model, other = pair
    drafter, text = Drafter(model), [4, 5, 6, 7]
    drafter.begin(text)
    for root, (picks, chosen, expanded) in enumerate(played):
        tree = grown(root, picks)
        for node in range(min(expanded, len(tree))):
            drafter.expand(tree, [node])
        path = path_to(tree, chosen % len(tree))
        drafter.settle(tree, path)
        text += [tree.tokens[node] for node in path]
    tree = TokenTree(9)
    branch = [0, tree.add(8, 0), tree.add(7, 0)]
    found = drafter.expand(tree, branch).copy()
    for row, tail in zip(found, ([9], [9, 8], [9, 7]), strict=True):
        assert_same(row, fresh(other, [*text, *tail])[0])
    assert drafter.room == N_CTX - len(text) - len(branch)
