"""The real arm64 bundle: built once by `lever bundle build`, kept in the checkout's .lever for the next run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.bundles.base import base_folder, find_base
from orchestrator.bundles.programs import NEEDED

KEPT = Path(__file__).parents[2] / ".lever" / "arm64"
EMULATOR = "qemu-aarch64-static"
BUILD_S = 1500


@pytest.fixture(scope="session")
def arm64_home() -> Path:
    """A LEVER_HOME in which the bundle was built; do not change it."""
    packages = {**NEEDED, EMULATOR: "qemu-user-static"}
    if missing := [name for name in packages if not shutil.which(name)]:
        what = f"{', '.join(missing)} missing: apt-get install {' '.join(packages[name] for name in missing)}"
        pytest.fail(what) if os.environ.get("CI") else pytest.skip(what)
    if find_base(KEPT) is None:
        build(KEPT)
    return KEPT


def build(home: Path, *options: str) -> None:
    """`lever bundle build arm64`."""
    command = [sys.executable, "-P", "-m", "orchestrator", "bundle", "build", "arm64", *options]
    subprocess.run(command, check=True, timeout=BUILD_S, env={**os.environ, "LEVER_HOME": str(home)})


def give_base(built: Path, home: Path) -> None:
    """`home` has what was built in `built`."""
    base_folder(home).parent.mkdir(parents=True, exist_ok=True)
    base_folder(home).symlink_to(base_folder(built))
