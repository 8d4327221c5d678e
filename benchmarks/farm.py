"""`python -m benchmarks.farm [PART ...]`: what the controller and the scheduler cost; writes results/farm.json.

Parts are written as they come; with names only those are measured anew and the file keeps the others. Phones are
simulated, but for `overhead`, which a real virtual phone runs with a tiny random pair. QUICK=1: smaller, a few minutes.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import farm_overhead, farm_share, farm_submitting, farm_world
from benchmarks.farm_simulation import Scenario, simulate
from orchestrator.registry.contract import Registry

RESULT = Path(__file__).with_name("results") / "farm.json"
PHONES, BATCH, TURNS = 20, 300, 3
Part = Callable[[bool], dict[str, Any]]


def main(parts: list[str]) -> None:
    quick = os.environ.get("QUICK") == "1"
    if unknown := set(parts) - set(PARTS):
        sys.exit(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    found: dict[str, Any] = json.loads(RESULT.read_text()) if parts and RESULT.exists() else {"parts": {}}
    for name in parts or list(PARTS):
        began, load = time.monotonic(), os.getloadavg()[0]
        found |= PARTS[name](quick)
        took_s = round(time.monotonic() - began, 1)
        found["parts"][name] = {"quick": quick, "seconds": took_s, "load_before": load, "cores": os.cpu_count()}
        _write(found)
        print(f"{name}: {took_s} s", flush=True)
    print(json.dumps(found, indent=1))


def _write(found: dict[str, Any]) -> None:
    RESULT.parent.mkdir(exist_ok=True)
    new = RESULT.with_suffix(".new")
    new.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")
    new.replace(RESULT)


def scheduling(quick: bool) -> dict[str, Any]:
    found = simulate(Scenario(100, 5000) if quick else Scenario(1000, 50_000))
    decisions = [s * 1000 for s in found.decision_s]
    return {
        "makespan_over_bound": round(found.makespan_over_bound, 4),
        "decision_ms": round(statistics.fmean(decisions), 4),
        "decision_p99_ms": round(statistics.quantiles(decisions, n=100)[98], 4),
    }


def growing(quick: bool) -> dict[str, Any]:
    """CPU seconds a trial with few and with many finished ones, in turns, the least of each."""
    few, many = 100, 1000 if quick else 10_000
    with farm_world.grown(PHONES, few) as small, farm_world.grown(PHONES, many) as large:
        costs = _costs({few: small, many: large}, 100 if quick else BATCH)
    return {
        "cost_ratio_10k_over_100": round(costs[many] / costs[few], 3),
        "finished": many,
        "controller_cpu_ms_per_trial": round(costs[many] * 1000, 2),
    }


def _costs(worlds: dict[int, Registry], batch: int) -> dict[int, float]:
    found: dict[int, list[float]] = {count: [] for count in worlds}
    for turn in range(TURNS):
        for count, registry in worlds.items():
            specs = farm_world.trials(count + turn * batch, batch, PHONES)
            found[count].append(farm_world.run(registry, specs, farm_world.TimerExecutor(0.0)).per_trial_s)
    return {count: min(costs) for count, costs in found.items()}


PARTS: dict[str, Part] = {
    "scheduling": scheduling,
    "submitting": farm_submitting.measure,
    "share": farm_share.measure,
    "overhead": farm_overhead.measure,
    "growing": growing,
}

if __name__ == "__main__":
    main(sys.argv[1:])
