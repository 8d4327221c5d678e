"""llama.cpp on the same file and threads, when asked for: its Python binding in an environment of its own.

The binding is built from source the first time, for this machine, with the compiler's flags that our own kernels get
(Makefile). Where that build dies, it is built once more without AMX, and engine.json says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.agent import ROOT
from benchmarks.prompts import PromptSet
from device_agent.protocol import PromptSpec
from orchestrator.errors import LeverError

BINDING = "llama-cpp-python>=0.3.16,<0.4"
WORKER = Path(__file__).with_name("llama_worker.py")
CXXFLAGS = "-fno-tree-dse -fno-dse"  # gcc 12 drops the stores of ggml's AMX tile configuration otherwise
BUILDS = {  # what a build is called, and its environment
    "native": {"CMAKE_ARGS": "-DGGML_NATIVE=ON", "CXXFLAGS": CXXFLAGS},
    "native without AMX": {"CMAKE_ARGS": "-DGGML_NATIVE=ON", "CFLAGS": "-mno-amx-int8", "CXXFLAGS": "-mno-amx-int8"},
}
PROBE = PromptSet("probe", (PromptSpec("probe", (1, 2, 3, 4)),))


@dataclass(frozen=True)
class LlamaTimes:
    tpot_s: float
    output_ids: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class LlamaCpp:
    python: Path
    gguf: Path
    build: str = ""

    def measure(self, prompts: PromptSet, tokens: int, threads: int, n_ctx: int) -> LlamaTimes:
        """Greedy decoding of each prompt. Raises LeverError."""
        asked = {
            "gguf": str(self.gguf),
            "threads": threads,
            "n_ctx": n_ctx,
            "tokens": tokens,
            "prompts": [list(prompt.token_ids) for prompt in prompts.prompts],
        }
        done = subprocess.run(
            [self.python, "-P", WORKER], input=json.dumps(asked), cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise LeverError(f"llama.cpp failed with code {done.returncode}: {said}", "LLAMA_CPP= leaves it out.")
        answer = json.loads(done.stdout.splitlines()[-1])
        seconds, gaps = sum(answer["seconds"]), sum(len(ids) - 1 for ids in answer["output_ids"])
        return LlamaTimes(seconds / gaps, tuple(tuple(ids) for ids in answer["output_ids"]))


def install(folder: Path, gguf: Path, say: Callable[[str], None]) -> LlamaCpp:
    """The binding in an environment below `folder`, built there unless it is. Raises LeverError."""
    if not gguf.is_file():
        raise LeverError(f"LLAMA_CPP={gguf}: no such file", "Name the target's GGUF.")
    python, ready = folder / "bin" / "python", folder / ".build"
    if ready.is_file():
        return LlamaCpp(python, gguf, ready.read_text().strip())
    _run([sys.executable, "-m", "venv", str(folder)])
    for build, environment in BUILDS.items():
        say(f"building {BINDING} ({build}); this takes some minutes")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--force-reinstall", "--no-cache-dir", BINDING], **environment)
        found = LlamaCpp(python, gguf, build)
        if _works(found):
            ready.write_text(f"{build}\n")
            return found
    raise LeverError(f"{BINDING} was built and decodes nothing of {gguf}", "LLAMA_CPP= leaves it out.")


def _works(llama: LlamaCpp) -> bool:
    try:
        return bool(llama.measure(PROBE, 2, 1, 64).output_ids)
    except LeverError:
        return False


def _run(command: list[str], **environment: str) -> None:
    if subprocess.run(command, env=os.environ | environment, check=False).returncode:
        raise LeverError(f"could not install {BINDING}", "pip says why above.")
