"""What chain, static_tree and prompt_lookup propose."""

from __future__ import annotations

import pytest

from device_agent.engine.strategies import prompt_lookup, static_tree
from device_agent.engine.strategies.prompt_lookup import PromptLookup
from device_agent.engine.strategy import Proposal, Room
from device_agent.failure import AgentFailure
from device_agent.protocol import EngineSpec
from tests.fakes.engines import TinyPair, tiny_models

__all__ = ["tiny_models"]

WIDE = Room(depth=50, nodes=200)


def grown(models: TinyPair, widths: tuple[int, ...], room: Room = WIDE) -> Proposal:
    strategy = static_tree.build(EngineSpec("static_tree", draft_widths=widths), models.draft)
    strategy.begin((3, 5, 8))
    return strategy.propose(13, room)


def test_a_static_tree_has_its_widths_and_one_pass_a_level(tiny_models: TinyPair) -> None:
    proposal = grown(tiny_models, (3, 2, 1))
    depths = proposal.tree.depths
    assert [depths.count(depth) for depth in range(5)] == [1, 3, 6, 6, 0]
    assert (proposal.draft_passes, proposal.nodes_drafted) == (3, 15)
    assert {len(proposal.tree.children(node)) for node in range(1, 4)} == {2}


@pytest.mark.parametrize("room", [Room(2, 200), Room(50, 5), Room(1, 1), Room(0, 0), Room(-1, 3)])
def test_a_static_tree_keeps_within_its_room(tiny_models: TinyPair, room: Room) -> None:
    tree = grown(tiny_models, (3, 2, 1), room).tree
    assert max(tree.depths) <= max(0, room.depth)
    assert len(tree) - 1 <= room.nodes
    assert len(tree) > 1 or room.depth < 1


def test_widths_of_one_are_a_chain(tiny_models: TinyPair) -> None:
    chain = tiny_models.engine(EngineSpec("chain", draft_k=3))._strategy
    chain.begin((3, 5, 8))
    assert grown(tiny_models, (1, 1, 1)).tree.tokens == chain.propose(13, WIDE).tree.tokens


def looked_up(text: list[int], longest: int = 3, k: int = 4, room: Room = WIDE) -> list[int]:
    """The draft after `text`, whose last token is the root."""
    strategy = PromptLookup(longest, k)
    strategy.begin(text[:-1])
    return strategy.propose(text[-1], room).tree.tokens[1:]


@pytest.mark.parametrize(
    ("text", "draft"),
    [
        ([1, 2, 3, 4, 5, 6, 1, 2], [3, 4, 5, 6]),
        ([1, 2, 3, 9, 2, 3, 7, 1, 2, 3], [9, 2, 3, 7]),  # the longest ending wins over the latest
        ([1, 2, 8, 1, 2, 9, 1, 2], [9, 1, 2]),  # the latest place of one ending; up to the text's end
        ([5, 5], [5]),
        ([1, 2, 3], []),
        ([7], []),
    ],
)
def test_lookup_copies_what_came_after_the_same_words(text: list[int], draft: list[int]) -> None:
    assert looked_up(text) == draft


def test_lookup_knows_the_output_and_only_what_was_emitted() -> None:
    strategy = PromptLookup(2, 3)
    strategy.begin([1, 2, 3, 4, 1])
    tree = strategy.propose(2, WIDE).tree
    assert tree.tokens == [2, 3, 4, 1]
    strategy.settle(tree, [0, 1])  # the target took 3 and then chose 9, which comes as the next root
    assert strategy.propose(9, WIDE).tree.tokens == [9]
    strategy.settle(strategy.propose(2, WIDE).tree, [0])
    assert strategy.propose(3, WIDE).tree.tokens == [3, 9, 2, 3], "what the output said last"
    strategy.begin([6, 6])
    assert strategy.propose(1, WIDE).tree.tokens == [1], "a new request knows nothing of the one before"


def test_lookup_keeps_within_its_room() -> None:
    assert looked_up([1, 2, 3, 4, 1], room=Room(2, 9)) == [2, 3]
    assert looked_up([1, 2, 3, 4, 1], room=Room(9, 1)) == [2]
    assert looked_up([1, 2, 3, 4, 1], room=Room(-1, 9)) == []


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (EngineSpec("static_tree", draft_widths=()), "widths of at least 1"),
        (EngineSpec("static_tree", draft_widths=(2, 0)), "widths of at least 1"),
        (EngineSpec("prompt_lookup", draft_k=4), "draft_ngram=0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tiny_models: TinyPair, spec: EngineSpec, says: str) -> None:
    with pytest.raises(AgentFailure, match=says):
        tiny_models.engine(spec)
    assert prompt_lookup.build(EngineSpec("prompt_lookup", draft_k=1, draft_ngram=1), None)


def test_a_tree_without_a_draft_model_is_refused() -> None:
    with pytest.raises(AgentFailure, match="needs a draft model"):
        static_tree.build(EngineSpec("static_tree", draft_widths=(2,)), None)
