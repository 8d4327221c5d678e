"""llama.cpp on the same file and threads, when asked for: its Python binding in an environment of its own.

`LLAMA_CPP=FILE.gguf make bench`, FILE being the target's GGUF. The binding is built from source the first time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.agent import ROOT
from benchmarks.prompts import PromptSet
from orchestrator.errors import LeverError

BINDING = "llama-cpp-python>=0.3.16,<0.4"
WORKER = Path(__file__).with_name("llama_worker.py")


@dataclass(frozen=True)
class LlamaTimes:
    tpot_s: float
    output_ids: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class LlamaCpp:
    python: Path
    gguf: Path

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
            raise LeverError(f"llama.cpp failed: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
        answer = json.loads(done.stdout.splitlines()[-1])
        seconds, gaps = sum(answer["seconds"]), sum(len(ids) - 1 for ids in answer["output_ids"])
        return LlamaTimes(seconds / gaps, tuple(tuple(ids) for ids in answer["output_ids"]))


def install(folder: Path, gguf: Path) -> LlamaCpp:
    """The binding in an environment below `folder`, built there unless it is. Raises LeverError."""
    if not gguf.is_file():
        raise LeverError(f"LLAMA_CPP={gguf}: no such file", "Name the target's GGUF.")
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.is_file():
        commands = [
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", BINDING],
        ]
        for command in commands:
            if subprocess.run(command, check=False).returncode:
                raise LeverError(f"could not install {BINDING}", "pip says why above.")
        ready.write_text(f"{time.time()}\n")
    return LlamaCpp(python, gguf)
