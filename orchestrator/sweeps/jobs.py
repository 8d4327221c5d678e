"""One resolved configuration, and the engine settings that it means to the agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from device_agent.protocol import EngineSpec, StorageSpec
from orchestrator.errors import UsageError
from orchestrator.schema import EngineConf, LeverConf, StorageConf


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
    return EngineSpec(
        strategy=conf.strategy,
        draft_k=conf.drafting.k if conf.strategy == "chain" else 0,
        storage=_storage_spec(conf.storage),
        dram_budget_mb=conf.memory.dram_budget_mb,
        threads=conf.threads,
        n_ctx=conf.n_ctx,
    )


def _storage_spec(conf: StorageConf) -> StorageSpec:
    if conf.mode == "resident":
        return StorageSpec(mode="resident")
    return StorageSpec(conf.mode, conf.flash_bandwidth_mb_s, conf.chunk_kib, conf.ring_slots)
