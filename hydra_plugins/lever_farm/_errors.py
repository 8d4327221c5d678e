"""Hydra's and OmegaConf's complaints as one message each, with the nearest thing that exists."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from orchestrator.errors import ConfigError
from orchestrator.schema import schema_keys

HYDRA_ERRORS = (HydraException, OmegaConfBaseException)
GRAMMAR = "A value with commas, brackets or spaces needs quotes: key='\"a,b\"', or a list: key=[a,b]."
SEE_CONFIG = "`lever sweep --help` shows all groups and keys."


def explain(error: Exception) -> ConfigError:
    """A ConfigError that says the same in one message."""
    if isinstance(error, OverrideParseException):
        return ConfigError(f"override {error.override!r} cannot be read: {_first_line(error)}", GRAMMAR)
    if isinstance(error, MissingConfigException):
        return _missing_config(error)
    if isinstance(error, MissingMandatoryValue):
        key = getattr(error, "full_key", None) or "a value"
        return ConfigError(f"{key} has no value", f"Give it one: {key}=…. {SEE_CONFIG}")
    if "Ambiguous value" in str(error) or "requires --multirun" in str(error):
        return ConfigError(f"{_quoted(error)} has several values", "To run each of them add -m. " + GRAMMAR)
    if found := re.search(r"Multiple values for (\w+)", str(error)):
        return ConfigError(
            f"{found[1]} is given twice", f"It has a default already: write {found[1]}=…, without a plus."
        )
    return _other(error)


def _quoted(error: Exception) -> str:
    """What Hydra's message has in quotes first."""
    found = re.search(r"'([^']+)'", str(error))
    return found[1] if found else "an override"


def _missing_config(error: MissingConfigException) -> ConfigError:
    group, _, option = (error.missing_cfg_file or "").rpartition("/")
    options = sorted(error.options or ())
    if not options:
        return ConfigError(_first_line(error), SEE_CONFIG)
    return ConfigError(
        f"{group}={option}: no such {group}", f"{_close(option, options)}There are: {', '.join(options)}."
    )


def _other(error: Exception) -> ConfigError:
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else None
    message = ": ".join(dict.fromkeys(_first_line(e).rstrip(".:") for e in (error, cause) if e and str(e)))
    named = re.search(r"(?:override|append to|Key) '([^'=]+)'", str(error))
    hint = _close(named[1], [key for key, _ in schema_keys()]) if named else ""
    return ConfigError(message or type(error).__name__, hint + SEE_CONFIG)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _close(name: str, options: Sequence[str]) -> str:
    found = difflib.get_close_matches(name, options, n=1)
    return f"Did you mean {found[0]}? " if found else ""


def refuse_unknown(keys: Iterable[str]) -> None:
    """Raises ConfigError for a key that the schema does not have: `+key=…` gets past Hydra's own check."""
    known = [key for key, is_value in schema_keys() if is_value]
    if unknown := next((key for key in keys if key not in known), None):
        raise ConfigError(f"there is no key {unknown!r}", f"{_close(unknown, known)}{SEE_CONFIG}")
