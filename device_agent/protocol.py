"""What the controller and the agent say to each other: versioned JSON files, standard library only.

A job folder `jobs/<attempt_id>/` holds `spec.json` (JobSpec, written by the host), `events.jsonl` (one
AgentEvent a line, appended and flushed), `rounds.jsonl` (one RoundTrace a line), `nodes.jsonl` (one NodeTrace a
line, when asked for), `result.json` (JobResult, renamed into place last), `pid`, `rc` and `log`. A pack folder
`packs/<pack_hash>/` holds `model.json` (PackManifest) and its chunk files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from device_agent.wire import WireError, from_json, to_json

__all__ = [
    "ENGINE_VERSION",
    "PROTOCOL_VERSION",
    "AgentError",
    "AgentEvent",
    "ChunkSpec",
    "CostCalibration",
    "CostTable",
    "DraftingSpec",
    "EdgeCalibration",
    "EdgeTrace",
    "EnergySpec",
    "EngineSpec",
    "ExactnessCount",
    "ExtentSpec",
    "HyperParams",
    "JobResult",
    "JobSpec",
    "NodeTrace",
    "PackManifest",
    "PromptSpec",
    "RequestResult",
    "RoundTrace",
    "SamplingSpec",
    "StorageSpec",
    "StreamCosts",
    "TensorSpec",
    "WireError",
    "from_json",
    "to_json",
]

PROTOCOL_VERSION = 1
ENGINE_VERSION = "0.2.0"  # part of every trial's identity: raise it when outputs or timings may change


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
class EdgeCalibration:
    """How the draft's probabilities become acceptance probabilities: a logistic model (engine.edges.edge_features)."""

    key: str = "none"  # what it was calibrated on; none: the built-in prior
    # of 1, logit of the draft's probability, log rank, log1p depth, mass left outside
    weights: tuple[float, ...] = (-0.15, 1.05, -0.3, 0.15, -0.48)
    target_pack: str = ""  # what it holds for; empty: anything
    draft_pack: str = ""
    engine_version: str = ""


@dataclass(frozen=True)
class CostTable:
    """Seconds of a pass by its tokens, or of a projection by its rows."""

    seconds: tuple[tuple[int, float], ...]
    per_slot_s: float = 0.0  # what each attended KV slot adds to each token


@dataclass(frozen=True)
class CostCalibration:
    """What passes cost on one phone, measured by a job of kind costs: whoever is given it need not measure."""

    engine_version: str
    target_pack: str
    draft_pack: str
    threads: int
    storage_mode: str
    io_mode: str
    draft: CostTable  # layers; with streamed layers, measured while the flash reads
    draft_project: CostTable  # onto the whole vocabulary
    verify: CostTable  # layers
    project: CostTable
    bandwidth_mb_s: tuple[tuple[int, int, float], ...] = ()  # flash: (chunk KiB, reader threads, MB/s)
    key: str = ""  # the host's name for it


@dataclass(frozen=True)
class DraftingSpec:
    """How trees are drafted. All but `trim_vocabulary` is for lever."""

    enabled: bool = True  # False: rounds verify the last token alone
    objective: str = "latency"  # latency | energy | edp: what trees are grown for
    trim_vocabulary: int = 0  # rows of the draft's output projection: the prompt's and most frequent tokens; 0: all
    max_nodes: int = 62  # safety caps: draft tokens verified in a round
    max_depth: int = 48  # and on a branch
    edges: EdgeCalibration = EdgeCalibration()


@dataclass(frozen=True)
class EngineSpec:
    """One engine setting: what a trial compares."""

    strategy: str = "autoregressive"  # a file of engine/strategies
    draft_k: int = 0  # chain, prompt_lookup: draft tokens a round
    draft_widths: tuple[int, ...] = ()  # static_tree: children of each node, by depth
    draft_ngram: int = 0  # prompt_lookup: tokens of the longest n-gram looked up
    drafting: DraftingSpec = DraftingSpec()
    storage: StorageSpec = StorageSpec()
    dram_budget_mb: float | None = None  # cap on the process, MB (10^6 bytes); None: no cap
    threads: int = 2
    n_ctx: int = 2048  # KV capacity, tokens
    trace_nodes: bool = False  # write nodes.jsonl


