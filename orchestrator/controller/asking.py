"""The registry as the controller's loop asks it: in one thread, so that the loop goes on turning meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from orchestrator.errors import LeaseLost, RegistryError

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)


class Asking:
    def __init__(self, trouble_s: float) -> None:
        """`trouble_s`: how long to wait after the database did not answer."""
        self._trouble_s = trouble_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="registry")

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: function(*args, **kwargs))

    async def insist(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Again and again while the database does not answer."""
        while True:
            try:
                return await self.call(function, *args, **kwargs)
            except LeaseLost:
                raise
            except RegistryError as error:
                log.warning("the registry does not answer: %s", error)
                await asyncio.sleep(self._trouble_s)

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
