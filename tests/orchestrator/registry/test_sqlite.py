"""What only a file can do: be shared by processes, survive them, be broken."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.entities import FarmEvent, Sweep, TrialState
from orchestrator.errors import ConfigError, RegistryError
from orchestrator.registry import database as registry_database
from orchestrator.registry.sql import open_registry
from tests.fakes import farm
from tests.fakes.farm import PHONE

WORKER = """
import sys
from orchestrator.entities import TrialState
from orchestrator.errors import ClaimLost
from orchestrator.registry.sql import open_registry
from tests.fakes import farm

registry = open_registry(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
while queue := registry.queue()[:5]:
    for trial in [one.trial for one in queue]:
        try:
            attempt = registry.start_attempt(trial.spec.trial_id, sys.argv[2], sys.argv[2], 60.0)
        except ClaimLost:
            continue
        registry.set_derived("counter", {f"{sys.argv[2]}-{attempt.number}-{trial.spec.trial_id}": 1.0}, {})
        registry.finish_attempt(attempt, farm.done(attempt), TrialState.DONE, charged=False)
        print(trial.spec.trial_id, flush=True)
registry.close()
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'deep' / 'registry.db'}"


def start_worker(url: str, phone: str, code: str = WORKER) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, url, phone], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_processes_share_the_work_and_lose_nothing(url: str) -> None:
    phones = ["p0", "p1"]
    with closing(open_registry(url)) as registry:
        for name in (PHONE, *phones):
            registry.put_device(farm.phone(name))
        farm.submit(registry, "counter")
        farm.finish(registry, "counter")
        registry.submit(Sweep("id-w", "w"), [farm.trial(f"t{i}", device=None) for i in range(30)])
        workers = [start_worker(url, name) for name in phones]
        for worker in workers:
            assert worker.stdout
            assert worker.stdout.readline() == "ready\n"
        finished = "".join(_all_said(workers)).split()
        assert sorted(finished) == sorted(f"t{i}" for i in range(30))
        assert registry.counts("id-w") == {TrialState.DONE: 30}
        assert all(t.attempts == 1 for t in registry.trials("id-w"))
        counter = registry.trial("counter").result
        assert counter is not None
        assert len(counter["metrics"]) == 31  # one from each, read, changed and written back


def _all_said(workers: list[subprocess.Popen[str]]) -> list[str]:
    for worker in workers:
        assert worker.stdin
        worker.stdin.write("go\n")
        worker.stdin.flush()
    said = [worker.communicate(timeout=120)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * len(workers)
    return said


def test_processes_that_open_a_new_registry_at_once_all_succeed(url: str) -> None:
    opens = "import sys; from orchestrator.registry.sql import open_registry; open_registry(sys.argv[1]).close()"
    workers = [start_worker(url, PHONE, opens) for _ in range(3)]
    _all_said(workers)


def test_everything_survives_reopening(url: str) -> None:
    with closing(open_registry(url)) as registry:
        registry.put_device(farm.phone())
        farm.submit(registry, "t1", "t2")
        farm.finish(registry, "t1")
        running = farm.run(registry, "t2")
        registry.set_tracking_run_id("id-s", "t1", "run")
        owed = registry.outbox(99)
        events = registry.events()
    with closing(open_registry(url)) as registry:
        assert registry.outbox(99) == owed
        assert registry.events() == events
        assert registry.tracking_run_id("id-s", "t1") == "run"
        assert registry.running() == [running]
        assert [t.state.value for t in registry.trials("id-s")] == ["done", "running"]
        registry.add_event(FarmEvent("progress"))
        assert registry.last_event_id() > events[-1].event_id


# --- trouble


def test_a_file_that_is_no_database_is_named(url: str) -> None:
    path = Path(url.removeprefix("sqlite:///"))
    path.parent.mkdir()
    path.write_bytes(b"this was a registry once" * 100)
    with pytest.raises(RegistryError, match="not a database") as error:
        open_registry(url)
    assert str(path) in error.value.message
    assert "Put a copy back" in error.value.remedy
    assert path.read_bytes().startswith(b"this was")


def test_a_damaged_database_is_named(url: str) -> None:
    with closing(open_registry(url)) as registry:
        registry.put_device(farm.phone())
    path = Path(url.removeprefix("sqlite:///"))
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with (
        pytest.raises(RegistryError, match=r"malformed|not a database") as error,
        closing(open_registry(url)) as registry,
    ):
        registry.devices()
    assert "damaged" in error.value.remedy


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RegistryError, match="file"):
        open_registry(f"sqlite:///{tmp_path / 'file' / 'registry.db'}")


def test_a_registry_that_somebody_holds_says_so(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_database, "BUSY_TIMEOUT_MS", 20)
    with closing(open_registry(url)) as registry:
        registry.put_device(farm.phone())
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            with pytest.raises(RegistryError, match="locked") as error:
                registry.add_event(FarmEvent("progress"))
            assert registry.devices() == [farm.phone()]  # readers are not held up
            assert "Another process" in error.value.remedy
        registry.add_event(FarmEvent("progress"))


def test_a_read_only_registry_can_be_read(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_registry(url)) as registry:
        registry.put_device(farm.phone())
    configure = registry_database._configure_sqlite

    def read_only(connection: sqlite3.Connection, record: object) -> None:
        configure(connection, record)  # type: ignore[arg-type]
        connection.execute("PRAGMA query_only=ON")  # root may write anywhere: what a read-only file answers

    monkeypatch.setattr(registry_database, "_configure_sqlite", read_only)
    with closing(open_registry(url)) as registry:
        assert registry.devices() == [farm.phone()]
        with pytest.raises(RegistryError, match="readonly") as error:
            registry.add_event(FarmEvent("progress"))
        assert "writable" in error.value.remedy


@pytest.mark.parametrize("url", ["nonsense", "oracle://x/y", "mysql+nodriver://x/y", "sqlite://"])
def test_an_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="as a registry") as error:
        open_registry(url)
    assert "LEVER_REGISTRY_URL" in error.value.remedy


def test_threads_share_one_registry_without_waiting_for_the_lock(url: str) -> None:
    with closing(open_registry(url)) as registry:
        threads = [threading.Thread(target=lambda: registry.add_event(FarmEvent("progress"))) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(registry.events()) == 16
    assert not os.path.exists(f"{url.removeprefix('sqlite:///')}-wal")  # the last one out folds the log in
