"""docker-compose.yml as an engine would read it: interpolated, its commands ready to be run without one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, cast

import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
VARIABLE = re.compile(r"\$\{(\w+)(?::\?[^}]*)?\}")


def raw() -> dict[str, Any]:
    return cast("dict[str, Any]", yaml.safe_load(FILE.read_text()))


def variables() -> set[str]:
    return set(VARIABLE.findall(FILE.read_text()))


def services(values: dict[str, str]) -> dict[str, Any]:
    """By name, every `${NAME:?…}` replaced; KeyError for one that has no value."""
    text = VARIABLE.sub(lambda found: values[found[1]], FILE.read_text())
    return cast("dict[str, Any]", yaml.safe_load(text)["services"])


def check(service: dict[str, Any]) -> list[str]:
    """The health check's command line."""
    kind, *words = service["healthcheck"]["test"]
    return words if kind == "CMD" else ["sh", "-c", words[0]]


def env_file(path: Path) -> dict[str, str]:
    pairs = (line.partition("=") for line in path.read_text().splitlines())
    return {name: shlex.split(value)[0] for name, _, value in pairs}
