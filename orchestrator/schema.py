"""Typed shape of a sweep's configuration: the one crossing from OmegaConf to dataclasses.

Types are checked when a configuration is composed, ranges in `__post_init__`, which runs in `OmegaConf.to_object` for
a whole batch before a phone is touched (and for the schema's own defaults, where values may be missing). Sizes in MB
are 10^6 bytes, in KiB 1024 bytes; times are seconds.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from device_agent.protocol.cores import parse_cores
from orchestrator.errors import ConfigError
from orchestrator.strategies import strategy_names

PLACEMENTS = ("cpu", "npu", "auto")
STORAGE_MODES = ("flash", "resident", "mmap")
REQUANTIZED = ("Q4_0", "Q4_1", "Q8_0")
OBJECTIVES = ("latency", "energy", "edp")
PRUNING = ("auto", "off")
SOURCES = ("humaneval",)
RUNTIMES = ("ray", "inline")
EXISTING = ("skip", "rerun")
ORDERS = ("blocked", "random", "paired")
MAX_NODES = 512
AUTO_CORES = "auto"
SWEEP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass
class PairConf:
    name: str = MISSING  # as `lever models list` shows it


@dataclass
class DraftingConf:
    """A strategy takes what it uses of this; one that is not built in is given all of it."""

    model: bool = True  # load the pair's draft model; autoregressive and prompt_lookup never do
    k: int = 5  # chain, prompt_lookup: draft tokens a round
    widths: list[int] = field(default_factory=list)  # static_tree: children of each node, by depth
    ngram: int = 3  # prompt_lookup: tokens of the longest n-gram looked up
    enabled: bool = True  # lever: draft at all; false leaves plain decoding with all the rest
    objective: str = "latency"  # lever: latency | energy | edp, what trees are grown for
    trim_vocabulary: int = 0  # tokens that the draft model can say: frequent ones and the text's own; 0: all
    requantize: str | None = (
        None  # with repack, Q4_0 | Q4_1 | Q8_0 for draft layers that no fast kernel takes; null: no
    )
    max_nodes: int = 62  # lever: safety caps, draft tokens verified in a round
    max_depth: int = 48  # lever: and on a branch

    def __post_init__(self) -> None:
        _within("engine.drafting.k", self.k, 1, 64)
        _within("engine.drafting.ngram", self.ngram, 1, 16)
        _one_of("engine.drafting.objective", self.objective, OBJECTIVES)
        if self.requantize is not None:
            _one_of("engine.drafting.requantize", self.requantize, REQUANTIZED)
        _within("engine.drafting.trim_vocabulary", self.trim_vocabulary, 0, 10_000_000)
        _within("engine.drafting.max_nodes", self.max_nodes, 1, 62)
        _within("engine.drafting.max_depth", self.max_depth, 1, 62)
        for width in self.widths:
            _within("engine.drafting.widths", width, 1, 64)
        nodes = sum(math.prod(self.widths[: depth + 1]) for depth in range(len(self.widths)))
        if nodes > MAX_NODES:
            raise ConfigError(
                f"engine.drafting.widths={self.widths} is a tree of {nodes} nodes, at most {MAX_NODES} are allowed",
                "Narrow or shorten it: [4,2,1,1] has 28 nodes.",
            )


@dataclass
class PruningConf:
    """Dropping nodes between the target's layers: for lever, where `lever calibrate` found that it pays."""

    enabled: str = "auto"  # auto: where it pays | off
    target_recall: float = 0.99  # share of the tokens that would be accepted which must survive
    layers: list[int] = field(default_factory=list)  # after which nodes may go; empty: where calibration found it best

    def __post_init__(self) -> None:
        _one_of("engine.pruning.enabled", self.enabled, PRUNING)
        _within("engine.pruning.target_recall", self.target_recall, 0.5, 1)
        for layer in self.layers:
            _within("engine.pruning.layers", layer, 1, 1000)


@dataclass
class StorageConf:
    """Where the target's layers live while decoding; all but `mode` is for flash."""

    mode: str = "flash"  # flash | resident | mmap
    flash_bandwidth_mb_s: float | None = None  # cap, MB/s; null: as fast as the phone's flash
    chunk_kib: int = 4096  # one read request, KiB, a multiple of 4
    ring_slots: int = 3  # layer-sized DRAM slots; with a budget and prefetch or pinning, planned instead
    prefetch: bool = False  # read the next round's first layers while the drafter works
    pinning: bool = False  # keep layers in DRAM as far as the budget allows; without a budget, none

    def __post_init__(self) -> None:
        _one_of("engine.storage.mode", self.mode, STORAGE_MODES)
        _within("engine.storage.flash_bandwidth_mb_s", self.flash_bandwidth_mb_s, 1, 100_000)
        _within("engine.storage.chunk_kib", self.chunk_kib, 4, 65_536)
        _within("engine.storage.ring_slots", self.ring_slots, 2, 64)
        if self.chunk_kib % 4:
            raise ConfigError(
                f"engine.storage.chunk_kib={self.chunk_kib} is not a multiple of 4",
                "Direct reads need whole 4 KiB blocks.",
            )


