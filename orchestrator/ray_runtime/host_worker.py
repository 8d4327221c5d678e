"""One async actor per farm host: it drives the phones that are cabled to that host, one thread per running attempt."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from device_agent.protocol import from_json
from orchestrator import wiring
from orchestrator.entities import AttemptOrder
from orchestrator.executor.host_attempts import HostAttempts
from orchestrator.executor.remote import encode
from orchestrator.ray_runtime.logs import log_to
from orchestrator.settings import Settings, load


class HostWorker:
    """Orders and items are JSON-ready (executor/remote.py). `settings` are the farm's; on a host of another name the
    folder is that host's own, LEVER_HOME of whoever had it join, and its phones are watched from here: no supervisor of
    this farm is there to do it."""

    def __init__(self, settings: Settings, host: str) -> None:
        if host != settings.host:
            settings = replace(settings, home=load().home, host=host)
            if wiring.is_reachable(settings):
                wiring.health_monitor(settings, threading.Event(), start_phones=True).start()
        log_to(settings, f"host-{settings.host}")
        self._attempts = HostAttempts(wiring.attempt_runner(settings), wiring.attempt_stopper(settings))

    async def ready(self) -> None:
        """It answers."""

    async def run(self, order: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Start the attempt or go on with it; the last item is its outcome, unless somebody else asked meanwhile."""
        async for item in self._attempts.run(from_json(AttemptOrder, order)):
            yield encode(item)

    async def stop(self, order: dict[str, Any]) -> None:
        """End the attempt on its phone."""
        await self._attempts.stop(from_json(AttemptOrder, order))
