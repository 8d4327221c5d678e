"""Alembic owns the schema: what migrations make is what the models say."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from orchestrator.errors import RegistryError
from orchestrator.registry import trials
from orchestrator.registry.database import Database, DbNow
from orchestrator.registry.migrations import HEAD, VERSION_TABLE, config, migrate
from orchestrator.registry.models import Base


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(f"sqlite:///{tmp_path / 'registry.db'}")


def version(connection: Connection) -> str | None:
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def test_migrations_make_what_the_models_say(database: Database) -> None:
    migrate(database)
    with database.engine.connect() as connection, connection.begin():
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
        assert version(connection) == HEAD
        named = inspect(connection).get_foreign_keys("attempts")
        assert {key["name"] for key in named} == {"fk_attempts_device_devices", "fk_attempts_trial_id_trials"}
    database.close()


def test_the_newest_revision_is_the_one_that_the_code_names(database: Database) -> None:
    with database.migration() as connection:
        script = ScriptDirectory.from_config(config(connection))
    assert script.get_heads() == [HEAD]
    database.close()


def test_migrating_again_changes_nothing(database: Database) -> None:
    migrate(database)
    migrate(database)
    with database.engine.connect() as connection:
        assert version(connection) == HEAD
    database.close()


def test_an_older_registry_keeps_its_results(database: Database) -> None:
    with database.migration() as connection:
        command.upgrade(config(connection), "0001")
    trial = "INSERT INTO trials (trial_id, state, queue, repeat, attempts, earlier_attempts, charged_failures, reason, "
    trial += "derived, labels, config, job) VALUES ('t', 'done', '', 0, 1, 0, 0, '', 1, '{}', '{}', '{}')"
    with database.write() as session:
        session.execute(text(trial))
        session.execute(text("INSERT INTO results VALUES ('t', '{}', 'rounds')"))
    migrate(database)
    with database.read() as session:
        assert (trials.rounds(session, "t"), trials.nodes(session, "t")) == ("rounds", "")
    database.close()


def test_a_migration_that_breaks_leaves_nothing_half_made(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_args: object, **_more: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("alembic.op.create_index", breaks)
    with pytest.raises(RegistryError, match="No space left"):
        migrate(database)
    monkeypatch.undo()
    with database.engine.connect() as connection:
        assert inspect(connection).get_table_names() == []
    migrate(database)
    database.close()


def test_a_database_of_a_newer_version_is_refused(database: Database) -> None:
    migrate(database)
    with database.write() as session:
        session.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(RegistryError, match="newer Lever Farm: schema 9999") as error:
        migrate(database)
    assert "LEVER_REGISTRY_URL" in error.value.remedy
    database.close()


def test_somebody_elses_database_is_left_alone(database: Database) -> None:
    with database.write() as session:
        session.execute(text("CREATE TABLE experiments (id INTEGER)"))
    with pytest.raises(RegistryError, match="not ours: it already holds experiments"):
        migrate(database)
    with database.engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["experiments"]
    database.close()


def test_the_schema_and_the_clock_compile_for_postgresql() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    for table in Base.metadata.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=dialect))
        for index in table.indexes:
            assert len(str(index.name)) < 64
            CreateIndex(index).compile(dialect=dialect)
    assert "clock_timestamp" in str(DbNow().compile(dialect=dialect))
