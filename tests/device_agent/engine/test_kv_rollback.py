"""Whatever was drafted, accepted and rejected before, the caches answer as a fresh prefill of the accepted text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_agent.engine.drafter import Drafter
from device_agent.engine.kv_cache import KvCache
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


def grown(root: int, picks: list[int]) -> TokenTree:
    tree = TokenTree(root)
    for index, pick in enumerate(picks):
        tree.add((root + 3 * index + pick) % 250, pick % len(tree))
    return tree


def path_to(tree: TokenTree, node: int) -> list[int]:
    return [] if node < 0 else [*path_to(tree, tree.parents[node]), node]


def verify(model: Transformer, cache: KvCache, tree: TokenTree) -> None:
    visible = np.ones((len(tree), cache.length + len(tree)), np.bool_)
    visible[:, cache.length :] = tree.ancestry()
    slots = cache.scratch(range(len(tree)))
    model.forward(TokenBatch(np.array(tree.tokens, np.int32), tree.positions(cache.length), slots, visible))


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
