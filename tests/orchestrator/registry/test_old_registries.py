"""Registries that older versions wrote (`old/REVISION.DIALECT.sql`), opened by this one: nothing is lost, all goes on.

Each dump holds two phones, one quarantined, and three sweeps with a done, a failed, a running, two waiting and a
cancelled trial, made by the code of its revision.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import select

from orchestrator.entities import DeviceState, FarmEvent, TrialState
from orchestrator.errors import RegistryError
from orchestrator.registry.migrations import HEAD
from orchestrator.registry.models import TrialRow
from orchestrator.registry.sql import SqlRegistry, open_registry
from tests.fakes import farm
from tests.fakes.farm import PHONE
from tests.fakes.postgres import Postgres

DUMPS = sorted((Path(__file__).parent / "old").glob("*.sql"))


@pytest.fixture(params=DUMPS, ids=lambda dump: dump.stem)
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlRegistry]:
    dump: Path = request.param
    if dump.stem.endswith("sqlite"):
        url = f"sqlite:///{tmp_path / 'registry.db'}"
        with closing(sqlite3.connect(tmp_path / "registry.db")) as connection:
            connection.executescript(dump.read_text())
    else:
        server: Postgres = request.getfixturevalue("postgres")
        url = server.create()
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connected:
            connected.execute(dump.read_bytes())
    with closing(open_registry(url)) as made:
        assert isinstance(made, SqlRegistry)
        yield made


def test_every_revision_but_the_newest_has_its_dumps() -> None:
    older = [f"{number:04d}" for number in range(1, int(HEAD))]
    assert {dump.stem for dump in DUMPS} >= {
        f"{old}.{dialect}" for old in older for dialect in ("sqlite", "postgresql")
    }


def test_all_that_was_there_is_there(registry: SqlRegistry) -> None:
    assert [(t.spec.trial_id, t.state.value) for t in registry.trials("id-friday")] == [
        ("done", "done"),
        ("failed", "failed"),
        ("running", "running"),
        ("waiting", "waiting"),
    ]
    assert registry.trial("dropped").state is TrialState.CANCELLED
    result = registry.trial("done").result
    assert result is not None
    assert result["metrics"] == {"tpot_s": 0.5, "speedup_over_autoregressive": 2.0}
    assert registry.rounds_jsonl("done") == '{"round": 0}\n'
    assert registry.attempts("failed")[0].log_tail == "the log"
    assert registry.trial("waiting").reason == "phone oneplus12 is busy"
    assert registry.device("pixel8").state is DeviceState.QUARANTINED
    assert registry.tracking_run_id("id-friday", "done") == "run-1"
    assert [s.name for s in registry.unfinished()] == ["friday", "other"]
    assert len(registry.outbox(99)) == 7
    assert [e.kind for e in registry.events()].count("attempt_started") == 3


def test_work_goes_on(registry: SqlRegistry) -> None:
    (running,) = registry.running()
    assert running.lease_expired
    adopted = registry.adopt(running.attempt_id, "me", 60.0)
    registry.finish_attempt(adopted, farm.failed(adopted), TrialState.FAILED, charged=True)
    with registry._db.read() as session:
        failed = session.connection().exec_driver_sql("SELECT failed_trials FROM sweeps ORDER BY seq").scalars().all()
    assert failed == [2, 0, 0]
    farm.finish(registry, "waiting")
    assert farm.submit(registry, "failed", "running", sweep="friday").queued == ("failed", "running")
    assert registry.reserve(PHONE, "me", 60.0).device == PHONE


def test_baselines_are_found_as_they_would_be_had_they_run_now(registry: SqlRegistry) -> None:
    done = registry.trial("done")
    labels = done.spec.labels
    is_baseline = labels["strategy"] == "autoregressive"  # in dumps from 0005 on
    assert [t.spec.trial_id for t in registry.baselines(done)] == (["done"] if is_baseline else [])
    query = select(TrialRow.baseline_key, TrialRow.streamed).where(TrialRow.trial_id == "done")
    with registry._db.read() as session:
        assert session.execute(query).one() == (labels.get("baseline_key"), labels.get("storage") != "resident")


def test_events_cannot_be_changed(registry: SqlRegistry) -> None:
    registry.add_event(FarmEvent("progress"))
    for statement in ("UPDATE events SET kind = 'other'", "DELETE FROM events"):
        with pytest.raises(RegistryError, match="append-only"), registry._db.write() as session:
            session.connection().exec_driver_sql(statement)
    assert registry.events()[-1].kind == "progress"
