"""The farm's authentication: one secret that Ray asks of every process; who knows it may run code on every host."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from orchestrator.errors import FarmError, UsageError
from orchestrator.run_files import write_private
from orchestrator.settings import Settings

TOKEN_BYTES = 32


def token_path(settings: Settings) -> Path:
    return settings.home / "ray_token"


def make_token(settings: Settings) -> str:
    """The farm's own: what the environment names, else what was made before, else a new one; kept from now on."""
    token = _given() or kept_token(settings) or secrets.token_hex(TOKEN_BYTES)
    keep_token(settings, token)
    return token


def find_token(settings: Settings, address: str) -> str:
    """Of the farm at `address`, on a machine that joins it. Raises UsageError."""
    if token := _given() or kept_token(settings):
        return token
    raise UsageError(
        f"no authentication token for the farm at {address}",
        f"Copy the first machine's LEVER_HOME/ray_token to {token_path(settings)}, or set RAY_AUTH_TOKEN to it.",
    )


def keep_token(settings: Settings, token: str) -> None:
    """For its owner only."""
    write_private(token_path(settings), token)


def _given() -> str:
    if named := os.environ.get("RAY_AUTH_TOKEN_PATH"):
        try:
            return Path(named).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise FarmError(f"RAY_AUTH_TOKEN_PATH={named} cannot be read: {error}") from error
    return os.environ.get("RAY_AUTH_TOKEN", "").strip()


def kept_token(settings: Settings) -> str:
    """Of an earlier `lever up --listen` or `lever host join`; empty when there was none. Raises FarmError."""
    try:
        return token_path(settings).read_text().strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise FarmError(f"{token_path(settings)} cannot be read: {error}") from error
