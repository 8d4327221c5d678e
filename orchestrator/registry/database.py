"""Connections, transactions, the database's clock and its errors: the one place that knows SQLite from PostgreSQL.

On SQLite the driver's own transaction control is off and every writing transaction begins with BEGIN IMMEDIATE: one
that reads first and writes later never loses another's update. On PostgreSQL writers queue on one advisory lock for the
same effect; that also makes event ids commit in order, so that a follower skips none.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Double, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.functions import FunctionElement

from orchestrator.errors import ConfigError, RegistryError

BUSY_TIMEOUT_MS = 30_000
WRITE_LOCK = 0x4C455645  # advisory lock number on PostgreSQL


class DbNow(FunctionElement[float]):
    """Unix seconds by the database's own clock: one clock for all hosts."""

    type = Double()
    inherit_cache = True


@compiles(DbNow, "sqlite")
def _sqlite_now(_element: DbNow, _compiler: Any, **_kw: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(DbNow, "postgresql")
def _postgresql_now(_element: DbNow, _compiler: Any, **_kw: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"


class Database:
    """Pooled connections to `url`; `read()` and `write()` are whole transactions that raise RegistryError only."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.shown = _shown(url)
        self.engine = _engine(url)
        self._readers = self.engine.execution_options(read_only=True)

    @property
    def sqlite_path(self) -> Path | None:
        path = self.engine.url.database if self.engine.dialect.name == "sqlite" else None
        return Path(path) if path else None

    @contextlib.contextmanager
    def write(self) -> Iterator[Session]:
        with self.errors(), Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextlib.contextmanager
    def read(self) -> Iterator[Session]:
        """A consistent snapshot."""
        with self.errors(), Session(self._readers) as session, session.begin():
            yield session

    @contextlib.contextmanager
    def migration(self) -> Iterator[Connection]:
        """One migrating process at a time, in one transaction; on SQLite without foreign key checks, since changing a
        table means building it anew."""
        with self.errors(), self._migration_lock(), self.engine.connect() as connection:
            if self.sqlite_path:
                _pragma(connection, "journal_mode=WAL", "foreign_keys=OFF")
            with connection.begin():
                yield connection
            connection.invalidate()  # its foreign key checks are off: not for the pool

    @contextlib.contextmanager
    def _migration_lock(self) -> Iterator[None]:
        if self.sqlite_path is None:
            yield
            return
        with open(f"{self.sqlite_path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what goes wrong with the database into RegistryError that says what to do."""
        try:
            yield
        except DBAPIError as error:
            raise self._explained(str(error.orig)) from error
        except (SQLAlchemyError, OSError) as error:
            raise self._explained(str(error)) from error

    def _explained(self, text: str) -> RegistryError:
        remedy = next((r for part, r in REMEDIES.items() if part in text), "Check that the database answers.")
        return RegistryError(f"the registry {self.shown} failed: {text}", remedy)

    def close(self) -> None:
        self.engine.dispose()


REMEDIES = {
    "is locked": "Another process holds it for long; end it, or try again.",
    "readonly": "Make the file and its folder writable for you, or set LEVER_REGISTRY_URL to another place.",
    "Permission denied": "Make the file and its folder writable for you, or set LEVER_REGISTRY_URL to another place.",
    "unable to open": "Check that its folder exists and that you may write there.",
    "not a database": "The file is damaged. Put a copy back, or move it away: a new, empty one is made.",
    "malformed": "The file is damaged. Put a copy back, or move it away: a new, empty one is made.",
    "is full": "Free some disk space; nothing is lost meanwhile.",
}


def _engine(url: str) -> Engine:
    try:
        made = _made_engine(url)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        example = "Use sqlite:////folder/registry.db or postgresql://user@host/name in LEVER_REGISTRY_URL."
        raise ConfigError(f"cannot use {_shown(url)} as a registry: {error}", example) from error
    event.listen(made, "begin", _begin)
    return made


def _made_engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_engine(url, pool_size=20, pool_pre_ping=True)
    if parsed.database in (None, "", ":memory:"):
        raise ArgumentError("it has no file and would forget everything")
    engine = create_engine(url, pool_size=20, connect_args={"check_same_thread": False})
    event.listen(engine, "connect", _configure_sqlite)
    return engine


def _configure_sqlite(connection: DBAPIConnection, _record: object) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    # FULL: a finished attempt is still finished after a power cut.
    for setting in (f"busy_timeout={BUSY_TIMEOUT_MS}", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


def _begin(connection: Connection) -> None:
    read_only = connection.get_execution_options().get("read_only")
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
    elif not read_only:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITE_LOCK})")
    else:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")


def _pragma(connection: Connection, *settings: str) -> None:
    cursor = connection.connection.cursor()
    for setting in settings:
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


def _shown(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return repr(url)
