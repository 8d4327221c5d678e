"""The controller's loop in an actor on our own node; what it knows it reads from the registry when it starts."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator import wiring
from orchestrator.executor.remote import RemoteExecutor
from orchestrator.ray_runtime.heartbeat import BEAT_S, write_beat
from orchestrator.ray_runtime.hosts import ray_host
from orchestrator.ray_runtime.logs import log_to
from orchestrator.settings import Settings

LOG = "controller"


class ControllerActor:
    """Restarted by Ray with the same settings when its process dies; whoever started `run` has to start it again."""

    def __init__(self, settings: Settings, run_id: str) -> None:
        log_to(settings, LOG)
        self._settings, self._run_id = settings, run_id
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Adopt what runs, then work until `stop`. Beats as long as the loop turns."""
        executor = RemoteExecutor(ray_host)
        with wiring.open_controller(self._settings, executor) as controller:
            beat = asyncio.create_task(self._beat())
            try:
                await controller.run(self._stop)
            finally:
                beat.cancel()

    async def stop(self) -> None:
        """Let `run` return; attempts go on on their phones."""
        self._stop.set()

    async def _beat(self) -> None:
        log = logging.getLogger(__name__)
        for count in itertools.count():
            try:
                await asyncio.to_thread(write_beat, self._settings, self._run_id, count)
            except OSError as error:
                log.warning("cannot write the heartbeat: %s", error)
            await asyncio.sleep(BEAT_S)


def start_controller(settings: Settings, run_id: str, node: str) -> Any:
    """Handle of the farm's one controller, on the node that we are on, since it tells of itself by files; its `run` is
    not called yet. It ends with the process that calls this."""
    actor_class: Any = ray.remote(ControllerActor)
    here = NodeAffinitySchedulingStrategy(node, soft=False)
    return actor_class.options(num_cpus=0, max_restarts=-1, scheduling_strategy=here).remote(settings, run_id)
