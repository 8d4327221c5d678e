"""What was learnt before a job: how drafts are accepted (edges) and what passes cost (costs)."""

from __future__ import annotations

from dataclasses import dataclass

from device_agent.protocol.cores import ANYWHERE, CoresSpec


@dataclass(frozen=True)
class EdgeCalibration:
    """How the draft's probabilities become acceptance probabilities: a logistic model (engine.edges.edge_features)."""

    key: str = "none"  # what it was calibrated on; none: the built-in prior
    # of 1, logit of the draft's probability, log rank, log1p depth, mass left outside
    weights: tuple[float, ...] = (-0.15, 1.05, -0.3, 0.15, -0.48)
    target_pack: str = ""  # what it holds for; empty: anything
    draft_pack: str = ""
    engine_version: str = ""


@dataclass(frozen=True)
class EdgeTrace:
    """A place where the target chose a token: how the draft's best tokens looked there, and which was chosen."""

    request: str
    features: tuple[tuple[float, ...], ...]  # of each, the best first (engine.edges.edge_features)
    chosen: int  # index into these; -1: none of them
    tokens: tuple[int, ...] = ()  # of each


@dataclass(frozen=True)
class RecallPoint:
    """What pruning may do after one layer when it must keep a share of the tokens that would be accepted."""

    recall: float  # share of those tokens that are kept
    survival: float  # predicted; nodes below it may go
    removed: float  # share of the wrong nodes that are below it, on rounds that the fit did not see


@dataclass(frozen=True)
class LayerPredictor:
    """What the target's states after `layer` layers say of a tree's edges (engine.predictor)."""

    layer: int
    rank: int
    maps: str  # base64 of float16 (2·rank + 1, d_model): of a node's state, of its child's output row, the node's level
    weights: tuple[float, ...]  # of 1, logit of the edge's probability, log rank, log1p depth, score, level
    points: tuple[RecallPoint, ...]  # by rising recall


@dataclass(frozen=True)
class PredictorCalibration:
    """What a target's intermediate layers know of a draft's tokens; without layers, nothing is pruned."""

    key: str = "none"  # what it was learnt from
    layers: tuple[LayerPredictor, ...] = ()
    target_pack: str = ""
    draft_pack: str = ""
    engine_version: str = ""


@dataclass(frozen=True)
class CostTable:
    """Seconds of a pass by its tokens, or of a projection by its rows."""

    seconds: tuple[tuple[int, float], ...]
    per_slot_s: float = 0.0  # what each attended KV slot adds to each token
    static: bool = False  # a pass is padded to the next size of the table, and costs what that does


@dataclass(frozen=True)
class BackendCosts:
    """What one backend takes for the roles that it can play (engine.placement)."""

    backend: str
    costs: tuple[tuple[str, CostTable], ...]  # by role


@dataclass(frozen=True)
class CoreTrial:
    """A number of threads, where they and the flash reader's run, and what a usual round then takes."""

    threads: int
    cores: CoresSpec
    round_s: float = 0.0  # drafting and verifying, the target read meanwhile
    compute_s: float = 0.0  # of it, without waiting for the flash


@dataclass(frozen=True)
class CostCalibration:
    """What passes cost on one phone, measured by a job of kind costs: whoever is given it need not measure."""

    engine_version: str
    target_pack: str
    draft_pack: str
    threads: int  # given, or with core_trials the best found
    storage_mode: str
    io_mode: str
    draft: CostTable  # layers; with streamed layers, measured while the flash reads
    draft_project: CostTable  # onto the whole vocabulary
    verify: CostTable  # layers
    project: CostTable
    bandwidth_mb_s: tuple[tuple[int, int, float], ...] = ()  # flash: (chunk KiB, reader threads, MB/s)
    key: str = ""  # the host's name for it
    placement: str = "cpu"  # that it was measured with
    backends: tuple[BackendCosts, ...] = ()  # what there was to choose from, when placing is automatic
    cores: CoresSpec = ANYWHERE  # as threads
    core_trials: tuple[CoreTrial, ...] = ()  # what there was to choose from, when cores are automatic
