"""One resolved configuration, and the engine settings that it means to the agent."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from device_agent.protocol import (
    CoresSpec,
    DraftingSpec,
    EdgeCalibration,
    EngineSpec,
    JobSpec,
    PredictorCalibration,
    PruningSpec,
    SamplingSpec,
    StorageSpec,
    parse_cores,
)
from orchestrator.errors import UsageError
from orchestrator.schema import AUTO_CORES, DraftingConf, EngineConf, LeverConf, PruningConf, SamplingConf, StorageConf

# What the strategies that are built in use of engine.drafting; others are given all of it.
LEVER = frozenset({"model", "enabled", "objective", "trim_vocabulary", "requantize", "max_nodes", "max_depth"})
USED = {
    "autoregressive": frozenset[str](),
    "chain": frozenset({"model", "k", "trim_vocabulary", "requantize"}),
    "static_tree": frozenset({"model", "widths", "trim_vocabulary", "requantize"}),
    "prompt_lookup": frozenset({"k", "ngram"}),
    "lever": LEVER,
}
LEARNT = frozenset({"lever"})  # strategies that use what was learnt of a pair's acceptance
EVERYTHING = LEVER | {"k", "widths", "ngram"}


@dataclass(frozen=True)
class SweepJob:
    """A configuration of a batch; with repeats and several phones it is several trials."""

    name: str  # what messages call it: "job #3 (engine=chain)"; empty when it is the only one
    conf: LeverConf
    config: dict[str, Any]  # the same, plain: what is stored
    overrides: tuple[str, ...]  # as typed
    label: str  # the overrides that tell it from the batch's other jobs


@contextmanager
def naming(job: SweepJob) -> Iterator[None]:
    """Errors of use raised inside name the job."""
    try:
        yield
    except UsageError as error:
        raise name_error(error, job.name) from error


def name_error(error: UsageError, job_name: str) -> UsageError:
    message = f"{job_name}: {error.message}" if job_name else error.message
    return type(error)(message, error.remedy)


def engine_spec(conf: EngineConf) -> EngineSpec:
    """What the strategy and storage use of the settings, and nothing else: two settings that run alike are equal."""
    used = USED.get(conf.strategy, EVERYTHING)
    drafts = conf.strategy != "autoregressive"
    return EngineSpec(
        strategy=conf.strategy,
        draft_k=conf.drafting.k if "k" in used else 0,
        draft_widths=tuple(conf.drafting.widths) if "widths" in used else (),
        draft_ngram=conf.drafting.ngram if "ngram" in used else 0,
        drafting=_drafting_spec(conf.drafting, used if conf.placement == "cpu" else used - {"requantize"}),
        pruning=_pruning_spec(conf.pruning) if conf.strategy in LEARNT and conf.drafting.enabled else PruningSpec(),
        storage=_storage_spec(conf.storage, budgeted=conf.memory.dram_budget_mb is not None),
        dram_budget_mb=conf.memory.dram_budget_mb,
        placement=conf.placement,
        threads=0 if conf.cores == AUTO_CORES else conf.threads,
        cores=cores_spec(conf),
        n_ctx=conf.n_ctx,
        repack=conf.repack and conf.placement == "cpu",
        trace_nodes=drafts if conf.trace_nodes is None else conf.trace_nodes,
    )


def cores_spec(conf: EngineConf) -> CoresSpec:
    if conf.cores == AUTO_CORES:
        return CoresSpec(auto=True)
    readers = parse_cores(conf.reader_cores) if conf.storage.mode == "flash" else ()
    return CoresSpec(False, parse_cores(conf.cores), readers)


def _drafting_spec(conf: DraftingConf, used: frozenset[str]) -> DraftingSpec:
    names = {field.name for field in dataclasses.fields(DraftingSpec)} & used
    return DraftingSpec(**{name: getattr(conf, name) for name in names})


def _pruning_spec(conf: PruningConf) -> PruningSpec:
    return PruningSpec(True, conf.target_recall, tuple(conf.layers)) if conf.enabled == "auto" else PruningSpec()


def uses_acceptance(spec: JobSpec) -> bool:
    return spec.engine.strategy in LEARNT and spec.engine.drafting.enabled and spec.draft_pack is not None


def with_edges(engine: EngineSpec, edges: EdgeCalibration) -> EngineSpec:
    return dataclasses.replace(engine, drafting=dataclasses.replace(engine.drafting, edges=edges))


def with_predictor(engine: EngineSpec, predictor: PredictorCalibration) -> EngineSpec:
    """Where there is none, or none is wanted, nothing is pruned, and settings of pruning do not matter."""
    if not engine.pruning.enabled or not predictor.layers:
        return dataclasses.replace(engine, pruning=PruningSpec())
    return dataclasses.replace(engine, pruning=dataclasses.replace(engine.pruning, predictor=predictor))


def with_draft_model(conf: EngineConf) -> bool:
    """Whether the phone needs the pair's draft."""
    return conf.drafting.model and "model" in USED.get(conf.strategy, EVERYTHING)


def sampling_spec(conf: SamplingConf) -> SamplingSpec:
    if conf.temperature == 0:
        return SamplingSpec()
    return SamplingSpec(conf.temperature, conf.top_k, conf.top_p, conf.min_p, conf.seed)


def _storage_spec(conf: StorageConf, budgeted: bool) -> StorageSpec:
    if conf.mode != "flash":
        return StorageSpec(mode=conf.mode)
    pinning = conf.pinning and budgeted
    planned = pinning or (conf.prefetch and budgeted)
    return StorageSpec(
        mode=conf.mode,
        flash_bandwidth_mb_s=conf.flash_bandwidth_mb_s,
        chunk_kib=conf.chunk_kib,
        ring_slots=StorageSpec.ring_slots if planned else conf.ring_slots,
        prefetch=conf.prefetch,
        pinning=pinning,
    )
