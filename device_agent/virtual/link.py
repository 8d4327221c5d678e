"""The cable between a phone and its hosts: good, or what a fault made of it."""

from __future__ import annotations

import asyncio


class Link:
    """Shared by all connections of a phone."""

    def __init__(self) -> None:
        self.garbage = False  # the phone answers noise
        self.lost_ends = 0  # so many commands run, but the connection dies before their output arrives
        self._bytes_per_s: float | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._one_at_a_time = asyncio.Lock()

    def stall(self) -> None:
        """Nothing is answered any more, and nobody hangs up."""
        self._flowing.clear()

    def slow_down(self, bytes_per_s: float) -> None:
        """Both directions and all connections together."""
        self._bytes_per_s = bytes_per_s

    def mend(self) -> None:
        self.garbage, self.lost_ends, self._bytes_per_s = False, 0, None
        self._flowing.set()

    async def carry(self, nbytes: int) -> None:
        """Returns when so many bytes have passed."""
        await self._flowing.wait()
        if self._bytes_per_s:
            async with self._one_at_a_time:
                await asyncio.sleep(nbytes / self._bytes_per_s)
            await self._flowing.wait()

    def loses_end(self) -> bool:
        """Whether the command that is about to start is one of those."""
        if self.lost_ends <= 0:
            return False
        self.lost_ends -= 1
        return True
