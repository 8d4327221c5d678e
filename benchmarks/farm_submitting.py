"""From a sweep's specs to a hundred phones at work; and through Hydra, a thousand configurations for one phone."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from hydra import version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import setup_globals
from hydra.types import RunMode

from benchmarks import farm_world
from hydra_plugins.lever_farm._compose import compose_batch
from orchestrator.controller import Controller
from orchestrator.registry.contract import Registry

PHONES = 100


def measure(quick: bool) -> dict[str, Any]:
    count = 1000 if quick else 10_000
    with farm_world.world(PHONES) as registry:
        specs = farm_world.trials(0, count, PHONES)
        began = time.monotonic()
        registry.submit(farm_world.SWEEP, specs)
        started = asyncio.run(_until_started(registry, PHONES))
    return {"submit_10k_s": round(started - began, 2), "submitted": count, **composing(100 if quick else 1000)}


async def _until_started(registry: Registry, count: int) -> float:
    """When so many attempts had started, seconds of the monotonic clock."""
    controller = Controller(registry, farm_world.TimerExecutor(3600), farm_world.Ledger(), "bench", "bench")
    stop = asyncio.Event()
    working = asyncio.create_task(controller.run(stop))
    while len(registry.running()) < count:
        await asyncio.sleep(0.1)
    now = time.monotonic()
    stop.set()
    await working
    return now


def composing(count: int) -> dict[str, Any]:
    """Seconds to compose and check so many configurations as `lever sweep -m` does."""
    version.setbase("1.3")
    setup_globals()
    hydra = Hydra.create_main_hydra2("bench", create_config_search_path("pkg://orchestrator.conf"))
    try:
        began, cpu = time.monotonic(), time.process_time()
        config = hydra.compose_config("config", ["hydra.mode=MULTIRUN"], RunMode.MULTIRUN)
        batch = [["engine=chain", f"engine.drafting.k={n % 60 + 1}", f"engine.n_ctx={2048 + n}"] for n in range(count)]
        compose_batch(hydra.config_loader, config, batch, 0)
        took = {"compose_s": time.monotonic() - began, "compose_cpu_s": time.process_time() - cpu}
        return {name: round(seconds, 2) for name, seconds in took.items()} | {"composed": count}
    finally:
        GlobalHydra.instance().clear()
