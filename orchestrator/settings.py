"""Where this farm keeps its state: one folder, `LEVER_HOME`, and what the environment says about databases."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    home: Path
    registry_url: str  # SQLAlchemy URL
    tracking_uri: str  # MLflow tracking URI
    host: str  # this farm host's name
    ray_address: str = ""  # HOST:PORT of a Ray head that runs already; empty: the service starts its own

    @property
    def models(self) -> Path:
        return self.home / "models"

    @property
    def phones(self) -> Path:
        return self.home / "phones"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def run(self) -> Path:
        """Pids, chosen ports, supervisor state."""
        return self.home / "run"

    @property
    def user_conf(self) -> Path:
        """The user's own Hydra groups: pairs that they added, workloads."""
        return self.home / "conf"


def load() -> Settings:
    """Settings from LEVER_HOME, LEVER_REGISTRY_URL, LEVER_TRACKING_URI, LEVER_RAY_ADDRESS and LEVER_HOST; defaults live
    under the user's data folder."""
    home = Path(os.environ.get("LEVER_HOME") or _default_home()).expanduser().absolute()
    return Settings(
        home=home,
        registry_url=os.environ.get("LEVER_REGISTRY_URL") or f"sqlite:///{home / 'registry.db'}",
        tracking_uri=os.environ.get("LEVER_TRACKING_URI") or f"sqlite:///{home / 'mlflow.db'}",
        host=os.environ.get("LEVER_HOST") or socket.gethostname(),
        ray_address=os.environ.get("LEVER_RAY_ADDRESS") or "",
    )


def environment(settings: Settings) -> dict[str, str]:
    """What a child process needs in its environment to load these settings."""
    return {
        "LEVER_HOME": str(settings.home),
        "LEVER_REGISTRY_URL": settings.registry_url,
        "LEVER_TRACKING_URI": settings.tracking_uri,
        "LEVER_HOST": settings.host,
        "LEVER_RAY_ADDRESS": settings.ray_address,
    }


def _default_home() -> str:
    import platformdirs

    return platformdirs.user_data_dir("lever-farm")
