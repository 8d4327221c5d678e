"""The controller's share of a core while a hundred phones run, with Ray as `lever up` has it.

The controller is in this process, a driver of a Ray of its own; one host worker, the real one, follows a hundred
attempts whose phones are timers that tell of their progress twice a second, as agents do. What the host worker costs
is not the controller's. Attempts take a minute, which is short for a phone.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import farm_world
from orchestrator.entities import AttemptOrder, AttemptOutcome
from orchestrator.executor.host_attempts import HostAttempts, Report
from orchestrator.executor.remote import RemoteExecutor
from orchestrator.ray_runtime.cluster import OBJECT_STORE_BYTES, environment
from orchestrator.ray_runtime.host_worker import HostWorker
from orchestrator.ray_runtime.names import FEW_CALLS
from orchestrator.settings import Settings

PHONES, TELL_S = 100, 0.5


def measure(quick: bool) -> dict[str, Any]:
    attempt_s, rounds = (20.0, 1) if quick else (60.0, 2)
    with _ray(attempt_s) as executor, farm_world.world(PHONES) as registry:
        specs = farm_world.trials(0, PHONES * rounds, PHONES)
        cost = farm_world.run(registry, specs, executor)
    return {
        "controller_core_share": round(cost.cpu_s / cost.wall_s, 4),
        "controller_core_share_phones": PHONES,
        "controller_core_share_attempt_s": attempt_s,
        "controller_core_share_seconds": round(cost.wall_s, 1),
    }


@contextmanager
def _ray(attempt_s: float) -> Iterator[RemoteExecutor]:
    os.environ.update(environment(Settings(Path(), "", "", "bench")))
    os.environ["RAY_AUTH_MODE"] = "disabled"  # nobody's farm: for two minutes, on loopback
    import ray

    with tempfile.TemporaryDirectory(prefix="lever-ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            log_to_driver=False,
            configure_logging=False,
            _temp_dir=folder,
        )
        try:
            actor: Any = ray.remote(TimerHost)
            host = ActorHost(actor.options(num_cpus=0, max_concurrency=FEW_CALLS).remote(attempt_s))
            yield RemoteExecutor(lambda _name: host)
        finally:
            ray.shutdown()


class TimerHost(HostWorker):
    """The real worker, whose phones are timers."""

    def __init__(self, attempt_s: float) -> None:
        self._attempts = HostAttempts(lambda *of: _attempt(attempt_s, *of), lambda _order: None)


class ActorHost:
    """A HostHandle (executor/remote.py)."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def run(self, order: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        async for item in self._actor.run.remote(order):
            yield await item

    async def stop(self, order: dict[str, Any]) -> None:
        await self._actor.stop.remote(order)


def _attempt(seconds: float, order: AttemptOrder, report: Report, cancelled: threading.Event) -> AttemptOutcome:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        report(farm_world.progress(order, seconds - left))
        cancelled.wait(min(TELL_S, left))
    return farm_world.outcome(order, seconds)
