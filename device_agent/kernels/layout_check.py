"""`python -m device_agent.kernels.layout_check LAYOUT KIND:COLUMNS…`: does that layout of ggml's work here?

A process of its own, because they may not: ggml's AMX code as gcc 12 compiles it dies of an illegal instruction unless
stores that seem not to matter are kept (Makefile). Works means: multiplies as by rows, and a batch as each of its rows
alone, to the bit, since verifying a tree must give the logits of decoding token by token. Prints KIND:COLUMNS of each
that works; what crashed prints nothing, and whoever asked tries the next layout, or goes on by rows.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable

import numpy as np

from device_agent.kernels.base import Floats
from device_agent.kernels.ggml import Device, Graph, address
from device_agent.kernels.layouts import GROUP, ROWS, Bytes, converted, layouts_for
from device_agent.kernels.quantize import quantized

Shape = tuple[str, int]  # kind and columns of a matrix
BATCHES = (1, 2, 5, 16, 33)  # each takes another path; ggml 0.15.3 gets 32 and more rows of 32 columns wrong
DEADLINE_S = 600.0  # an emulated processor takes minutes; a layout that hangs is not used
TOLERANCE = 1e-3  # of the largest product; activations are rounded in both, in other blocks


def working_layouts(shapes: Iterable[Shape]) -> dict[Shape, str]:
    """The layout to use for each of `shapes`; those for which only rows work are left out."""
    possible = {shape: layouts_for(*shape, GROUP) for shape in sorted(set(shapes))}
    found: dict[Shape, str] = {}
    for layout in dict.fromkeys(layout for layouts in possible.values() for layout in layouts):
        asked = [shape for shape, layouts in possible.items() if layout in layouts and shape not in found]
        found |= dict.fromkeys(_working(layout, asked), layout)
    return found


def _working(layout: str, shapes: list[Shape]) -> list[Shape]:
    if not shapes:
        return []
    asked = {f"{kind}:{columns}": (kind, columns) for kind, columns in shapes}
    command = [*_python(), "-m", "device_agent.kernels.layout_check", layout, *asked]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    except subprocess.TimeoutExpired:
        return []
    return [asked[line] for line in done.stdout.splitlines() if line in asked]


def _python() -> list[str]:
    """A phone's Python is started by the script that started us: the kernel there cannot find its loader."""
    script = os.environ.get("LEVER_AGENT")
    return ["sh", script, "python"] if script else [sys.executable]


def _check(layout: str, kind: str, columns: int) -> bool:
    rng = np.random.default_rng(0)
    raw = quantized(kind, rng.standard_normal((2 * GROUP, columns)).astype(np.float32))
    native = converted(layout, kind, columns, raw)
    halves = np.concatenate([converted(layout, kind, columns, half) for half in np.split(raw, 2)])
    states = rng.standard_normal((max(BATCHES), columns)).astype(np.float32)
    found = [product(kind, raw, states[:n], layout, native) for n in BATCHES]
    return (
        np.array_equal(native, halves)
        and _close(found[-1], product(kind, raw, states, ROWS, raw))
        and all(np.array_equal(some, found[-1][: len(some)]) for some in found)
    )


def product(kind: str, raw: Bytes, states: Floats, layout: str, weights: Bytes) -> Floats:
    """`states` (n, columns) times the matrix of rows `raw` that lies as `weights` in `layout`: (n, rows)."""
    device, out = Device(threads=2), np.empty((len(states), len(raw)), np.float32)
    graph = Graph(device, 8)
    x = graph.leaf("F32", states.shape[::-1], address(states))
    weight = graph.leaf(kind, (states.shape[1], len(raw)), address(weights), layout)
    result = graph.matmul(weight, x)
    graph.finish(result)
    Graph.point(result, address(out))
    graph.run()
    graph.close()
    device.close()
    return out


def _close(found: Floats, wanted: Floats) -> bool:
    return bool(np.abs(found - wanted).max() <= TOLERANCE * np.abs(wanted).max())


def main(layout: str, shapes: list[str]) -> None:
    for shape in shapes:
        kind, columns = shape.split(":")
        if _check(layout, kind, int(columns)):
            print(shape, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
