"""A real PostgreSQL, from Debian's packages, on loopback: one server a session, a fresh database a test."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from orchestrator.registry.database import Database
from orchestrator.registry.migrations import migrate

BINARIES = "/usr/lib/postgresql"
TEMPLATE = "lever_template"
LOSSY = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off"  # a killed server keeps all
NAMES = itertools.count()


class Postgres:
    """A server with its data in `folder`; started as the user postgres when we are root, whom it refuses. Without a
    password it trusts everybody on loopback."""

    def __init__(self, folder: Path, settings: str = LOSSY, password: str = "") -> None:
        self.folder, self.settings, self.password = folder, settings, password
        self.binaries = _binaries()
        self.port = _free_port()
        folder.chmod(0o755)
        if os.getuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        secret = folder / "password"
        secret.write_text(password or "none")
        secret.chmod(0o644)  # a throwaway
        auth = ["-A", "scram-sha-256" if password else "trust", "--pwfile", str(secret)]
        self._run("initdb", "-D", self._data, *auth, "-U", "lever", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def start(self) -> None:
        """Returns once it answers; after `kill` it recovers first, when the last of its children is gone."""
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} {self.settings}"
        )
        words = ("-D", self._data, "-w", "-t", "60", "-l", str(self.folder / "log"), "-o", options, "start")
        for _ in range(20):
            if self._did("pg_ctl", *words):
                return
            threading.Event().wait(0.5)
        raise AssertionError((self.folder / "log").read_text()[-2000:])

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "stop")

    def kill(self) -> None:
        """kill -9 of the postmaster; its children notice and end themselves."""
        if pid := self._pid():
            os.kill(pid, signal.SIGKILL)
            while self._pid() == pid:
                threading.Event().wait(0.02)

    def running(self) -> bool:
        return self._pid() is not None

    def _pid(self) -> int | None:
        """The postmaster's, if it lives."""
        file = self.folder / "data" / "postmaster.pid"
        pid = int(file.read_text().split()[0]) if file.exists() else 0
        try:
            return pid if pid and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def url(self, name: str) -> str:
        user = f"lever:{self.password}" if self.password else "lever"
        return f"postgresql+psycopg://{user}@127.0.0.1:{self.port}/{name}"

    def sql(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres").replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(statement)

    def create(self, template: str = "template0") -> str:
        """URL of a new database."""
        name = f"lever_{next(NAMES)}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def _run(self, program: str, *args: str) -> None:
        assert self._did(program, *args), (self.folder / "commands").read_text()

    def _did(self, program: str, *args: str) -> bool:
        command = [str(self.binaries / program), *args]
        if os.getuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        with (self.folder / "commands").open("ab") as out:  # no pipe: the server would hold it open
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/", timeout=120, check=False
            )
        return done.returncode == 0


def _binaries() -> Path:
    """Fails where continuous integration must have it, skips where a person may not."""
    if found := sorted(Path(BINARIES).glob("*/bin/initdb"), key=lambda p: int(p.parts[-3])):
        return found[-1].parent
    missing = "PostgreSQL is not installed: apt-get install postgresql"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """With TEMPLATE, an empty registry of the newest schema."""
    with tempfile.TemporaryDirectory(prefix="lever-pg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        server = Postgres(Path(folder))
        server.start()
        server.sql(f"CREATE DATABASE {TEMPLATE}")
        database = Database(server.url(TEMPLATE))
        migrate(database)
        database.close()
        yield server
        server.stop()


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """An empty registry of its own."""
    url = postgres.create(TEMPLATE)
    yield url
    postgres.sql(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")