@dataclass
class MemoryConf:
    dram_budget_mb: float | None = None  # cap on the agent process, MB; null: no cap

    def __post_init__(self) -> None:
        _within("engine.memory.dram_budget_mb", self.dram_budget_mb, 1, 1_000_000)


@dataclass
class EngineConf:
    strategy: str = MISSING  # a file of device_agent/engine/strategies
    drafting: DraftingConf = field(default_factory=DraftingConf)
    pruning: PruningConf = field(default_factory=PruningConf)
    storage: StorageConf = field(default_factory=StorageConf)
    memory: MemoryConf = field(default_factory=MemoryConf)
    placement: str = "cpu"  # of drafting, verifying, projecting: cpu | npu, the first accelerator | auto, by cost
    threads: int = 2  # of the kernels, on the CPU
    cores: str = "any"  # that they run on: any | a list such as 4-7 or 0-2+5 | auto, and the threads: by calibration
    reader_cores: str = "any"  # that the flash reader runs on: any | a list
    n_ctx: int = 2048  # KV capacity, tokens
    repack: bool = True  # weights in the layout that the phone's kernels multiply fastest by; false: as in the GGUF
    trace_nodes: bool | None = None  # record every verified node; null: for strategies that draft

    def __post_init__(self) -> None:
        _one_of("engine.strategy", self.strategy, strategy_names())
        if self.strategy == "static_tree" and not self.drafting.widths:
            raise ConfigError(
                "engine.strategy=static_tree has no engine.drafting.widths",
                "Use engine=static_tree, or give the children of each node by depth: engine.drafting.widths=[4,2,1]",
            )
        _one_of("engine.placement", self.placement, PLACEMENTS)
        if self.placement != "cpu" and self.storage.mode == "mmap":
            raise ConfigError(
                f"engine.placement={self.placement} uploads weights, and engine.storage.mode=mmap only maps them",
                "Use engine.storage.mode=flash or resident, or engine.placement=cpu.",
            )
        _within("engine.threads", self.threads, 1, 256)
        self._check_cores()
        _within("engine.n_ctx", self.n_ctx, 32, 131_072)

    def _check_cores(self) -> None:
        if self.cores == AUTO_CORES:
            if self.placement != "cpu" or self.reader_cores != "any":
                raise ConfigError(
                    f"engine.cores=auto chooses the reader's cores too, for engine.placement=cpu, and here are "
                    f"engine.reader_cores={self.reader_cores} and engine.placement={self.placement}",
                    "Leave both out, or list the cores: engine.cores=4-7.",
                )
            return
        listed = _cores("engine.cores", self.cores)
        _cores("engine.reader_cores", self.reader_cores)
        if listed and self.threads > len(listed):
            raise ConfigError(
                f"engine.threads={self.threads} do not fit on the {len(listed)} cores of engine.cores={self.cores}",
                "Use at most one thread on a core.",
            )


@dataclass
class SamplingConf:
    """Tempered first, then cut to the tokens that top-k, then top-p and min-p keep."""

    temperature: float = 0.0  # 0: greedy, and the rest does not matter
    top_k: int = 0  # 0: all
    top_p: float = 1.0  # share of the probability of what top-k keeps
    min_p: float = 0.0  # share of the best token's probability
    seed: int = 0

    def __post_init__(self) -> None:
        _within("workload.sampling.temperature", self.temperature, 0, 100)
        _within("workload.sampling.top_k", self.top_k, 0, 10_000_000)
        _within("workload.sampling.top_p", self.top_p, 1e-6, 1)
        _within("workload.sampling.min_p", self.min_p, 0, 1)
        _within("workload.sampling.seed", self.seed, 0, 2**53)


