"""ggml cross-built for arm64, once for each variant of its CPU kernels."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from orchestrator.bundles.programs import run
from orchestrator.errors import LeverError

COMPILER = "aarch64-linux-gnu-"
LIBRARIES = ("libggml-base.so", "libggml-cpu.so", "libggml.so")
SETTINGS = {
    "CMAKE_SYSTEM_NAME": "Linux",
    "CMAKE_SYSTEM_PROCESSOR": "aarch64",
    "CMAKE_C_COMPILER": f"{COMPILER}gcc",
    "CMAKE_CXX_COMPILER": f"{COMPILER}g++",
    "CMAKE_BUILD_TYPE": "Release",
    "CMAKE_BUILD_WITH_INSTALL_RPATH": "ON",
    "CMAKE_INSTALL_RPATH": "$ORIGIN",
    "BUILD_SHARED_LIBS": "ON",
    "GGML_NATIVE": "OFF",
    "GGML_OPENMP": "OFF",  # ggml's own threads: one library less on the phone
    "GGML_LLAMAFILE": "ON",  # as on the host
    "GGML_CCACHE": "OFF",
    "GGML_BUILD_TESTS": "OFF",
    "GGML_BUILD_EXAMPLES": "OFF",
}


def build_ggml(
    source: Path, variants: dict[str, str], work: Path, log: Path, jobs: int, report: Callable[[str], None]
) -> dict[str, Path]:
    """For each variant (name → -march) a folder with its LIBRARIES, stripped. Raises LeverError."""
    return {name: _built(source, name, arch, work, log, jobs, report) for name, arch in variants.items()}


def _built(source: Path, name: str, arch: str, work: Path, log: Path, jobs: int, report: Callable[[str], None]) -> Path:
    report(f"ggml for {name} ({arch})")
    build, libraries = work / f"ggml-{name}", work / f"ggml-{name}-lib"
    unplaced = f"-ffile-prefix-map={source}=."  # asserts tell where they stand: not in whose folder
    settings = {**SETTINGS, "GGML_CPU_ARM_ARCH": arch, "CMAKE_C_FLAGS": unplaced, "CMAKE_CXX_FLAGS": unplaced}
    stated = [f"-D{key}={value}" for key, value in settings.items()]
    run(["cmake", "-G", "Ninja", "-S", source, "-B", build, *stated], log, LeverError)
    run(["ninja", "-C", build, f"-j{jobs}", "ggml"], log, LeverError)
    libraries.mkdir()
    for library in LIBRARIES:
        found = next(build.rglob(library))
        shutil.copy(found, libraries / library)
        run([f"{COMPILER}strip", "--strip-unneeded", libraries / library], log, LeverError)
    shutil.rmtree(build)
    return libraries
