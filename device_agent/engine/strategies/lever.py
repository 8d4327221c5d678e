"""Trees grown by gain and cost: each round drafts and verifies what is worth its time, or energy, on this device.

After "Lever: Speculative LLM Inference on Smartphones" (arXiv 2605.16786). The root alone is always a candidate, so
where drafting does not pay this is plain decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from device_agent.engine.draft_tree import DraftTree
from device_agent.engine.drafter import Drafter
from device_agent.engine.economy import Economy
from device_agent.engine.edges import EdgeModel
from device_agent.engine.growth import WIDTHS, Limits, Outlook, Price, next_width, pick
from device_agent.engine.measuring import measure_rounds
from device_agent.engine.objective import SHARES
from device_agent.engine.prospects import Prospects
from device_agent.engine.strategy import Conditions, Proposal, Room
from device_agent.engine.tree import TokenTree
from device_agent.failure import AgentFailure
from device_agent.model.transformer import Transformer
from device_agent.protocol import DraftingSpec, EngineSpec, RoundTrace

FIRST_LOOKS = 3  # rounds of a trial that draft whatever is expected of it, to see what the draft is worth
LOOK_AGAIN = 0.01  # share of the time since the last draft pass that another such look may take


class Lever:
    def __init__(self, drafter: Drafter, spec: DraftingSpec, conditions: Conditions) -> None:
        self._drafter = drafter
        self._spec = spec
        self._conditions = conditions
        self._edges = EdgeModel(spec.edges)
        self._prospects = Prospects()
        self._measured: Economy | None = None
        self._looks = FIRST_LOOKS
        self._undrafted_s = 0.0  # decoded since the last draft pass
        self._text = 0  # tokens of prompt and output
        self._tree = DraftTree(0)  # the last round's
        self._accepted: list[int] | None = None  # tokens below its root

    def _economy(self) -> Economy:
        """Measured when first needed, which is the warm-up if there is one."""
        if self._measured is None:
            self._measured = Economy(measure_rounds(self._drafter, self._conditions), self._spec.objective)
        return self._measured

    def begin(self, prompt: Sequence[int]) -> None:
        self._economy()  # measuring overwrites KV caches
        self._drafter.begin(prompt)
        self._text, self._accepted = len(prompt), None

    def propose(self, root: int, room: Room) -> Proposal:
        if self._accepted is not None:
            self._tree.learn(self._edges, [*self._accepted, root])
        self._tree = tree = DraftTree(root)
        limits, price = self._limits(room), self._economy().price(self._text)
        draft_s, passes = 0.0, 0
        while width := self._width(tree, draft_s, price, limits):
            draft_s += self._draft(tree, tree.candidates.leaves(limits.depth)[:width])
            passes += 1
        values = np.array([tree.candidates.values[node] for node in tree.candidates.ranked()])
        size = pick(values, draft_s, price, limits.nodes).size
        return Proposal(tree.verified(size), passes, tree.drafted)

    def settle(self, tree: TokenTree, path: Sequence[int]) -> None:
        self._accepted = [tree.tokens[node] for node in path[1:]]
        self._tree.settle(self._drafter, self._accepted)
        self._text += len(path)

    def observe(self, trace: RoundTrace) -> None:
        self._economy().observe(trace)
        self._undrafted_s = 0.0 if trace.draft_passes else self._undrafted_s + trace.round_s

    def report(self) -> dict[str, Any]:
        weights = [round(float(weight), 3) for weight in self._edges.weights]
        return {"calibration": self._spec.edges.key, "edge_weights": weights} | self._economy().report()

    def _limits(self, room: Room) -> Limits:
        nodes, depth = min(room.nodes, self._spec.max_nodes), min(room.depth, self._spec.max_depth)
        return Limits(nodes, depth, self._drafter.room if self._spec.enabled and nodes > 0 and depth > 0 else 0)

    def _width(self, tree: DraftTree, draft_s: float, price: Price, limits: Limits) -> int:
        """Leaves to expand in another pass; 0: draft no more."""
        if sum(tree.candidates.expanded) >= limits.expansions:
            return 0
        pass_s = self._economy().pass_s(self._text, self._drafter.waiting, max(WIDTHS))
        width = next_width(tree.candidates, draft_s, price, Outlook(self._prospects.cases(), pass_s), limits)
        if width or tree.drafted:
            return width
        return 1 if self._looks > 0 or pass_s(0, 1) <= LOOK_AGAIN * self._undrafted_s else 0

    def _draft(self, tree: DraftTree, leaves: Sequence[int]) -> float:
        """One pass; returns its seconds."""
        self._looks -= 0 if tree.drafted else 1
        tokens, started = self._drafter.waiting + len(leaves), perf_counter()
        for edges in tree.expand(self._drafter, self._edges, leaves):
            self._prospects.note(edges)
        seconds = perf_counter() - started
        self._economy().drafted(tokens, self._text, seconds)
        return seconds


def build(spec: EngineSpec, draft: Transformer | None, conditions: Conditions) -> Lever:
    if draft is None:
        raise AgentFailure("bad_spec", "strategy 'lever' needs a draft model, and this job has none")
    objective = spec.drafting.objective
    if objective not in SHARES:
        raise AgentFailure("bad_spec", f"objective {objective!r} is not one of {', '.join(SHARES)}")
    if objective != "latency" and conditions.energy.method == "none":
        raise AgentFailure("bad_spec", f"objective {objective!r} needs a power model, and this phone has none")
    return Lever(Drafter(draft, spec.drafting.trim_vocabulary), spec.drafting, conditions)
