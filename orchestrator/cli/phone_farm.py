"""The farm as `lever phones` needs it: settings and an open registry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from orchestrator import settings as farm_settings

if TYPE_CHECKING:
    from orchestrator.registry.contract import Registry
    from orchestrator.settings import Settings


@contextmanager
def phone_farm(make: bool = False) -> Iterator[tuple[Settings, Registry]]:
    """`make`: also the registry, when there is none yet; else it is an empty one in memory."""
    from orchestrator import wiring

    settings = farm_settings.load()
    opened = wiring.open_registry if make else wiring.registry_to_read
    with closing(opened(settings)) as registry:
        yield settings, registry
