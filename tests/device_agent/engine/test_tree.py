from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from device_agent.engine.tree import TokenTree

shapes = st.lists(st.integers(0, 10**6), max_size=24)


def grown(picks: list[int]) -> TokenTree:
    """A tree whose i-th new node hangs below a node chosen by the i-th pick; all tokens differ."""
    tree = TokenTree(0)
    for token, pick in enumerate(picks, start=1):
        tree.add(token, pick % len(tree))
    return tree


@given(shapes)
def test_a_node_sees_exactly_its_path_to_the_root(picks: list[int]) -> None:
    tree = grown(picks)
    ancestry = tree.ancestry()
    for node in range(len(tree)):
        path = {node}
        while (parent := tree.parents[min(path)]) >= 0:
            path.add(parent)
        assert set(np.flatnonzero(ancestry[node])) == path


@given(shapes)
def test_positions_follow_depth(picks: list[int]) -> None:
    tree = grown(picks)
    assert list(tree.positions(100)) == list(100 + tree.ancestry().sum(axis=1) - 1)


@given(shapes)
def test_the_favourite_path_takes_first_children(picks: list[int]) -> None:
    tree = grown(picks)
    path = tree.favourite_path()
    for parent, node in pairwise(path):
        assert node == tree.parents.index(parent)
    assert path[-1] not in tree.parents


def test_a_token_is_added_once_below_a_parent() -> None:
    tree = TokenTree(5)
    first = tree.add(7, 0)
    assert tree.add(7, 0) == first
    assert tree.add(7, first) != first
    assert tree.child(0, 7) == first
    assert tree.child(0, 8) is None
