"""`python -m benchmarks.farm`: what the controller and the scheduler cost; writes results/farm.json.

Phones are simulated, but for `trial_overhead_s`, which real virtual phones run with PAIR (default smollm2) from
LEVER_HOME; left out, and said, when the pair is not added there. QUICK=1: smaller, a few minutes.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks import farm_world
from benchmarks.farm_simulation import Scenario, simulate
from orchestrator import settings, wiring
from orchestrator.models.store import ModelStore

RESULTS = Path(__file__).with_name("results")
PHONES, BATCH = 100, 300


def main() -> None:
    quick = os.environ.get("QUICK") == "1"
    figures: dict[str, Any] = {"quick": quick, "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    for part in (_scheduling, _submitting, _growing, _share, _overhead):
        began = time.monotonic()
        figures |= part(quick)
        print(f"{part.__name__.strip('_')}: {time.monotonic() - began:.0f} s", flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "farm.json").write_text(json.dumps(figures, indent=1, allow_nan=False) + "\n")
    print(json.dumps(figures, indent=1))


def _scheduling(quick: bool) -> dict[str, Any]:
    found = simulate(Scenario(100, 5000) if quick else Scenario(1000, 50_000))
    decisions = [s * 1000 for s in found.decision_s]
    return {
        "makespan_over_bound": round(found.makespan_over_bound, 4),
        "decision_ms": round(statistics.fmean(decisions), 4),
        "decision_p99_ms": round(statistics.quantiles(decisions, n=100)[98], 4),
    }


def _submitting(quick: bool) -> dict[str, Any]:
    """From a sweep's specs to a hundred phones at work; and through Hydra, a thousand configurations on one phone."""
    count = 1000 if quick else 10_000
    with farm_world.world(PHONES) as registry:
        specs = farm_world.trials(0, count, PHONES)
        began = time.monotonic()
        registry.submit(farm_world.SWEEP, specs)
        started = _until_started(registry, PHONES)
    return {"submit_10k_s": round(started - began, 2), "submitted": count, **_composing(100 if quick else 1000)}


def _until_started(registry: Any, count: int) -> float:
    """When so many attempts had started, seconds of the monotonic clock."""
    import asyncio

    from orchestrator.controller import Controller

    async def work() -> float:
        controller = Controller(registry, farm_world.TimerExecutor(3600), farm_world.Ledger(), "bench", "bench")
        stop = asyncio.Event()
        working = asyncio.create_task(controller.run(stop))
        while len(registry.running()) < count:
            await asyncio.sleep(0.1)
        now = time.monotonic()
        stop.set()
        await working
        return now

    return asyncio.run(work())


def _composing(count: int) -> dict[str, Any]:
    """Seconds to compose and check so many configurations as `lever sweep -m` does."""
    from hydra import version
    from hydra._internal.hydra import Hydra
    from hydra._internal.utils import create_config_search_path
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.utils import setup_globals
    from hydra.types import RunMode

    from hydra_plugins.lever_farm._compose import compose_batch

    version.setbase("1.3")
    setup_globals()
    hydra = Hydra.create_main_hydra2("bench", create_config_search_path("pkg://orchestrator.conf"))
    try:
        began = time.monotonic()
        config = hydra.compose_config("config", ["hydra.mode=MULTIRUN"], RunMode.MULTIRUN)
        batch = [["engine=chain", f"engine.drafting.k={n % 60 + 1}", f"engine.n_ctx={2048 + n}"] for n in range(count)]
        compose_batch(hydra.config_loader, config, batch, 0)
        return {"compose_s": round(time.monotonic() - began, 2), "composed": count}
    finally:
        GlobalHydra.instance().clear()


def _growing(quick: bool) -> dict[str, Any]:
    """CPU seconds a trial with few and with many finished ones, in turns, the least of each."""
    many, batch = (1000, 100) if quick else (10_000, BATCH)
    costs: dict[int, list[float]] = {100: [], many: []}
    with farm_world.world(20) as small, farm_world.world(20) as large:
        for registry, count in ((small, 100), (large, many)):
            farm_world.run(registry, farm_world.trials(0, count, 20), 0.0)
        for turn in range(3):
            for registry, count in ((small, 100), (large, many)):
                first = count + turn * batch
                costs[count].append(farm_world.run(registry, farm_world.trials(first, batch, 20), 0.0).per_trial_s)
    least = {count: min(found) for count, found in costs.items()}
    return {
        "cost_ratio_10k_over_100": round(least[many] / least[100], 3),
        "finished": many,
        "controller_cpu_ms_per_trial": round(least[many] * 1000, 2),
    }


def _share(quick: bool) -> dict[str, Any]:
    """A hundred phones, attempts of a minute: short for a phone."""
    attempt_s, rounds = (20.0, 1) if quick else (60.0, 2)
    with farm_world.world(PHONES) as registry:
        cost = farm_world.run(registry, farm_world.trials(0, PHONES * rounds, PHONES), attempt_s)
    return {"controller_core_share": round(cost.cpu_s / cost.wall_s, 4), "attempt_s": attempt_s}


def _overhead(quick: bool) -> dict[str, Any]:
    """Median of attempt wall minus agent wall on a virtual phone, in this process."""
    pair, models = os.environ.get("PAIR") or "smollm2", settings.load().models
    if not ModelStore(models).has_pair(pair):
        return {"trial_overhead_s": None, "trial_overhead_note": f"pair {pair} is not added: lever models add {pair}"}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "models").symlink_to(models)
        return _in_home(folder, lambda: _measured(pair, 4 if quick else 12))


def _in_home(folder: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    before = os.environ.get("LEVER_HOME")
    os.environ["LEVER_HOME"] = folder
    try:
        return measure()
    finally:
        os.environ.pop("LEVER_HOME")
        if before is not None:
            os.environ["LEVER_HOME"] = before


def _measured(pair: str, repeats: int) -> dict[str, Any]:
    from orchestrator import sweep
    from orchestrator.cli.main import run

    run(["phones", "register", "virtual:oneplus12"])
    sweep(f"pair={pair}", "runtime=inline", "workload.max_new_tokens=4", f"schedule.repeats={repeats}", "sweep=bench")
    with closing(wiring.open_registry(settings.load())) as registry:
        done = [t for t in registry.trials(registry.sweep("bench").sweep_id) if t.result and t.attempt_wall_s]
    walls = [(t.attempt_wall_s or 0.0) - (t.result or {})["metrics"]["agent_wall_s"] for t in done]
    return {"trial_overhead_s": round(statistics.median(walls), 3), "trial_overhead_trials": len(walls)}


if __name__ == "__main__":
    main()
