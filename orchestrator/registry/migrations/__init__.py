"""Alembic owns the schema: a registry is brought up to date when it is opened. No ini file, so that a wheel works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from orchestrator.errors import RegistryError
from orchestrator.registry.database import Database

if TYPE_CHECKING:
    from alembic.config import Config

VERSION_TABLE = "lever_schema_version"  # our own: the same server may hold MLflow's
HEAD = "0007"  # newest revision; known without importing alembic, so that opening is quick


def migrate(database: Database) -> None:
    """Create or upgrade the schema; RegistryError if the database is newer than this code, not ours, or broken."""
    with database.read() as session:
        version = _version(session.connection())
    if version == HEAD:
        return
    with database.migration() as connection:
        version = _version(connection)
        _refuse_unknown(database, connection, version)
        if version != HEAD:
            _upgrade(connection)


def config(connection: Connection) -> Config:
    from alembic.config import Config

    made = Config()
    made.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    made.attributes["connection"] = connection
    return made


def _upgrade(connection: Connection) -> None:
    from alembic import command

    command.upgrade(config(connection), "head")


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    version = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608  # a constant
    return None if version is None else str(version)


def _refuse_unknown(database: Database, connection: Connection, version: str | None) -> None:
    from alembic.script import ScriptDirectory

    known = {s.revision for s in ScriptDirectory.from_config(config(connection)).walk_revisions()}
    if version is not None and version not in known:
        raise RegistryError(
            f"the registry {database.shown} was written by a newer Lever Farm: schema {version}, this one knows {HEAD}",
            "Use that newer version, or set LEVER_REGISTRY_URL to another registry.",
        )
    if version is None and (tables := inspect(connection).get_table_names()):
        raise RegistryError(
            f"the database {database.shown} is not ours: it already holds {', '.join(sorted(tables)[:5])}",
            "Set LEVER_REGISTRY_URL to an empty database or a new file.",
        )
