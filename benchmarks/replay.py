"""Recorded rounds under another tree policy, offline: `python -m benchmarks.replay FOLDER` prints what it gives.

FOLDER holds a run's artifacts: result.json, rounds.parquet, nodes.parquet. A policy chooses from each recorded tree the
nodes that it would have had verified. Where that cuts the accepted path short, the next round begins at the token
that the target chose there, over what the recorded tree has below it. So any policy that keeps part of what was
verified is replayed exactly, token by token; what no round ever verified is not in the record, and a policy that
would have drafted more is not replayed by it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.headroom import headroom
from benchmarks.round_costs import Curves, stream
from device_agent.pipeline_model import RoundCosts, Stream, total_seconds
from device_agent.protocol import NodeTrace, RoundTrace

Tree = Mapping[int, NodeTrace]  # by node; parents come first, and the first is the root
Policy = Callable[[Tree], Collection[int]]
"""From a tree to its nodes that are verified: the root, and no node without its parent."""


@dataclass(frozen=True)
class Recording:
    rounds: tuple[RoundTrace, ...]
    trees: Mapping[tuple[str, int], Tree]  # by request and round
    plan: Mapping[str, Any]  # JobResult.plan


@dataclass(frozen=True)
class Replayed:
    tokens: int
    rounds: int
    nodes: int  # verified
    seconds: float  # modelled

    @property
    def tpot_s(self) -> float:
        return self.seconds / self.tokens


def read(folder: Path) -> Recording:
    """Raises OSError, and KeyError for files of an older engine."""
    rounds = pq.read_table(folder / "rounds.parquet").to_pylist()
    trees: dict[tuple[str, int], dict[int, NodeTrace]] = {}
    for row in pq.read_table(folder / "nodes.parquet").to_pylist():
        top = row["target_top"] and tuple((best["token"], best["prob"]) for best in row["target_top"])
        node = NodeTrace(**{**row, "target_top": top})
        trees.setdefault((node.request, node.round), {})[node.node] = node
    recorded = tuple(RoundTrace(**row) for row in rounds if (row["request"], row["round"]) in trees)
    return Recording(recorded, trees, json.loads((folder / "result.json").read_bytes())["plan"])


def replay(recording: Recording, policy: Policy) -> Replayed:
    """By the job's own cost curves. A draft pass expands a level of the kept tree."""
    curves, flash = Curves.of(recording.plan), stream(recording.plan)
    found = [chosen for trace in recording.rounds for chosen in _rounds(_tree(recording, trace), policy)]
    costs = [_costs(kept, taken, curves, flash) for kept, taken in found]
    tokens, nodes = sum(taken for _, taken in found), sum(len(kept) for kept, _ in found)
    return Replayed(tokens, len(found), nodes, total_seconds(flash, costs))


def everything(tree: Tree) -> Collection[int]:
    return tree.keys()


def only_accepted(tree: Tree) -> Collection[int]:
    """The perfect tree."""
    return [node for node, trace in tree.items() if trace.accepted]


def best(size: int) -> Policy:
    """The root and the `size − 1` nodes most likely accepted, by the recorded edge (else draft) probabilities."""

    def policy(tree: Tree) -> Collection[int]:
        root, values = next(iter(tree)), dict[int, float]()
        for node, trace in tree.items():
            edge = trace.edge_prob if trace.edge_prob is not None else trace.draft_prob
            values[node] = 1.0 if node == root else values[trace.parent] * (1.0 if edge is None else edge)
        return sorted(values, key=lambda node: (-values[node], node))[:size]

    return policy


def _tree(recording: Recording, trace: RoundTrace) -> Tree:
    return recording.trees[trace.request, trace.round]


def _rounds(tree: Tree, policy: Policy) -> Iterator[tuple[list[NodeTrace], int]]:
    """What rounds verify until the tokens of the recorded one are emitted, and how many of them each emits."""
    path = [node for node, trace in tree.items() if trace.accepted]
    start = 0
    while start < len(path):
        below = _below(tree, path[start])
        kept = set(policy(below))
        taken = next((n for n, node in enumerate(path[start:]) if node not in kept), len(path) - start)
        yield [below[node] for node in below if node in kept], max(1, taken)
        start += max(1, taken)


def _below(tree: Tree, root: int) -> Tree:
    found = {root: tree[root]}
    for node, trace in tree.items():
        if trace.parent in found:
            found[node] = trace
    return found


def _costs(kept: Sequence[NodeTrace], taken: int, curves: Curves, flash: Stream) -> RoundCosts:
    parents = {trace.parent for trace in kept[1:]}
    levels = Counter(trace.depth for trace in kept if trace.node in parents)
    return RoundCosts(
        compute_s=curves.verify.of_one(len(kept)) / len(flash.read_s),
        draft_s=sum(curves.draft.of_one(count) for count in levels.values()),
        projection_s=curves.project.of_one(taken),
    )


def main(folder: Path) -> None:
    recording = read(folder)
    policies: dict[str, Policy] = {"as recorded": everything} | {f"best {n}": best(n) for n in (1, 2, 4, 8, 16, 32)}
    for name, policy in (policies | {"only accepted": only_accepted}).items():
        found = replay(recording, policy)
        print(f"{name:14} {found.tpot_s:.4f} s a token, {found.tokens / found.rounds:.2f} tokens a round")
    for name, factor in headroom(recording.rounds, recording.plan).items():
        print(f"headroom, {name}: {factor:.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
