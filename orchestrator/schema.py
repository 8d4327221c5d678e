"""Typed shape of a sweep's configuration: the one crossing from OmegaConf to dataclasses. Ranges are checked in
`__post_init__`, which runs in `OmegaConf.to_object`, for a whole batch before a phone is touched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from orchestrator.errors import ConfigError

STRATEGIES = ("autoregressive", "chain")
STORAGE_MODES = ("flash", "resident")


@dataclass
class PairConf:
    name: str = MISSING


@dataclass
class DraftingConf:
    k: int = 5  # chain: draft tokens a round

    def __post_init__(self) -> None:
        _within("engine.drafting.k", self.k, 1, 64)


@dataclass
class StorageConf:
    mode: str = "flash"
    flash_bandwidth_mb_s: float | None = None  # cap, MB/s (10^6 bytes)
    chunk_kib: int = 4096
    ring_slots: int = 3

    def __post_init__(self) -> None:
        _one_of("engine.storage.mode", self.mode, STORAGE_MODES)
        _within("engine.storage.flash_bandwidth_mb_s", self.flash_bandwidth_mb_s, 1, 100_000)
        _within("engine.storage.chunk_kib", self.chunk_kib, 4, 65_536)
        _within("engine.storage.ring_slots", self.ring_slots, 2, 64)


@dataclass
class MemoryConf:
    dram_budget_mb: float | None = None  # cap on the agent process, MB (10^6 bytes)

    def __post_init__(self) -> None:
        _within("engine.memory.dram_budget_mb", self.dram_budget_mb, 1, 1_000_000)


@dataclass
class EngineConf:
    strategy: str = MISSING
    drafting: DraftingConf = field(default_factory=DraftingConf)
    storage: StorageConf = field(default_factory=StorageConf)
    memory: MemoryConf = field(default_factory=MemoryConf)
    threads: int = 2
    n_ctx: int = 2048

    def __post_init__(self) -> None:
        _one_of("engine.strategy", self.strategy, STRATEGIES)
        _within("engine.threads", self.threads, 1, 256)
        _within("engine.n_ctx", self.n_ctx, 32, 131_072)


@dataclass
class WorkloadConf:
    """Prompts, inline, from a JSONL file (id, text or messages) or a bundled source; a limit takes the first n."""

    name: str = MISSING
    prompts: list[dict[str, Any]] = field(default_factory=list)  # inline: {id, text | messages}
    file: str | None = None  # JSONL path
    source: str | None = None  # humaneval
    limit: int | None = None
    max_new_tokens: int = 32
    chat: bool = True  # apply the model's chat template to `text`

    def __post_init__(self) -> None:
        _within("workload.max_new_tokens", self.max_new_tokens, 1, 100_000)
        _within("workload.limit", self.limit, 1, 1_000_000)


@dataclass
class ScheduleConf:
    repeats: int = 1
    exclusive_host: bool = True  # timed attempts on one host one at a time
    max_attempts: int = 3
    deadline_s: float = 3600.0  # one attempt, from the agent's start
    fail_fast: bool = False

    def __post_init__(self) -> None:
        _within("schedule.repeats", self.repeats, 1, 1000)
        _within("schedule.max_attempts", self.max_attempts, 1, 20)
        _within("schedule.deadline_s", self.deadline_s, 1, 7 * 86_400)


@dataclass
class LeverConf:
    pair: PairConf = field(default_factory=PairConf)
    engine: EngineConf = field(default_factory=EngineConf)
    workload: WorkloadConf = field(default_factory=WorkloadConf)
    schedule: ScheduleConf = field(default_factory=ScheduleConf)
    phones: str = "each"  # each | any | names | soc:… | tag:… | ram_gb_min:…; commas join
    sweep: str | None = None  # the sweep's name; default: from its trials
    runtime: str = "ray"  # ray: the farm's service | inline: this process, no service

    def __post_init__(self) -> None:
        _one_of("runtime", self.runtime, ("ray", "inline"))


def _within(key: str, value: float | None, low: float, high: float) -> None:
    if value is not None and not low <= value <= high:
        raise ConfigError(f"{key}={value} is out of range", f"Use a value from {low:g} to {high:g}.")


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{key}={value!r} is not known", f"Use one of: {', '.join(allowed)}.")
