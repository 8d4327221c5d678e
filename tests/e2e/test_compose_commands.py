"""What docker-compose.yml would run, run here: the same commands and environments against a real PostgreSQL with a
password, one service after the other as health checks pass, and a sweep through them. Only addresses and paths differ.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from deploy.make_env import make_env
from orchestrator.entities import TrialState
from orchestrator.farm import virtual_phones
from orchestrator.registry.contract import Registry
from orchestrator.registry.sql import open_registry
from orchestrator.settings import Settings
from tests.fakes import compose
from tests.fakes.live_farm import LiveFarm, until
from tests.fakes.postgres import Postgres

pytestmark = pytest.mark.slow
HEALTHY_S, STOP_S = 240.0, 120.0
SWEEP = ("sweep", "-m", "pair=tiny", "engine=autoregressive,chain", "workload=demo", "workload.max_new_tokens=8")


class Composed:
    """The services as processes; each sees the others at addresses of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_env(folder / ".env")
        self.values = compose.env_file(folder / ".env")
        self.services = compose.services(self.values)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.mlflow = f"127.0.0.1:{listener.getsockname()[1]}"
        self.database: Postgres | None = None

    def start_postgres(self, folder: Path) -> None:
        asked = self.services["postgres"]["environment"]
        self.database = Postgres(folder, password=asked["POSTGRES_PASSWORD"])
        self.database.start()
        self.database.sql(f"CREATE DATABASE {asked['POSTGRES_DB']}")
        lines = (compose.ROOT / "deploy" / "databases.sql").read_text().splitlines()
        for line in lines:  # a statement each
            if not line.startswith("--"):
                self.database.sql(line)

    def start(self, name: str) -> None:
        """Returns once the service's own health check passes."""
        home = self.folder / name
        home.mkdir()
        command = [self.local(name, word) for word in self.services[name]["command"]]
        with (self.folder / f"{name}.log").open("wb") as out:
            self.processes[name] = subprocess.Popen(
                command, env=self.environment(name), cwd=home, stdout=out, stderr=out, start_new_session=True
            )
        until(lambda: self.healthy(name), f"{name} is healthy:\n{self.log(name)}", HEALTHY_S)

    def healthy(self, name: str) -> bool:
        assert name not in self.processes or self.processes[name].poll() is None, self.log(name)
        words = [self.local(name, word) for word in compose.check(self.services[name])]
        done = subprocess.run(words, env=self.environment(name), cwd=self.folder, capture_output=True, check=False)
        return done.returncode == 0

    def environment(self, name: str) -> dict[str, str]:
        """Also what the image gives: our commands, and python, on the path."""
        asked = {k: self.local(name, str(v)) for k, v in self.services[name]["environment"].items()}
        kept = {k: os.environ[k] for k in ("HOME", "LANG", "PYTHONPATH") if k in os.environ}
        path = [Path(sys.executable).parent, *([self.database.binaries] if self.database else []), "/usr/bin", "/bin"]
        port = {"PGPORT": str(self.database.port)} if self.database else {}
        return kept | port | {"PATH": ":".join(map(str, path)), "CUDA_VISIBLE_DEVICES": ""} | asked

    def local(self, name: str, text: str) -> str:
        """Hosts, ports and folders of the containers as they are here."""
        assert self.database is not None
        for there, here in (
            ("@postgres:5432", f"@127.0.0.1:{self.database.port}"),
            ("mlflow:5000", self.mlflow),
            ("127.0.0.1:5000", self.mlflow),
            ("--port=5000", f"--port={self.mlflow.partition(':')[2]}"),
            ("--host=0.0.0.0", "--host=127.0.0.1"),
            ("/data", str(self.folder / name)),
        ):
            text = text.replace(there, here)
        return text

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]

    def lever(self, *args: str) -> str:
        """`docker compose exec farm lever …`."""
        done = subprocess.run(
            ["lever", *args], env=self.environment("farm"), cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def registry(self) -> Registry:
        return open_registry(self.environment("farm")["LEVER_REGISTRY_URL"])

    def stop(self, name: str) -> None:
        process = self.processes[name]
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    def stop_phones(self) -> None:
        """They end with their container; here nothing does that."""
        settings = Settings(self.folder / "farm", "", "", "here")
        for phone in virtual_phones.names(settings):
            virtual_phones.stop(settings, phone)


@pytest.fixture(scope="module")
def composed() -> Iterator[Composed]:
    with tempfile.TemporaryDirectory(prefix="lever-compose-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # the database's user passes through
        (Path(folder) / "pg").mkdir()
        made = Composed(Path(folder))
        made.start_postgres(Path(folder) / "pg")
        assert made.database is not None
        try:
            assert made.healthy("postgres")
            made.start("mlflow")
            made.start("farm")
            yield made
        finally:
            for name in reversed(made.processes):
                made.stop(name)
            made.stop_phones()
            made.database.stop()


@pytest.fixture(scope="module")
def swept(composed: Composed) -> Composed:
    files = LiveFarm(composed.folder).write_pair()
    composed.lever("models", "add", "tiny", "--target", str(files[0]), "--draft", str(files[1]))
    said = composed.lever(*SWEEP, "sweep=composed")
    assert "4 done" in said
    return composed


def test_postgresql_has_every_trial_on_both_phones(swept: Composed) -> None:
    with closing(swept.registry()) as registry:
        trials = registry.trials(registry.sweep("composed").sweep_id)
        assert [t.state for t in trials] == [TrialState.DONE] * 4
        assert {t.device for t in trials} == {"oneplus12", "pixel8"}
        until(lambda: not registry.outbox(1), "everything reached MLflow", 60.0)


def test_mlflow_has_the_runs_and_shows_our_page(swept: Composed) -> None:
    experiment = ask(swept, "experiments/get-by-name?experiment_name=composed")["experiment"]
    runs = ask(swept, "runs/search", {"experiment_ids": [experiment["experiment_id"]]})["runs"]
    assert len(runs) == 5
    listed = [ask(swept, f"artifacts/list?run_id={run['info']['run_id']}") for run in runs]
    assert all(one["files"] for one in listed)
    assert list((swept.folder / "mlflow" / "artifacts").rglob("rounds.parquet"))
    with urllib.request.urlopen(f"http://{swept.mlflow}/lever?sweep=composed") as answer:
        page = answer.read().decode()
    assert "composed" in page
    assert "oneplus12" in page


def ask(swept: Composed, what: str, question: dict[str, Any] | None = None) -> dict[str, Any]:
    """MLflow's REST answer; its own client leaves connections open."""
    body = None if question is None else json.dumps(question).encode()
    asked = urllib.request.Request(
        f"http://{swept.mlflow}/api/2.0/mlflow/{what}", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked) as answer:
        told: dict[str, Any] = json.load(answer)
    return told


def test_a_host_that_is_not_allowed_is_refused(swept: Composed) -> None:
    request = urllib.request.Request(
        f"http://{swept.mlflow}/api/2.0/mlflow/experiments/search", headers={"Host": "evil"}
    )
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request)
    with error.value:
        assert error.value.code == 403


def test_the_wrong_password_is_refused_and_not_shown(swept: Composed) -> None:
    environment = swept.environment("farm")
    wrong = environment["LEVER_REGISTRY_URL"].replace(swept.values["POSTGRES_PASSWORD"], "wrong-secret")
    done = subprocess.run(
        ["lever", "status"],
        env=environment | {"LEVER_REGISTRY_URL": wrong},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "password authentication failed" in done.stderr
    assert "wrong-secret" not in done.stderr
    assert "Traceback" not in done.stderr
