"""Threads and cores of big.LITTLE phones: what to try, and which is best. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from device_agent.protocol import ANYWHERE, CoresSpec, CoreTrial

ALIKE = 1.02  # rounds whose times are within this of the best's do not differ
BIG = 0.5  # a core with this share of the greatest capacity is worth a thread


def core_candidates(capacities: Mapping[int, float]) -> list[CoreTrial]:
    """Thread counts around the ends of clusters: on any core; on the biggest, with the reader anywhere, or elsewhere.

    A count that takes a whole cluster, one less (a core left to the reader, or to the system), and one thread.
    """
    ranked = _by_capacity(capacities)
    ends = [size for size in range(1, len(ranked) + 1) if size == len(ranked) or _steps_down(ranked, capacities, size)]
    counts = sorted({1, *ends, *(size - 1 for size in ends if size > 1)})
    found = [CoreTrial(threads, ANYWHERE) for threads in counts]
    for threads in counts[: -1 if counts[-1] == len(ranked) else None]:
        compute, rest = _sorted(ranked[:threads]), _sorted(ranked[threads:])
        found += [CoreTrial(threads, CoresSpec(False, compute, readers)) for readers in (rest, ())]
    return found


def best_cores(trials: Sequence[CoreTrial]) -> CoreTrial:
    """The shortest round; of those that hardly differ, the one that computes least: where the flash is what a round
    waits for, time left over is what trees grow in. Of equals the one with fewer threads, then the earlier."""
    shortest = min(trial.round_s for trial in trials)
    alike = [trial for trial in trials if trial.round_s <= ALIKE * shortest]
    return min(alike, key=lambda trial: (trial.compute_s, trial.threads))


def cores_by_topology(capacities: Mapping[int, float]) -> CoreTrial:
    """Without measurements: a thread on each big core, and the reader on the others, if there are any."""
    most = max(capacities.values())
    big = tuple(sorted(core for core, capacity in capacities.items() if capacity >= BIG * most))
    rest = tuple(sorted(capacities.keys() - set(big)))
    return CoreTrial(len(big), CoresSpec(False, big, rest) if rest else ANYWHERE)


def _by_capacity(capacities: Mapping[int, float]) -> list[int]:
    return sorted(capacities, key=lambda core: (-capacities[core], core))


def _steps_down(ranked: Sequence[int], capacities: Mapping[int, float], size: int) -> bool:
    return capacities[ranked[size]] < capacities[ranked[size - 1]]


def _sorted(cores: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(cores))
