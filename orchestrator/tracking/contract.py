"""What the controller needs of a tracker: empty the registry's outbox, a little at a time."""

from __future__ import annotations

from typing import Protocol

from orchestrator.registry.contract import Registry


class Tracker(Protocol):
    def drain(self, registry: Registry, limit: int = 100) -> int:
        """Deliver up to `limit` outbox items and return how many are done. Blocking (seconds at first, when MLflow is
        imported), for one thread at a time. Delivery trouble is never raised: items stay and are tried again after a
        growing pause. Raises RegistryError when the registry does not answer."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...
