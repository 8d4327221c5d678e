"""Decodes with tiny models placed on Vulkan0 and CPU in every combination; one JSON line each. A process of its own,
since a back end that is loaded stays: `python -m tests.fakes.vulkan_placements FOLDER`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from device_agent.engine.engine import Engine
from device_agent.engine.exactness import reference_rows, tie_tolerance
from device_agent.kernels.backends import Backend, list_backends
from device_agent.kernels.base import Floats
from device_agent.kernels.static import StaticKernels
from device_agent.model.transformer import Transformer
from device_agent.placing import DRAFTER, TARGET, Places, open_placed
from device_agent.protocol import EngineSpec, PromptSpec
from tests.fakes.memory_source import MemorySource
from tests.fakes.packs import write_pack
from tests.fakes.tiny_engine import examined
from tests.fakes.tiny_gguf import TinyModel

MODELS = {
    "target": TinyModel("qwen2", "Q8_0", n_layers=3, tied=False),
    "draft": TinyModel("qwen2", "Q8_0", n_layers=3, tied=False, noise=0.05),
}
PROMPT = tuple(int(token) for token in np.random.default_rng(3).integers(3, 250, 70))
SPEC = EngineSpec("static_tree", draft_widths=(3, 2, 1), n_ctx=128, threads=1)
TOKENS = 24


def combinations() -> list[tuple[str, str, str, int]]:
    """(draft, verify, project, ring slots; 0: resident)."""
    names = ("CPU", "Vulkan0")
    return [(*places, ring) for places in product(names, names, names) for ring in (0, 2)]


@contextmanager
def opened(folder: Path, places: dict[str, Backend], ring: int) -> Iterator[tuple[Transformer, Transformer]]:
    """Target and draft. The target's layers come through a ring of that many slots."""
    with ExitStack() as stack:
        models = []
        for name, roles, slots in (("target", TARGET, ring), ("draft", DRAFTER, 0)):
            source = MemorySource(write_pack(folder / name, MODELS[name]), slots)
            models.append(stack.enter_context(closing(open_placed(source, SPEC, Places(places, "test"), roles))))
        yield models[0], models[1]


def decoded(folder: Path, draft: str, verify: str, project: str, ring: int) -> tuple[dict[str, Any], Floats]:
    """What came out, and the target's logits along it."""
    named = {backend.name: backend for backend in list_backends()}
    places = {"verify": named[verify], "project": named[project], "draft": named[draft], "draft_project": named[draft]}
    with opened(folder, places, ring) as (target, drafter):
        outcome = Engine(target, drafter, SPEC).run_request(PromptSpec("p", PROMPT), TOKENS, ())
        output = outcome.result.output_ids
        tolerance = tie_tolerance(target, [*PROMPT, *output], 10)
        counted = examined(target, PROMPT, output, tolerance)
        rows = np.array([row.copy() for row in reference_rows(target, PROMPT, output)])
        found = {
            "placement": [draft, verify, project, ring],
            "output_ids": output,
            "rounds": len(outcome.rounds),
            "exact": counted.exact_tokens,
            "ties": counted.tie_tokens,
            "diverged": counted.diverged_tokens,
            "tolerance": tolerance,
            "uploaded": [_uploaded(model) for model in (target, drafter)],
        }
        return found, rows


def _uploaded(model: Transformer) -> int:
    kernels = [getattr(model.kernels, part, model.kernels) for part in ("layers", "head")]
    return max(kernel.uploaded_bytes if isinstance(kernel, StaticKernels) else 0 for kernel in kernels)


def main(folder: Path) -> None:
    reference: tuple[dict[str, Any], Floats] | None = None
    for places in combinations():
        found, rows = decoded(folder, *places)
        reference = reference or (found, rows)
        texts = zip(found["output_ids"], reference[0]["output_ids"], strict=True)
        parted = next((i for i, (ours, theirs) in enumerate(texts) if ours != theirs), None)
        same = len(rows) if parted is None else parted + 1  # logits of positions that saw the same text
        noise = float(np.abs(rows[:same] - reference[1][:same]).max())
        gap = None
        if parted is not None:
            best = np.sort(reference[1][parted])[-2:]
            gap = float(best[1] - best[0])
        print(json.dumps(found | {"parted": parted, "gap": gap, "noise": noise}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
