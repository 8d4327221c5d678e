"""A farm to be killed piece by piece: its own PostgreSQL, an MLflow server, the service with Ray, virtual phones."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil

from orchestrator.farm import virtual_phones
from orchestrator.ray_runtime import heartbeat
from orchestrator.service import state
from orchestrator.service.down import down
from orchestrator.settings import Settings
from tests.fakes.live_farm import LiveFarm, until
from tests.fakes.postgres import Postgres

SITE = Path(__file__).parent / "site"
ROOT = Path(__file__).parents[2]
DURABLE = "-c fsync=off"  # commits reach the operating system, which outlives every process that we kill
MLFLOW = """
import socket, sys
from pathlib import Path
from dashboards.server import serve
port, uri, artifacts = sys.argv[1:]
listener = socket.create_server(("127.0.0.1", int(port)))
serve(uri, Path(artifacts), listener, lambda: print("ready", flush=True))
"""
RECOVERY_S = 900.0  # the machine may be very busy


class ChaosFarm(LiveFarm):
    """`LiveFarm` with everything in processes of its own. Whatever dies is noticed by the farm itself, but for
    PostgreSQL, MLflow's server and the supervisor, which `mend` starts again as their own keepers would."""

    def __init__(self, home: Path, phones: int) -> None:
        super().__init__(home)
        self.phones = [f"phone{i}" for i in range(phones)]
        (home / "pg").mkdir()
        home.chmod(0o755)
        self.database = Postgres(home / "pg", settings=DURABLE)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.mlflow_port = listener.getsockname()[1]
        self.mlflow: subprocess.Popen[bytes] | None = None
        self.chaos = home / "chaos"
        self.chaos.mkdir()

    def start_all(self) -> None:
        self.database.start()
        registry, tracking = self.database.create(), f"http://127.0.0.1:{self.mlflow_port}"
        urls = {"LEVER_REGISTRY_URL": registry, "LEVER_TRACKING_URI": tracking}
        self.settings = Settings(self.home, registry, tracking, socket.gethostname())
        self.environment |= urls | {
            "LEVER_CHAOS": str(self.chaos),
            "PYTHONPATH": f"{SITE}:{ROOT}",
        }
        self.start_mlflow()
        target, draft = self.write_pair()
        self.lever("models", "add", "tiny", "--target", str(target), "--draft", str(draft))
        for phone in self.phones:
            self.lever("phones", "register", "virtual:oneplus12", "--name", phone, timeout_s=RECOVERY_S)
        self.lever("up", timeout_s=RECOVERY_S)

    def start_mlflow(self) -> None:
        command = [sys.executable, "-P", "-c", MLFLOW, str(self.mlflow_port)]
        with (self.home / "mlflow.out").open("ab") as out:
            self.mlflow = subprocess.Popen(
                [*command, f"sqlite:///{self.home / 'mlflow.db'}", str(self.home / "artifacts")],
                env={**self.environment, "LEVER_CHAOS": ""},
                cwd=self.home,
                stdout=out,
                stderr=out,
            )

    def stop_all(self) -> None:
        down(self.settings, print)
        for phone in self.phones:
            virtual_phones.stop(self.settings, phone)
        if self.mlflow and self.mlflow.poll() is None:
            self.mlflow.kill()
            self.mlflow.wait()
        self.database.stop()

    # --- who is who
    def pids(self, who: str) -> list[int]:
        """Processes that play this part now; empty while it is being restarted."""
        service = state.read(self.settings)
        if who == "mlflow":
            return [self.mlflow.pid] if self.mlflow and self.mlflow.poll() is None else []
        if who == "agent":
            return [p.pid for p in self._processes("device_agent", " run ")]
        if who == "phone":
            files = [self.settings.phones / name / "phone.json" for name in self.phones]
            found = [json.loads(f.read_text())["pid"] for f in files if f.exists()]
            return [pid for pid in found if psutil.pid_exists(pid)]
        if service is None or service.process() is None:
            return []
        if who == "supervisor":
            return [service.supervisor.pid]
        if who == "head":
            return [service.head.pid] if service.head and psutil.pid_exists(service.head.pid) else []
        if who == "host":
            return [p.pid for p in service.below() if "HostWorker" in _line(p)]
        beat = heartbeat.read_beat(self.settings, service.run_id)
        return [beat.pid] if beat and psutil.pid_exists(beat.pid) else []

    def _processes(self, *words: str) -> Iterator[psutil.Process]:
        """Of this farm: they carry its folder in their working folder."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if all(word in _line(process) for word in words) and str(self.home) in process.cwd():
                    yield process

    def kill(self, who: str, choose: int) -> bool:
        """False when nobody plays this part now."""
        if who == "postgres":
            self.database.kill()
            return True
        pids = self.pids(who)
        if not pids:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(sorted(pids)[choose % len(pids)], signal.SIGKILL)
            return True
        return False

    def mend(self) -> None:
        """Start again what nobody else would; returns when the farm works."""
        if not self.database.running():
            self.database.start()
        if not self.pids("mlflow"):
            self.start_mlflow()
        until(self.up, "a supervisor lives", RECOVERY_S)
        until(self.works, "the controller's heart beats", RECOVERY_S)

    def up(self) -> bool:
        """Whether a supervisor lives; else one is started. `lever up` gives up on a machine too busy for Ray."""
        service = state.read(self.settings)
        if service is None or service.process() is None:
            self.start("up").communicate(timeout=RECOVERY_S)
        service = state.read(self.settings)
        return service is not None and service.process() is not None

    def works(self) -> bool:
        service = state.read(self.settings)
        return service is not None and bool(self.pids("controller")) and state.answers(self.settings, service)

    # --- failpoints
    def arm(self, role: str, point: str, when: str) -> None:
        (self.chaos / "fired").unlink(missing_ok=True)
        (self.chaos / "new").write_text(f"{role} {point} {when}")
        (self.chaos / "new").rename(self.chaos / "armed")

    def fired(self, within_s: float) -> bool:
        """Whether a process died there; disarmed when it did not."""
        deadline = threading.Event()
        for _ in range(int(within_s / 0.05)):
            if (self.chaos / "fired").exists():
                return True
            deadline.wait(0.05)
        (self.chaos / "armed").unlink(missing_ok=True)
        return (self.chaos / "fired").exists()


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()) + " "
    except psutil.Error:
        return ""
