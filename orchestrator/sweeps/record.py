"""What a sweep records of where it came from, so that it can be repeated."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from device_agent.protocol import ENGINE_VERSION
from orchestrator.entities import TrialSpec

PACKAGES = ("lever-farm", "hydra-core", "ray", "mlflow", "numpy", "ggml-python", "gguf", "tokenizers", "adb-shell")
GIT_S = 5.0


def provenance(overrides: Sequence[Sequence[str]], trials: Sequence[TrialSpec]) -> dict[str, Any]:
    """JSON-ready: each job's overrides, git revision, versions, pack hashes."""
    return {
        "overrides": [list(job) for job in overrides],
        "git_revision": git_revision(Path(__file__).resolve().parents[2]),
        "engine_version": ENGINE_VERSION,
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "python": platform.python_version(),
        "packs": sorted(packs_of(trials)),
    }


def packs_of(trials: Sequence[TrialSpec]) -> set[str]:
    return {spec.job[key] for spec in trials for key in ("target_pack", "draft_pack")} - {None}


def git_revision(checkout: Path) -> str | None:
    """Of the checkout that this code runs from, with -dirty when it was changed; None when it is installed."""
    if not (checkout / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=GIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
