"""Ways to the farm hosts' workers, for the remote executor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError, RayTaskError

from orchestrator.errors import FarmError
from orchestrator.executor.remote import HostHandle, HostLost
from orchestrator.ray_runtime.names import worker_name


class RayHost:
    """HostHandle over the worker actor of one host (workers.py)."""

    def __init__(self, host: str) -> None:
        self._host = host

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
        try:
            return ray.get_actor(worker_name(self._host))
        except ValueError as error:
            raise HostLost(f"no farm host {self._host!r} has joined; `lever status` lists those that have") from error

    def _reason(self, error: RayError) -> str:
        if isinstance(error, ActorDiedError | ActorUnavailableError):
            return f"the worker on {self._host} died and is being restarted"
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def ray_host(host: str) -> HostHandle:
    return RayHost(host)
