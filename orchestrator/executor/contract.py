"""What runs an attempt; `inline` in this process, `remote` through a host worker on the phone's own host."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from orchestrator.entities import AttemptOrder, AttemptOutcome, Progress


class Executor(Protocol):
    def run(self, order: AttemptOrder) -> AsyncIterator[Progress | AttemptOutcome]:
        """Yield progress; the last item is the AttemptOutcome. Failures are outcomes, not exceptions."""
        ...

    async def stop(self, order: AttemptOrder) -> None:
        """End the attempt's whole process group on the phone and leave it clean."""
        ...
