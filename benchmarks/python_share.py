"""How much of a resident draft pass is Python's: `python -m benchmarks.python_share PACK_DIR` prints it as JSON.

A pass is what strategies do for one token: lay out the batch, look up its row, run the layers, project, take the best
tokens. What lies outside ggml's own computing is Python's, numpy included.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.agent import ROOT
from device_agent.waiting import set_waiting
from orchestrator.errors import LeverError

PASSES, WARM_UP = 96, 16
PROMPT = 64  # tokens
THREADS, N_CTX, TRIM = 2, 512, 16_384


@dataclass(frozen=True)
class PythonShare:
    """Medians over passes."""

    share: float  # of a pass
    pass_s: float


def measure_apart(pack: Path) -> PythonShare:
    """In a process of its own. Raises LeverError."""
    command = [sys.executable, "-m", "benchmarks.python_share", str(pack)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LeverError(f"{' '.join(command[1:3])} failed", (done.stderr.strip().splitlines() or ["no output"])[-1])
    return PythonShare(**json.loads(done.stdout))


def measure(pack: Path) -> PythonShare:
    from device_agent.engine.drafter import Drafter
    from device_agent.engine.tree import TokenTree
    from device_agent.kernels.ggml import Device
    from device_agent.model.native_pack import native_pack
    from device_agent.model.transformer import open_transformer
    from device_agent.model.weights import open_resident

    model = open_transformer(open_resident(native_pack(pack), alike=False), N_CTX, THREADS)
    kernel_s, compute = 0.0, Device.compute

    def timed(device: Device, graph: object) -> None:
        nonlocal kernel_s
        started = perf_counter()
        compute(device, graph)
        kernel_s += perf_counter() - started

    setattr(Device, "compute", timed)  # noqa: B010  # assigning to a method is an error to mypy
    drafter, token, found = Drafter(model, TRIM), 1, []
    drafter.begin(range(PROMPT))
    for _ in range(WARM_UP + PASSES):
        tree, before, started = TokenTree(token), kernel_s, perf_counter()
        token = drafter.likely(tree, [0], 4)[0][0][0]
        found.append((perf_counter() - started, kernel_s - before))
        drafter.settle(tree, [0])
    model.close()
    timed_passes = found[WARM_UP:]
    share = median((whole - kernel) / whole for whole, kernel in timed_passes)
    return PythonShare(share, median(whole for whole, _ in timed_passes))


if __name__ == "__main__":
    set_waiting()  # as the agent; before ggml is loaded
    print(json.dumps(asdict(measure(Path(sys.argv[1])))))
