from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from device_agent.failure import AgentFailure
from device_agent.model.transformer import Transformer, causal_batch, open_transformer
from device_agent.model.trimmed_output import TrimmedOutput
from device_agent.model.weights import open_resident
from tests.fakes.memory_source import MemorySource
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

SIZE = 32


@pytest.fixture(params=["Q8_0", "Q4_K", "F32"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Transformer]:
    tiny = TinyModel(quantisation=request.param, d_model=256, d_ff=256, tied=request.param != "Q8_0")
    with closing(open_transformer(MemorySource(write_pack(tmp_path, tiny)), n_ctx=64, threads=1)) as opened:
        yield opened


def test_kept_rows_give_what_the_full_projection_gives(model: Transformer) -> None:
    trimmed = TrimmedOutput(model.source, SIZE)
    trimmed.keep([200, 201, 7, 200])
    states = model.forward(causal_batch([5, 200, 9]))
    full = model.project(states)[:, trimmed.tokens]
    np.testing.assert_array_equal(model.project_onto(states, trimmed), full)


def test_the_text_takes_the_place_of_the_least_frequent_tokens(model: Transformer) -> None:
    trimmed = TrimmedOutput(model.source, SIZE)
    trimmed.keep([200, 201])
    assert {200, 201} <= set(trimmed.tokens.tolist())
    assert set(range(SIZE - 2)) <= set(trimmed.tokens.tolist())
    trimmed.keep(range(100, 100 + 3 * SIZE))
    assert len(set(trimmed.tokens.tolist())) == SIZE
    assert set(range(SIZE // 2)) <= set(trimmed.tokens.tolist())
    assert 100 + 3 * SIZE - 1 in trimmed.tokens


def test_a_size_beyond_the_vocabulary_keeps_all(model: Transformer) -> None:
    n_vocab = model.source.manifest.hyper.n_vocab
    assert TrimmedOutput(model.source, 10 * n_vocab).size == n_vocab


@pytest.mark.parametrize("tied", [True, False])
def test_rows_come_from_the_pack_and_the_rest_stays_there(tmp_path: Path, tied: bool) -> None:
    pack = write_pack(tmp_path, TinyModel("qwen2", tied=tied))
    whole, lean = (open_transformer(open_resident(pack, projects), n_ctx=64, threads=1) for projects in (True, False))
    with closing(whole), closing(lean):
        trimmed = TrimmedOutput(lean.source, SIZE)
        trimmed.keep([200, 201, 7])
        states = lean.forward(causal_batch([5, 200, 9]))
        expected = whole.project(whole.forward(causal_batch([5, 200, 9])))[:, trimmed.tokens]
        np.testing.assert_array_equal(lean.project_onto(states, trimmed), expected)
        with pytest.raises(AgentFailure, match="not in DRAM"):
            lean.project(states)
