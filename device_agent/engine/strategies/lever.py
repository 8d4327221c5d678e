"""Trees grown by gain and cost: each round drafts and verifies what is worth its time, or energy, on this device.

After "Lever: Speculative LLM Inference on Smartphones" (arXiv 2605.16786). The root alone is always a candidate, so
where drafting does not pay this is plain decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from device_agent.engine.draft_tree import CHILDREN, DraftTree
from device_agent.engine.drafter import Drafter
from device_agent.engine.economy import Economy
from device_agent.engine.edges import EdgeModel, edge_features
from device_agent.engine.foresight import Foresight, foresight
from device_agent.engine.growth import WIDTHS, Limits, Outlook, Price, next_width, pick
from device_agent.engine.measuring import measure_rounds
from device_agent.engine.objective import SHARES
from device_agent.engine.prospects import Prospects
from device_agent.engine.strategy import Conditions, Proposal, Room
from device_agent.engine.tree import TokenTree
from device_agent.engine.tree_pruner import TreePruner
from device_agent.failure import AgentFailure
from device_agent.model.transformer import Transformer
from device_agent.protocol import DraftingSpec, EngineSpec, RoundTrace

FIRST_LOOKS = 3  # rounds of a trial that draft whatever is expected of it, to see what the draft is worth
LOOK_AGAIN = 0.01  # share of the time since the last draft pass that another such look may take
WEIGH_AGAIN_S = 1.5  # decoded between two weighings of a draft that was given up: they cost some 0.4 ms each
CATCH_UP = 8  # accepted tokens that a look has the draft read first, of those that it has not read


class Lever:
    def __init__(
        self, drafter: Drafter, spec: DraftingSpec, conditions: Conditions, foresight: Foresight | None = None
    ) -> None:
        self._drafter = drafter
        self._spec = spec
        self._conditions = conditions
        self._foresight = foresight
        self._pruner: TreePruner | None = None  # the last round's
        self._edges = EdgeModel(spec.edges)
        self._prospects = Prospects()
        self._measured: Economy | None = None
        self._looks = FIRST_LOOKS
        self._undrafted_s = 0.0  # decoded since the last draft pass
        self._unweighed_s = 0.0  # decoded since it was last considered what drafting is worth
        self._text = 0  # tokens of prompt and output
        self._tree = DraftTree(0)  # the last round's
        self._accepted: list[int] | None = None  # tokens below its root

    def _economy(self) -> Economy:
        """Measured when first needed, which is the warm-up if there is one."""
        if self._measured is None:
            shrinkage = self._foresight.shrinkage if self._foresight else None
            self._measured = Economy(measure_rounds(self._drafter, self._conditions), self._spec.objective, shrinkage)
        return self._measured

    def begin(self, prompt: Sequence[int]) -> None:
        self._economy()  # measuring overwrites KV caches
        self._drafter.begin(prompt)
        self._text, self._accepted = len(prompt), None

    def propose(self, root: int, room: Room) -> Proposal:
        if self._accepted is not None:
            self._tree.learn(self._edges, [*self._accepted, root])
        self._tree = tree = DraftTree(root)
        if self._given_up():
            return self._pruned(Proposal(tree.verified(1)), 0.0, 1.0)
        self._unweighed_s = 0.0
        limits, price = self._limits(room), self._economy().price(self._text)
        draft_s, passes = 0.0, 0
        while width := self._width(tree, draft_s, price, limits):
            draft_s += self._draft(tree, tree.candidates.leaves(limits.depth)[:width])
            passes += 1
        values = np.array([tree.candidates.values[node] for node in tree.candidates.ranked()])
        best = pick(values, draft_s, price, limits.nodes)
        proposal = Proposal(tree.verified(best.size), passes, tree.drafted)
        return self._pruned(proposal, draft_s, best.gain)

    def settle(self, tree: TokenTree, path: Sequence[int]) -> None:
        self._accepted = [tree.tokens[node] for node in path[1:]]
        self._tree.settle(self._drafter, self._accepted)
        self._text += len(path)

    def observe(self, trace: RoundTrace) -> None:
        passed = self._foresight.observe(trace.nodes_verified, self._pruner) if self._foresight and self._pruner else ()
        self._economy().observe(trace, passed)
        self._undrafted_s = 0.0 if trace.draft_passes else self._undrafted_s + trace.round_s
        self._unweighed_s += trace.round_s

    def report(self) -> dict[str, Any]:
        weights = [round(float(weight), 3) for weight in self._edges.weights]
        pruned = self._foresight.report() if self._foresight else {"pruning": "off"}
        return {"calibration": self._spec.edges.key, "edge_weights": weights} | self._economy().report() | pruned

    def _pruned(self, proposal: Proposal, draft_s: float, gain: float) -> Proposal:
        """With the round's pruner, or why it has none."""
        self._pruner = None
        if self._foresight is None:
            return proposal
        found = self._foresight.pruner(self._economy(), self._text, draft_s, gain, len(proposal.tree))
        if isinstance(found, str):
            return replace(proposal, pruning=found)
        self._pruner = found
        return replace(proposal, pruner=found, pruning="tried")

    def _limits(self, room: Room) -> Limits:
        nodes, depth = min(room.nodes, self._spec.max_nodes), min(room.depth, self._spec.max_depth)
        return Limits(nodes, depth, self._drafter.room if self._spec.enabled and nodes > 0 and depth > 0 else 0)

    def _given_up(self) -> bool:
        """Not drafting was best last time. Until the next look only the rate of plain decoding is learnt, which speaks
        for drafting when it was given up for a passing disturbance: weighed again now and then, not every round."""
        waits = self._undrafted_s > 0 and self._looks <= 0 and self._unweighed_s < WEIGH_AGAIN_S
        return waits and not self._may_look()

    def _may_look(self) -> bool:
        waiting = min(len(self._drafter.waiting), CATCH_UP)
        return self._economy().pass_s(self._text, waiting, 1)(0, 1) <= LOOK_AGAIN * self._undrafted_s

    def _width(self, tree: DraftTree, draft_s: float, price: Price, limits: Limits) -> int:
        """Leaves to expand in another pass; 0: draft no more."""
        if sum(tree.candidates.expanded) >= limits.expansions:
            return 0
        waiting = min(len(self._drafter.waiting), CATCH_UP)
        pass_s = self._economy().pass_s(self._text, waiting, max(WIDTHS))
        width = next_width(tree.candidates, draft_s, price, Outlook(self._prospects.cases(), pass_s), limits)
        if width or tree.drafted:
            return width
        return 1 if self._looks > 0 or self._may_look() else 0

    def _draft(self, tree: DraftTree, leaves: Sequence[int]) -> float:
        """One pass; returns its seconds."""
        is_first = not tree.drafted
        self._looks -= 1 if is_first else 0
        self._drafter.leave_out(CATCH_UP)
        waiting, started = self._drafter.waiting, perf_counter()
        revealed = tree.expand(self._drafter, self._edges, leaves)
        if is_first and self._undrafted_s:
            self._look_back(waiting, tree.expanded.tokens[0])
        for edges in revealed:
            self._prospects.note(edges)
        seconds = perf_counter() - started
        self._economy().drafted(len(waiting) + len(leaves), self._text, seconds)
        return seconds

    def _look_back(self, waiting: Sequence[int], root: int) -> None:
        """After rounds without drafts: what the draft would have said of their last tokens, and how right it was."""
        self._prospects.forget()
        for row, token in zip(self._drafter.would_have(CHILDREN), [*waiting[1:], root], strict=False):
            features = edge_features([prob for _, prob in row], 1)
            self._prospects.note(self._edges.edges(features))
            self._edges.observe(features, np.array([child == token for child, _ in row]))


def build(spec: EngineSpec, draft: Transformer | None, conditions: Conditions) -> Lever:
    if draft is None:
        raise AgentFailure("bad_spec", "strategy 'lever' needs a draft model, and this job has none")
    objective = spec.drafting.objective
    if objective not in SHARES:
        raise AgentFailure("bad_spec", f"objective {objective!r} is not one of {', '.join(SHARES)}")
    if objective != "latency" and conditions.energy.method == "none":
        raise AgentFailure("bad_spec", f"objective {objective!r} needs a power model, and this phone has none")
    drafter = Drafter(draft, spec.drafting.trim_vocabulary)
    return Lever(drafter, spec.drafting, conditions, foresight(spec.pruning, conditions.target))
