"""One engine setting: strategy, drafting, storage."""

from __future__ import annotations

from dataclasses import dataclass

from device_agent.protocol.calibrations import EdgeCalibration, PredictorCalibration
from device_agent.protocol.cores import ANYWHERE, CoresSpec


@dataclass(frozen=True)
class StreamCosts:
    """What splitting DRAM between ring and pins rests on, for a usual round; calibrated, or these guesses."""

    bandwidth_mb_s: float = 1000.0  # flash, MB/s (10^6 bytes); a cap below it counts instead
    compute_ns_per_byte: float = 0.4  # a layer over the round's tree, per byte of the layer
    draft_s: float = 0.0
    projection_s: float = 0.0


@dataclass(frozen=True)
class StorageSpec:
    """Where the target's layers live while decoding."""

    mode: str = "flash"  # flash: streamed through a ring | resident: all in DRAM | mmap: left to the page cache
    flash_bandwidth_mb_s: float | None = None  # cap in MB/s (10^6 bytes); None: as fast as the disk
    chunk_kib: int = 4096  # one read request, KiB
    reader_threads: int = 2  # requests that the flash has at a time
    ring_slots: int = 3  # layer-sized DRAM slots, at least 2; with pinning, or prefetch and a budget, planned instead
    prefetch: bool = False  # read across rounds: the next round's first layers while the drafter works
    pinning: bool = False  # keep layers in DRAM as far as the budget allows
    costs: StreamCosts = StreamCosts()


@dataclass(frozen=True)
class DraftingSpec:
    """How trees are drafted. All but `trim_vocabulary` and `requantize` is for lever."""

    enabled: bool = True  # False: rounds verify the last token alone
    objective: str = "latency"  # latency | energy | edp: what trees are grown for
    trim_vocabulary: int = 0  # rows of the draft's output projection: the prompt's and most frequent tokens; 0: all
    requantize: str | None = None  # tensor type for draft layers whose own no kernel has a layout for; None: none
    max_nodes: int = 62  # safety caps: draft tokens verified in a round
    max_depth: int = 48  # and on a branch
    edges: EdgeCalibration = EdgeCalibration()


@dataclass(frozen=True)
class PruningSpec:
    """Dropping nodes between the target's layers: for lever, where a predictor was calibrated."""

    enabled: bool = False
    target_recall: float = 0.99  # share of the tokens that would be accepted which must survive
    layers: tuple[int, ...] = ()  # after which nodes may go; empty: all that the predictor knows
    predictor: PredictorCalibration = PredictorCalibration()


@dataclass(frozen=True)
class EngineSpec:
    """One engine setting: what a trial compares."""

    strategy: str = "autoregressive"  # a file of engine/strategies
    draft_k: int = 0  # chain, prompt_lookup: draft tokens a round
    draft_widths: tuple[int, ...] = ()  # static_tree: children of each node, by depth
    draft_ngram: int = 0  # prompt_lookup: tokens of the longest n-gram looked up
    drafting: DraftingSpec = DraftingSpec()
    pruning: PruningSpec = PruningSpec()
    storage: StorageSpec = StorageSpec()
    dram_budget_mb: float | None = None  # cap on the process, MB (10^6 bytes); None: no cap
    placement: str = "cpu"  # of draft, verification and projections: cpu | npu, the first accelerator | auto, by cost
    threads: int = 2  # 0 with cores.auto
    cores: CoresSpec = ANYWHERE
    n_ctx: int = 2048  # KV capacity, tokens
    repack: bool = True  # weights in the layout that the phone's kernels multiply fastest by; False: as in the GGUF
    trace_nodes: bool = False  # write nodes.jsonl
