"""What a farm tells a machine that asks to join it: its versions, which must be the same, and where its results go."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import dataclass
from typing import Self

from orchestrator.errors import FarmError
from orchestrator.settings import Settings


@dataclass(frozen=True)
class FarmCard:
    host: str  # the first machine's name in the farm
    lever_farm: str  # versions
    ray: str
    python: str
    registry_url: str
    tracking_uri: str

    @classmethod
    def of(cls, settings: Settings) -> Self:
        version = importlib.metadata.version
        return cls(
            settings.host,
            version("lever-farm"),
            version("ray"),
            ".".join(platform.python_version_tuple()[:2]),
            settings.registry_url,
            settings.tracking_uri,
        )

    def check(self, here: FarmCard, address: str) -> None:
        """Raises FarmError when a machine like `here` cannot be its farm's."""
        for what, farms, ours in (
            ("Lever Farm", self.lever_farm, here.lever_farm),
            ("Ray", self.ray, here.ray),
            ("Python", self.python, here.python),
        ):
            if farms != ours:
                raise FarmError(
                    f"the farm at {address} runs {what} {farms}, this machine {ours}",
                    f"Install {what} {farms} here, or {ours} there; then: lever host join {address}",
                )
        if self.host == here.host:
            raise FarmError(
                f"the farm's first machine goes by the name {here.host!r} already, as this one does",
                f"Give this one another: LEVER_HOST=NAME lever host join {address}",
            )
