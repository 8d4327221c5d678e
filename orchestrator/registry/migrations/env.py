"""Alembic runs this for every command; the connection comes from our own code, already in a transaction."""

from alembic import context

from orchestrator.registry.migrations import VERSION_TABLE
from orchestrator.registry.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
    transactional_ddl=True,
)
context.run_migrations()
