"""Ways to the farm hosts' workers, for the remote executor. A host is a Ray node labelled with its name."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError, RayTaskError

from orchestrator.errors import FarmError
from orchestrator.executor.remote import HostHandle, HostLost
from orchestrator.ray_runtime.host_worker import HostWorker
from orchestrator.settings import Settings

LABEL = "lever-host"
FEW_CALLS = 1000  # running attempts and stops that one worker serves at once


class RayHost:
    """HostHandle over the worker actor of one host, made when first needed."""

    def __init__(self, settings: Settings, host: str) -> None:
        self._settings = dataclasses.replace(settings, host=host)

    async def run(self, order: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        try:
            async for item in self._worker().run.remote(order):
                yield await item
        except RayError as error:
            raise HostLost(self._reason(error)) from error

    async def stop(self, order: dict[str, Any]) -> None:
        try:
            await self._worker().stop.remote(order)
        except RayTaskError as error:  # the phone's answer, or none
            raise FarmError(str(error.cause)) from error
        except RayError as error:
            raise HostLost(self._reason(error)) from error

    def _worker(self) -> Any:
        host = self._settings.host
        if host not in (known := _hosts()):
            raise HostLost(f"no farm host {host!r} has joined; hosts: {', '.join(sorted(known)) or 'none'}")
        actor_class: Any = ray.remote(HostWorker)
        return actor_class.options(
            name=f"host-{host}",
            get_if_exists=True,
            lifetime="detached",
            num_cpus=0,
            label_selector={LABEL: host},
            max_restarts=-1,
            max_concurrency=FEW_CALLS,
        ).remote(self._settings)

    def _reason(self, error: RayError) -> str:
        if isinstance(error, ActorDiedError | ActorUnavailableError):
            return f"the worker on {self._settings.host} died and is being restarted"
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def ray_host(settings: Settings, host: str) -> HostHandle:
    return RayHost(settings, host)


def _hosts() -> set[str]:
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return {node["Labels"][LABEL] for node in nodes if node["Alive"] and LABEL in node["Labels"]}
