"""A job's threads on the cores that it names, or that are chosen for it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from device_agent.core_choice import cores_by_topology
from device_agent.failure import AgentFailure
from device_agent.protocol import ANYWHERE, CoresSpec, CoreTrial, EngineSpec, JobSpec, said_cores
from device_agent.telemetry.topology import core_capacities


def with_cores(spec: JobSpec) -> tuple[JobSpec, str]:
    """`spec` with its threads and cores settled, and by whose word: "" when it named none itself.

    Raises AgentFailure bad_spec for cores that this process may not use.
    """
    cores, costs = spec.engine.cores, spec.costs
    if cores.auto:
        known = CoreTrial(costs.threads, costs.cores) if costs else None
        spec = on_cores(spec, known or cores_by_topology(core_capacities()))
        _check(spec.engine.cores)
        return spec, f"calibration {costs.key}" if costs else "clusters"
    _check(cores)
    return spec, "engine.cores" if cores != ANYWHERE else ""


def on_cores(spec: JobSpec, chosen: CoreTrial) -> JobSpec:
    return replace(spec, engine=replace(spec.engine, threads=chosen.threads, cores=chosen.cores))


@contextmanager
def held_to(cores: CoresSpec) -> Iterator[tuple[int, ...]]:
    """The process's threads, and those it starts, are on the computing cores until the block ends; gives the readers',
    which have to go there by themselves."""
    before = os.sched_getaffinity(0)
    if cores.compute:
        _move(cores.compute)
    try:
        yield cores.readers or (tuple(sorted(before)) if cores.compute else ())
    finally:
        if cores.compute:
            _move(before)


def cores_tag(engine: EngineSpec, said_by: str) -> dict[str, str]:
    """For results; nothing where nothing was asked."""
    return {"cores": f"{engine.threads} threads on {engine.cores} ({said_by})"} if said_by else {}


def _move(cores: Collection[int]) -> None:
    """Threads that were started before, such as OpenMP's, do not follow the one that started them."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.sched_setaffinity(int(thread), cores)


def _check(cores: CoresSpec) -> None:
    allowed = os.sched_getaffinity(0)
    for name, asked in (("engine.cores", cores.compute), ("engine.reader_cores", cores.readers)):
        if missing := set(asked) - allowed:
            there = said_cores(tuple(sorted(allowed)))
            unknown = f"{name}={said_cores(asked)}: no core {said_cores(tuple(missing))} can be used here"
            raise AgentFailure("bad_spec", f"{unknown}, only {there}: name some of those, or use any or auto")