@dataclass
class WorkloadConf:
    """Prompts from exactly one place: inline, a JSONL file or a bundled source; `limit` takes the first n."""

    name: str = MISSING
    prompts: list[dict[str, Any]] = field(default_factory=list)  # {id, text | messages: [{role, content}]}
    file: str | None = None  # JSONL, one such prompt a line
    source: str | None = None  # humaneval
    limit: int | None = None
    max_new_tokens: int = 32
    chat: bool = True  # apply the model's chat template to `text`
    sampling: SamplingConf = field(default_factory=SamplingConf)

    def __post_init__(self) -> None:
        _within("workload.max_new_tokens", self.max_new_tokens, 1, 100_000)
        _within("workload.limit", self.limit, 1, 1_000_000)
        if self.source is not None:
            _one_of("workload.source", self.source, SOURCES)
        given = [name for name in ("prompts", "file", "source") if getattr(self, name)]
        if len(given) != 1 and self.name != MISSING:
            raise ConfigError(
                f"workload {self.name!r} has prompts from {' and '.join(given)}"
                if given
                else f"workload {self.name!r} has no prompts",
                "Give exactly one of workload.file=PROMPTS.jsonl, workload.source and workload.prompts.",
            )


@dataclass
class ScheduleConf:
    repeats: int = 1
    order: str = "blocked"  # a phone's trials: as given | random | paired: all of one repeat, shuffled, then the next
    seed: int = 0  # of the shuffling
    priority: int = 0  # higher goes first; sweeps of one priority share the phones
    exclusive_host: bool = True  # timed attempts on one host one at a time
    max_attempts: int = 3
    deadline_s: float = 3600.0  # one attempt, from the agent's start
    fail_fast: bool = False  # the first failed trial cancels the rest of the sweep: max_failures=1
    max_failures: int | None = None  # so many failed trials cancel the rest of the sweep; null: it goes on

    def __post_init__(self) -> None:
        _within("schedule.repeats", self.repeats, 1, 1000)
        _one_of("schedule.order", self.order, ORDERS)
        _within("schedule.seed", self.seed, 0, 2**53)
        _within("schedule.priority", self.priority, -1000, 1000)
        _within("schedule.max_attempts", self.max_attempts, 1, 20)
        _within("schedule.deadline_s", self.deadline_s, 1, 7 * 86_400)
        _within("schedule.max_failures", self.max_failures, 1, 1_000_000)


@dataclass
class LeverConf:
    pair: PairConf = field(default_factory=PairConf)
    engine: EngineConf = field(default_factory=EngineConf)
    workload: WorkloadConf = field(default_factory=WorkloadConf)
    schedule: ScheduleConf = field(default_factory=ScheduleConf)
    phones: str = "each"  # each | any | names | soc:… | tag:… | ram_gb_min:…; commas join
    sweep: str | None = None  # the sweep's name; null: from its pair and trials
    runtime: str = "ray"  # ray: the farm's service | inline: this process, no service
    on_existing: str = "skip"  # trials that are done already: skip | rerun
    detach: bool = False  # queue it and return at once; `lever attach` follows it

    def __post_init__(self) -> None:
        _one_of("runtime", self.runtime, RUNTIMES)
        _one_of("on_existing", self.on_existing, EXISTING)
        if self.detach and self.runtime == "inline":
            raise ConfigError("detach=true needs a farm that goes on without us", "Leave runtime=inline out.")
        if self.sweep is not None and not SWEEP_NAME.fullmatch(self.sweep):
            raise ConfigError(
                f"sweep={self.sweep!r} is no name for a sweep",
                "Use up to 100 letters, digits, dots, dashes and underscores, a letter or digit first.",
            )


def schema_keys(schema: Any = LeverConf, prefix: str = "") -> Iterator[tuple[str, bool]]:
    """(dotted name, whether it is a value and no group) of every key, in order."""
    for item in dataclasses.fields(schema):
        nested: Any = item.default_factory
        is_group = dataclasses.is_dataclass(nested)
        yield prefix + item.name, not is_group
        if is_group:
            yield from schema_keys(nested, f"{prefix}{item.name}.")


def _within(key: str, value: float | None, low: float, high: float) -> None:
    if value is not None and not (math.isfinite(value) and low <= value <= high):
        raise ConfigError(f"{key}={value} is out of range", f"Use a value from {low:.10g} to {high:.10g}.")


def _cores(key: str, text: str) -> tuple[int, ...]:
    try:
        return parse_cores(text)
    except ValueError as error:
        raise ConfigError(f"{key}={text}: {error}", "List cores as 4-7 or 0-2+5, or use any.") from None


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in (*allowed, MISSING):
        raise ConfigError(f"{key}={value!r} is not known", f"Use one of: {', '.join(allowed)}.")
