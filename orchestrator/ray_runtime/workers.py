"""Keeps one worker on every farm host that has joined; owned by the head's process, they end with it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.ray_runtime.host_worker import HostWorker
from orchestrator.ray_runtime.names import FEW_CALLS, farm_hosts, worker_name
from orchestrator.settings import Settings

log = logging.getLogger("head")


@dataclass
class Made:
    node: str
    actor: Any
    ready: Any  # done when it answers; None once it did


class Workers:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._made: dict[str, Made] = {}
        self.here = str(ray.get_runtime_context().get_node_id())

    def tend(self) -> tuple[str, ...]:
        """Make what is missing; returns the hosts that have joined. A host that left and came back is another node."""
        hosts = farm_hosts(ray.nodes(), self.here, self._settings.host)  # type: ignore[no-untyped-call]
        for host in [h for h, made in self._made.items() if _failed(h, made) or hosts.get(h, made.node) != made.node]:
            ray.kill(self._made.pop(host).actor)
        for host, node in hosts.items():
            if host not in self._made:
                self._make(host, node)
        return tuple(sorted(hosts))

    def _make(self, host: str, node: str) -> None:
        actor_class: Any = ray.remote(HostWorker)
        options = actor_class.options(
            name=worker_name(host),
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            num_cpus=0,
            max_restarts=-1,
            max_concurrency=FEW_CALLS,
        )
        try:
            actor = options.remote(self._settings, host)
        except ValueError as error:  # the one before, of that name, is not gone yet
            log.info("%s", error)
            return
        log.info("farm host %s has joined", host)
        self._made[host] = Made(node, actor, actor.ready.remote())


def _failed(host: str, made: Made) -> bool:
    """Whether it could not even start."""
    if made.ready is None or not ray.wait([made.ready], timeout=0)[0]:
        return False
    try:
        made.ready = ray.get(made.ready)
    except RayError:
        log.exception("no worker on farm host %s", host)
        return True
    return False
