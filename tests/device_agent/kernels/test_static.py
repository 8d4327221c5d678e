"""Static shapes on the virtual accelerator: padded batches, graphs per bucket, weights uploaded when they must be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from device_agent.kernels.backends import Backend, list_backends, open_kernels
from device_agent.kernels.base import KV_STEP, MAX_ROWS
from device_agent.kernels.static import StaticKernels, bucket, kv_bucket
from device_agent.kernels.virtual_npu import COPY_BYTES_PER_S, DISPATCH_S, VirtualNpu
from device_agent.model.transformer import Transformer, causal_batch
from device_agent.model.trimmed_output import TrimmedOutput
from tests.fakes.memory_source import MemorySource
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

LAYERS = 3
TEXT = [int(token) for token in np.random.default_rng(3).integers(0, 250, 200)]


@pytest.fixture(scope="module")
def npu() -> Backend:
    return list_backends()[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pack(tmp_path_factory.mktemp("pack"), TinyModel("qwen2", n_layers=LAYERS))


def opened(npu: Backend, source: MemorySource) -> tuple[Transformer, StaticKernels, VirtualNpu]:
    kernels = open_kernels(npu, source, n_ctx=256, threads=1)
    assert isinstance(kernels, StaticKernels)
    assert isinstance(kernels.device, VirtualNpu)
    return Transformer(source, kernels), kernels, kernels.device


@pytest.fixture(params=[0, 2], ids=["resident", "streamed"])
def parts(
    request: pytest.FixtureRequest, npu: Backend, folder: Path
) -> Iterator[tuple[Transformer, StaticKernels, VirtualNpu]]:
    found = opened(npu, MemorySource(folder, ring=request.param))
    with closing(found[0]):
        yield found


def test_where_there_is_no_accelerator_one_is_modelled(npu: Backend) -> None:
    assert [backend.name for backend in list_backends()] == ["CPU", "virtual_npu"]
    assert (npu.kind, npu.static_shapes) == ("virtual", True)
    assert "modelled" in npu.device.description


def test_buckets_hold_what_they_are_asked_for() -> None:
    assert [bucket(n) for n in (1, 2, 3, 5, 9, 33, MAX_ROWS)] == [1, 2, 4, 8, 16, 63, 63]
    assert [kv_bucket(n * KV_STEP, 5 * KV_STEP) for n in (1, 2, 3, 4, 5)] == [128, 256, 512, 512, 640]


def test_a_graph_serves_all_batches_of_its_bucket(parts: tuple[Transformer, StaticKernels, VirtualNpu]) -> None:
    model, kernels, _ = parts
    spans = 1 if model.source.resident else LAYERS
    for n in (5, 7, 8, 6, 5):
        model.project(model.forward(causal_batch(TEXT[:n])))
    assert len(kernels.graphs) == spans + 1
    model.project(model.forward(causal_batch(TEXT[:9])))
    assert len(kernels.graphs) == 2 * (spans + 1)


def test_only_what_the_device_does_not_hold_is_uploaded(npu: Backend, folder: Path) -> None:
    """A ring of two slots for three layers: in the second pass all lie elsewhere. Resident ones stay."""
    for ring, passes in ((0, 1), (2, 2)):
        source = MemorySource(folder, ring)
        model, kernels, _ = opened(npu, source)
        with closing(model):
            for _ in range(2):
                model.forward(causal_batch(TEXT[:4]))
            layers = sum(e.nbytes for e in source.manifest.extents if e.name.startswith("layer."))
            used = sum(t.nbytes for t in source.manifest.tensors if t.name.startswith("blk."))
            assert used <= layers
            assert kernels.uploaded_bytes == passes * used


def test_it_computes_on_its_core_and_leaves_ours_alone(parts: tuple[Transformer, StaticKernels, VirtualNpu]) -> None:
    model, _, device = parts
    before = os.sched_getaffinity(0)
    model.forward(causal_batch(TEXT[:3]))
    assert device.cores == {max(before)}
    assert os.sched_getaffinity(0) == before


def test_reaching_it_costs_what_the_model_says(parts: tuple[Transformer, StaticKernels, VirtualNpu]) -> None:
    model, kernels, device = parts
    states = np.ones((1, model.source.manifest.hyper.d_model), np.float32)
    model.project(states)
    before, uploaded = device.modelled_s, kernels.uploaded_bytes
    logits = model.project(states)
    moved = states.nbytes + logits.nbytes
    assert device.modelled_s - before == pytest.approx(DISPATCH_S + moved / COPY_BYTES_PER_S)
    assert kernels.uploaded_bytes == uploaded


def test_rows_that_their_owner_replaces_change_there(
    parts: tuple[Transformer, StaticKernels, VirtualNpu],
) -> None:
    model = parts[0]
    output = TrimmedOutput(model.source, 64)
    states = model.forward(causal_batch(TEXT[:3]))
    model.project_onto(states, output)
    output.keep([200, 131])
    found, whole = model.project_onto(states, output), model.project(states)
    np.testing.assert_array_equal(found, whole[:, output.tokens])
    assert {200, 131} <= set(output.tokens.tolist())
