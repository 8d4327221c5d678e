"""Alembic owns the schema."""
