"""The programs of this machine that a build runs: are they there, and what did they say when they failed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.errors import FetchFailed, LeverError, UsageError

# program → Debian package
NEEDED = {
    "apt-get": "apt",
    "dpkg": "dpkg",
    "cmake": "cmake",
    "ninja": "ninja-build",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "aarch64-linux-gnu-strip": "binutils-aarch64-linux-gnu",
}


def check_programs() -> None:
    """Raises UsageError naming all that are missing and how to get them."""
    if missing := [name for name in NEEDED if not shutil.which(name)]:
        packages = " ".join(NEEDED[name] for name in missing)
        raise UsageError(
            f"building a bundle needs {', '.join(missing)}, not found on the PATH", f"Run: apt-get install {packages}"
        )


def run(
    command: Sequence[str | Path],
    log: Path,
    failure: type[LeverError] = FetchFailed,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Its standard output; what it says besides goes to the end of `log`. Raises `failure` with its last words."""
    words = [str(word) for word in command]
    with log.open("ab") as said:
        done = subprocess.run(
            words, env={**os.environ, **(env or {})}, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=said, check=False,
        )  # fmt: skip
        said.write(done.stdout)
    if done.returncode == 0:
        return done.stdout.decode(errors="replace")
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    told = next((line for line in reversed(lines) if "error" in line.lower()), (lines or ["it said nothing"])[-1])
    raise failure(
        f"`{' '.join(words[:4])} …` ended with exit code {done.returncode}: {told.strip()[:300]}",
        "Check the network and the disk's free space, and run it again.",
    )
