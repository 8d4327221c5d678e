"""Tiny transformers for tests of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from device_agent.engine.exactness import count_exactness, reference_rows
from device_agent.engine.judging import judge
from device_agent.engine.sampling import Sampler
from device_agent.model.transformer import Transformer, open_transformer
from device_agent.protocol import ExactnessCount, SamplingSpec
from tests.fakes.memory_source import MemorySource
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

TARGET = TinyModel("qwen2", "Q8_0", n_layers=3, tied=False)
CLOSE_DRAFT = TinyModel("qwen2", "Q8_0", n_layers=3, tied=False, noise=0.05)  # agrees with the target sometimes


@contextmanager
def tiny_transformers(folder: Path, *models: TinyModel, n_ctx: int = 256, ring: int = 0) -> Iterator[list[Transformer]]:
    """One transformer per model; with `ring`, their layers are streamed through that many slots."""
    with ExitStack() as closing:
        opened = []
        for index, model in enumerate(models):
            source = MemorySource(write_pack(folder / str(index), model), ring)
            opened.append(open_transformer(source, n_ctx, threads=1))
            closing.callback(opened[-1].close)
        yield opened


def examined(target: Transformer, prompt: Sequence[int], output: Sequence[int], tolerance: float) -> ExactnessCount:
    """The agent's check of a greedy `output`, against one fresh pass over `prompt` + `output`."""
    sampler = Sampler(SamplingSpec(), "examined", target.name)
    rows = zip(reference_rows(target, prompt, output), output, strict=True)
    return count_exactness([judge(sampler, row, i, token, tolerance) for i, (row, token) in enumerate(rows)], tolerance)
