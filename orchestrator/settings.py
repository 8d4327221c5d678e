"""Where this farm keeps its state: one folder, `LEVER_HOME`, and what the environment says about databases. A machine
that has joined another's farm takes that farm's databases (`LEVER_HOME/joined.json`, by `lever host join`)."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.run_files import read_json


@dataclass(frozen=True)
class Settings:
    home: Path
    registry_url: str  # SQLAlchemy URL
    tracking_uri: str  # MLflow tracking URI
    host: str  # this farm host's name
    ray_address: str = ""  # HOST:PORT of a Ray head that runs already; empty: the service starts its own
    ray_listen: str = ""  # HOST:PORT where our own Ray takes other hosts; empty: loopback only
    joined: str = ""  # HOST:PORT of the farm that this machine is a host of; empty: it has its own

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


def load(joined: dict[str, Any] | None = None) -> Settings:
    """Settings from LEVER_HOME, LEVER_REGISTRY_URL, LEVER_TRACKING_URI, LEVER_RAY_ADDRESS, LEVER_RAY_LISTEN and
    LEVER_HOST, then of the farm that was joined: `joined`, else what joined_path holds. Defaults live under the user's
    data folder."""
    home = Path(os.environ.get("LEVER_HOME") or _default_home()).expanduser().absolute()
    farm = joined or read_json(joined_path(home)) or {}

    def said(variable: str, default: str) -> str:
        return os.environ.get(variable) or farm.get(variable.removeprefix("LEVER_").lower()) or default

    return Settings(
        home=home,
        registry_url=said("LEVER_REGISTRY_URL", f"sqlite:///{home / 'registry.db'}"),
        tracking_uri=said("LEVER_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}"),
        host=said("LEVER_HOST", socket.gethostname()),
        ray_address="" if farm else os.environ.get("LEVER_RAY_ADDRESS") or "",
        ray_listen="" if farm else os.environ.get("LEVER_RAY_LISTEN") or "",
        joined=farm.get("address", ""),
    )


def joined_path(home: Path) -> Path:
    """What `lever host join` keeps: address, registry_url, tracking_uri, host."""
    return home / "joined.json"


def environment(settings: Settings) -> dict[str, str]:
    """What a child process needs in its environment to load these settings."""
    return {
        "LEVER_HOME": str(settings.home),
        "LEVER_REGISTRY_URL": settings.registry_url,
        "LEVER_TRACKING_URI": settings.tracking_uri,
        "LEVER_HOST": settings.host,
        "LEVER_RAY_ADDRESS": settings.ray_address,
        "LEVER_RAY_LISTEN": settings.ray_listen,
    }


def _default_home() -> str:
    import platformdirs

    return platformdirs.user_data_dir("lever-farm")
