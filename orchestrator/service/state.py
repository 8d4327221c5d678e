"""LEVER_HOME/run/supervisor.json: which supervisor runs this farm, and what it last knew."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from device_agent.protocol import WireError, from_json
from orchestrator.processes import ProcessId, find, working_in
from orchestrator.ray_runtime import heartbeat
from orchestrator.run_files import read_json, write_json
from orchestrator.settings import Settings

TEMP_PREFIX = "lever-ray-"


@dataclass(frozen=True)
class Service:
    """What `down` needs to end it all, also after the supervisor is gone."""

    run_id: str
    supervisor: ProcessId
    session: int  # Unix session of the supervisor and all below it, virtual phones aside
    registry_url: str
    temp_dir: str  # private to its owner and to this run; Ray and all below it work in it
    ray_address: str = ""  # of the Ray that it has joined; empty: it has its own
    ray_listen: str = ""  # where its own takes other hosts; empty: nowhere
    joined: bool = False  # this machine is a host of the farm there, and the controller is not here
    head: ProcessId | None = None
    head_failures: int = 0  # in a row
    error: str = ""  # why the head was last started again
    phone_errors: dict[str, str] = field(default_factory=dict)  # virtual phones that do not start

    def process(self) -> psutil.Process | None:
        """The supervisor, if it lives."""
        return find(self.supervisor)

    def below(self) -> list[psutil.Process]:
        """Ray's head and everything that it started, wherever it was re-parented to."""
        return working_in(self.temp_dir, self.session)


def write(settings: Settings, service: Service) -> None:
    write_json(_path(settings), asdict(service))


def read(settings: Settings) -> Service | None:
    """The farm's service, running or left by a supervisor that died; None when there is none."""
    try:
        data = read_json(_path(settings))
        return None if data is None else from_json(Service, data)
    except WireError:
        return None  # written by another version


def answers(settings: Settings, service: Service) -> bool:
    """Whether its controller's loop turns."""
    beat = heartbeat.read_beat(settings, service.run_id)
    return beat is not None and beat.fresh()


def forget(settings: Settings) -> None:
    heartbeat.forget(settings)
    _path(settings).unlink(missing_ok=True)


def _path(settings: Settings) -> Path:
    return settings.run / "supervisor.json"