@dataclass(frozen=True)
class SamplingSpec:
    """How a token is chosen: the tempered distribution, cut to what the three filters keep, in this order."""

    temperature: float = 0.0  # 0: greedy, and nothing below matters
    top_k: int = 0  # the k best; 0: all
    top_p: float = 1.0  # of those the fewest best that make up this share of their probability
    min_p: float = 0.0  # and with at least this share of the best one's probability
    seed: int = 0  # with request id and position it makes the random stream


@dataclass(frozen=True)
class EnergySpec:
    """Stated power model of a virtual phone: P = idle + cpu_w_per_core·busy cores + flash_j_per_gb·GB/s."""

    method: str = "none"  # model | none
    idle_w: float = 0.0
    cpu_w_per_core: float = 0.0
    flash_j_per_gb: float = 0.0


@dataclass(frozen=True)
class PromptSpec:
    id: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class JobSpec:
    """Everything the agent needs for one attempt; text stays on the host."""

    version: int
    attempt_id: str
    trial_id: str
    target_pack: str  # pack hash: the folder's name under packs_dir
    draft_pack: str | None
    engine: EngineSpec
    prompts: tuple[PromptSpec, ...]
    max_new_tokens: int
    stop_token_ids: tuple[int, ...]
    packs_dir: str = "../../packs"  # relative to the job folder, or absolute
    warmup_tokens: int = 4  # decoded before the first timed request, recorded but not counted; 0: none
    check_exactness: bool = True
    energy: EnergySpec = EnergySpec()
    flash_profile_mb_s: float | None = None  # a virtual phone's own flash bandwidth: another cap
    sampling: SamplingSpec = SamplingSpec()
    costs: CostCalibration | None = None  # None: measured in the warm-up, by strategies that need them
    kind: str = "decode"  # or a calibration: edges (acceptance, from decoding `prompts`) | costs (no prompts)
    max_rounds: int = 0  # edges: no further prompt after so many rounds; 0: all prompts


@dataclass(frozen=True)
class AgentEvent:
    """A line of events.jsonl. kinds: started, loaded, warmed_up, request_done, progress (with the output ids that are
    new since the one before), checking, done, failed."""

    kind: str
    time_s: float  # unix time on the phone
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RoundTrace:
    """One verification round (ENGINE §10); times in seconds, sizes in bytes."""

    request: str
    round: int
    draft_passes: int
    nodes_drafted: int
    nodes_verified: int  # tokens of the tree that the target checked, the root included
    nodes_pruned: int
    accepted_tokens: int
    acceptance_length: int
    draft_s: float
    read_wait_s: float
    verify_compute_s: float
    projection_s: float
    round_s: float
    read_bytes: int
    rows_projected: int
    n_kv: int


@dataclass(frozen=True)
class NodeTrace:
    """One token that a round verified, the root included (ENGINE §10).

    Probabilities are plain softmax, before temperature and filters. The target's come from the exactness check, so
    that they cost nothing while timed: they are known along the emitted text, and null elsewhere or without a check.
    """

    request: str
    round: int
    node: int  # within the round; 0 is the root
    parent: int  # node; -1 for the root
    depth: int
    rank: int  # among its siblings, as the drafter ordered them
    token: int
    draft_prob: float | None  # given the parent; null for what no model drafted
    edge_prob: float | None  # the same, calibrated to acceptance
    target_prob: float | None  # the target's, of this token after its parent
    target_top: tuple[tuple[int, float], ...] | None  # the target's best few (token, probability) after this node
    accepted: bool  # emitted
    pruned_at_layer: int | None = None


