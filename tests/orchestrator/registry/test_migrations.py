"""Alembic owns the schema: what migrations make is what the models say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from orchestrator.errors import RegistryError
from orchestrator.registry.database import Database
from orchestrator.registry.migrations import HEAD, VERSION_TABLE, config, migrate
from orchestrator.registry.models import Base


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """Empty."""
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'registry.db'}" if sqlite else request.getfixturevalue("postgres").create()
    made = Database(url)
    yield made
    made.close()


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


def test_the_newest_revision_is_the_one_that_the_code_names(database: Database) -> None:
    with database.migration() as connection:
        script = ScriptDirectory.from_config(config(connection))
    assert script.get_heads() == [HEAD]


def test_migrating_again_changes_nothing(database: Database) -> None:
    migrate(database)
    migrate(database)
    with database.engine.connect() as connection:
        assert version(connection) == HEAD


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


def test_a_database_of_a_newer_version_is_refused(database: Database) -> None:
    migrate(database)
    with database.write() as session:
        session.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(RegistryError, match="newer Lever Farm: schema 9999") as error:
        migrate(database)
    assert "LEVER_REGISTRY_URL" in error.value.remedy


def test_somebody_elses_database_is_left_alone(database: Database) -> None:
    with database.write() as session:
        session.execute(text("CREATE TABLE experiments (id INTEGER)"))
    with pytest.raises(RegistryError, match="not ours: it already holds experiments"):
        migrate(database)
    with database.engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["experiments"]
