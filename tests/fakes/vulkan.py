"""A second ggml device that is none: Vulkan on Mesa's software driver. Built once, kept in the checkout's .lever."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DRIVER = Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json")
TOOLS = ("cmake", "ninja", "glslc", "apt-get")
PACKAGES = "cmake ninja-build glslc libvulkan-dev mesa-vulkan-drivers spirv-headers"
BUILD_S = 1800
TRIES = 4
DRIVERS_END = (-signal.SIGSEGV, -signal.SIGABRT)


@pytest.fixture(scope="session")
def vulkan() -> dict[str, str]:
    """Environment of a process whose ggml has the device Vulkan0."""
    missing = [tool for tool in TOOLS if not shutil.which(tool)] + ([] if DRIVER.exists() else [str(DRIVER)])
    if missing:
        what = f"{', '.join(missing)} missing for the Vulkan device: apt-get install {PACKAGES}"
        pytest.fail(what) if os.environ.get("CI") else pytest.skip(what)
    folder = ROOT / ".lever" / f"vulkan-{version('ggml-python')}"
    library = folder / "libggml-vulkan.so"
    if not library.exists():
        build = [ROOT / "tests" / "fakes" / "build_vulkan.sh", folder, version("ggml-python")]
        subprocess.run([*map(str, build)], check=True, timeout=BUILD_S, env={**os.environ, "PYTHON": sys.executable})
    return {
        **os.environ,
        "GGML_BACKEND_PATH": str(library),
        "GGML_VK_VISIBLE_DEVICES": "0",
        "GGML_VK_DISABLE_F16": "1",  # that driver's half precision is slow to compile
        # Debian 12's driver reads scratch that ggml frees behind a batch of several operations: one at a time, then.
        "GGML_VK_MAX_NODES_PER_SUBMIT": "1",
        "VK_ICD_FILENAMES": str(DRIVER),
        "MESA_SHADER_CACHE_DIR": str(folder / "shaders"),
        "PYTHONPATH": str(ROOT),
    }


def ran(command: Sequence[str | Path], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """How the command ended; its last word is a folder, which holds what it holds now at each try.

    Quirk: Debian 12's driver follows pointers to buffers that ggml has freed, and takes some of a hundred processes
    down by a signal. Such an end is the driver's, and the command is tried again; any other counts."""
    folder = Path(command[-1])
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for _ in range(TRIES):
        done = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in DRIVERS_END:
            break
        shutil.rmtree(folder)
        folder.mkdir()
        for path, content in before.items():
            path.write_bytes(content)
    return done