@dataclass(frozen=True)
class EdgeTrace:
    """A place where the target chose a token: how the draft's best tokens looked there, and which was chosen."""

    request: str
    features: tuple[tuple[float, ...], ...]  # of each, the best first (engine.edges.edge_features)
    chosen: int  # index into these; -1: none of them


@dataclass(frozen=True)
class ExactnessCount:
    """Teacher-forced check along one emitted text: every position's choice against the reference pass."""

    exact_tokens: int
    tie_tokens: int
    diverged_tokens: int
    diverged_at: int | None  # first diverged position, 0-based
    tie_tolerance: float  # logit margin, measured between batch sizes of the same kernels


@dataclass(frozen=True)
class RequestResult:
    id: str
    prompt_tokens: int
    output_ids: tuple[int, ...]
    margins: tuple[float, ...]  # where each output token was chosen, the change of two logits that could undo it:
    # greedy, best minus second; sampled, to the nearer end of the token's span of the distribution, at most 100
    stop_reason: str  # stop_token | max_new_tokens | kv_full
    ttft_s: float
    tpot_s: float | None  # None for fewer than two output tokens
    round_s_p50: float | None
    round_s_p95: float | None
    top5_after_prompt: tuple[tuple[int, float], ...]  # (token id, logit)
    exactness: ExactnessCount | None


@dataclass(frozen=True)
class AgentError:
    """kinds: bad_spec, pack_corrupt, budget_too_small, out_of_memory, disk_full, io_error, nan_logits, engine_error."""

    kind: str
    message: str
    detail: str = ""  # traceback for the log, never shown first


@dataclass(frozen=True)
class JobResult:
    version: int
    attempt_id: str
    trial_id: str
    engine_version: str
    ok: bool
    error: AgentError | None
    requests: tuple[RequestResult, ...]
    metrics: dict[str, float]  # ENGINE §10 trial keys that exist; absent rather than NaN
    tags: dict[str, str]  # io_mode, flash_cap_mb_s, accelerator, energy_method, exactness, void.<quantity>
    plan: dict[str, Any]  # the DRAM plan, thread counts, kernel build
    edges: tuple[EdgeTrace, ...] = ()  # of a job of kind edges
    costs: CostCalibration | None = None  # of a job of kind costs


@dataclass(frozen=True)
class ChunkSpec:
    """One file of a pack; its length is a multiple of 4096 so that O_DIRECT can read all of it."""

    file: str
    nbytes: int
    sha256: str


@dataclass(frozen=True)
class ExtentSpec:
    """Bytes that are read together, in order: `layer.N`, `embedding`, `output`, `globals` (norms, rope factors)."""

    name: str
    nbytes: int  # sum of its chunks
    chunks: tuple[ChunkSpec, ...]  # one for a layer up to 64 MiB; larger extents are cut at 32 MiB


@dataclass(frozen=True)
class TensorSpec:
    name: str  # as in the GGUF
    ggml_type: str  # F32, F16, Q4_K, …
    shape: tuple[int, ...]  # ggml order: shape[0] is contiguous
    extent: str
    offset: int  # bytes from the extent's start, a multiple of 64
    nbytes: int


@dataclass(frozen=True)
class HyperParams:
    architecture: str  # llama | qwen2 | qwen3
    n_layers: int
    d_model: int
    d_ff: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    n_vocab: int  # rows of the output projection
    rms_eps: float
    rope_theta: float
    rope_dims: int
    n_ctx_train: int


@dataclass(frozen=True)
class PackManifest:
    """model.json of a pack. The pack's hash is the sha256 of this file's bytes."""

    version: int
    model_name: str
    source_sha256: str  # of the GGUF
    hyper: HyperParams
    extents: tuple[ExtentSpec, ...]  # layers in the order that they are read
    tensors: tuple[TensorSpec, ...]  # tied embeddings: output.weight is absent, token_embd.weight is both
