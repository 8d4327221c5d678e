from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from device_agent.kernels import reference
from device_agent.kernels.backends import list_backends, open_kernels
from device_agent.kernels.base import MAX_ROWS, Floats, Visible
from device_agent.model.transformer import TokenBatch, Transformer, causal_batch, open_transformer
from tests.fakes.memory_source import MemorySource
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

# The kernels round activations to the weights' own precision, the reference does not. RMS error ÷ the logits' spread.
TOLERANCE = {"F32": 0.004, "F16": 0.005, "Q8_0": 0.06, "Q5_0": 0.06, "Q4_K": 0.08, "Q6_K": 0.08}


def tiny(architecture: str, quantisation: str, tied: bool) -> TinyModel:
    d_model, d_ff = (256, 512) if quantisation.endswith("K") else (64, 96)  # K-quants come in blocks of 256
    return TinyModel(architecture, quantisation, n_layers=3, d_model=d_model, d_ff=d_ff, tied=tied)


MODELS = [tiny(a, q, tied=i % 2 == 0) for i, (a, q) in enumerate(product(("llama", "qwen2"), TOLERANCE))]
# As the published ones, with heads that are wider than d_model has room for.
MODELS += [replace(tiny("qwen3", q, tied=q == "F32"), head_dim=32) for q in ("F32", "Q8_0")]


@pytest.fixture(params=MODELS, ids=lambda m: f"{m.architecture}-{m.quantisation}", scope="module")
def model(request: pytest.FixtureRequest) -> TinyModel:
    chosen: TinyModel = request.param
    return chosen


@pytest.fixture(scope="module")
def folder(model: TinyModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pack(tmp_path_factory.mktemp("pack"), model)


@pytest.fixture(params=["resident", "streamed", "resident virtual_npu", "streamed virtual_npu"])
def transformer(request: pytest.FixtureRequest, folder: Path) -> Iterator[Transformer]:
    storage, _, name = request.param.partition(" ")
    source = MemorySource(folder, ring=2 if storage == "streamed" else 0)
    backend = next(b for b in list_backends() if b.name == (name or "CPU"))
    kernels = open_kernels(backend, source, n_ctx=256, threads=1)
    with closing(Transformer(source, kernels)) as opened:
        yield opened


def tokens(n: int, visible: Visible, positions: list[int] | None = None) -> reference.Tokens:
    ids = np.random.default_rng(7).integers(0, 250, n).astype(np.int32)
    return reference.Tokens(ids, np.array(positions or range(n), np.int32), visible)


def causal(n: int) -> Visible:
    return np.tri(n, dtype=np.bool_)


def expected(folder: Path, wanted: reference.Tokens) -> Floats:
    with closing(MemorySource(folder)) as source:
        return reference.forward(source.manifest.hyper, source.tensors(), wanted)


def logits(transformer: Transformer, wanted: reference.Tokens, start: int = 0, stop: int | None = None) -> Floats:
    """Run tokens start..stop of `wanted`, each in the slot of its index."""
    part = slice(start, stop)
    slots = np.arange(len(wanted.ids), dtype=np.int64)[part]
    batch = TokenBatch(wanted.ids[part], wanted.positions[part], slots, wanted.visible[part, :stop])
    return transformer.project(transformer.forward(batch)).copy()


def assert_close(found: Floats, right: Floats, model: TinyModel) -> None:
    error = np.sqrt(np.mean((found - right) ** 2)) / right.std()
    assert error <= TOLERANCE[model.quantisation]


def test_forward_gives_the_reference_logits(transformer: Transformer, folder: Path, model: TinyModel) -> None:
    wanted = tokens(12, causal(12))
    assert_close(logits(transformer, wanted), expected(folder, wanted), model)


def test_a_cached_prefix_changes_nothing(transformer: Transformer, folder: Path, model: TinyModel) -> None:
    wanted = tokens(9, causal(9))
    parts = [logits(transformer, wanted, start, stop) for start, stop in ((0, 5), (5, 6), (6, 9))]
    assert_close(np.concatenate(parts), expected(folder, wanted), model)


def test_a_tree_mask_is_honoured(transformer: Transformer, folder: Path, model: TinyModel) -> None:
    parents = [-1, 0, 1, 1, 0, 4, 2]
    visible = np.eye(7, dtype=np.bool_)
    for node, parent in enumerate(parents[1:], start=1):
        visible[node] |= visible[parent]
    wanted = tokens(7, visible, positions=[0, 1, 2, 2, 1, 2, 3])
    assert_close(logits(transformer, wanted), expected(folder, wanted), model)


def test_a_long_prompt_asks_for_each_layer_once(transformer: Transformer, folder: Path, model: TinyModel) -> None:
    n = 2 * MAX_ROWS + 9
    wanted = tokens(n, causal(n))
    assert_close(logits(transformer, wanted), expected(folder, wanted), model)
    source = transformer.source
    assert isinstance(source, MemorySource)
    assert source.layers_asked == [0, 1, 2]


@pytest.mark.parametrize("n", [1, 2, 65])
def test_a_text_sees_itself_and_what_came_before(n: int) -> None:
    np.testing.assert_array_equal(causal_batch(range(n)).visible, causal(n))


def test_a_long_prompt_needs_no_square_of_memory(tmp_path: Path) -> None:
    """1,500 tokens: visibility and masks of all at once would be 7 MB."""
    source = MemorySource(write_pack(tmp_path, TinyModel("llama", "F32", n_layers=1)))
    with closing(open_transformer(source, n_ctx=1500, threads=1)) as opened:
        tracemalloc.start()
        try:
            opened.forward(causal_batch([7, 9, 11] * 500))
            assert tracemalloc.get_traced_memory()[1] < 3e6
        finally:
            tracemalloc.stop()


def test_graphs_are_rerun_over_other_addresses(transformer: Transformer, folder: Path, model: TinyModel) -> None:
    """Three layers in a ring of two: each pass finds every layer elsewhere."""
    wanted = tokens(6, causal(6))
    right = expected(folder, wanted)
    for index in range(6):
        assert_close(logits(transformer, wanted, index, index + 1), right[index : index + 1], model)


def test_the_size_of_a_batch_changes_no_bit(tmp_path: Path) -> None:
    """Up to the largest batch of one kernel call, with weights that ggml multiplies column by column."""
    with closing(open_transformer(MemorySource(write_pack(tmp_path, TinyModel())), n_ctx=128, threads=1)) as opened:
        wanted = tokens(MAX_ROWS, causal(MAX_ROWS))
        singly = np.concatenate([logits(opened, wanted, i, i + 1) for i in range(MAX_ROWS)])
        np.testing.assert_array_equal(logits(opened, wanted), singly)
