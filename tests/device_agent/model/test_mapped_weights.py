"""mmap storage: the same bytes at the same addresses, and a resident set that keeps to its share."""

import ctypes
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from device_agent.failure import AgentFailure
from device_agent.model.mapped_weights import MappedWeights, open_mapped
from device_agent.model.transformer import causal_batch, open_transformer
from device_agent.model.weights import open_streamed
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

MODEL = TinyModel("qwen2", "F32", n_layers=6, d_model=256, d_ff=512, tied=False)  # layers of 2 MB


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pack(tmp_path_factory.mktemp("pack"), MODEL)


def mapped_resident_bytes(pack: Path) -> int:
    """Resident bytes of this process in files of `pack`'s layers, as the kernel tells."""
    total, counting = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ")[0]:
            counting = str(pack / "layer") in line
        elif counting and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


@pytest.fixture(params=[2, 6], ids=["two at a time", "all"])
def weights(request: pytest.FixtureRequest, pack: Path) -> Iterator[MappedWeights]:
    with closing(open_mapped(pack, request.param)) as opened:
        yield opened


def test_it_computes_what_the_ring_computes(weights: MappedWeights, pack: Path) -> None:
    streamed = open_transformer(open_streamed(pack, 2, 64, None), n_ctx=128, threads=1)
    mapped = open_transformer(weights, n_ctx=128, threads=1)
    for ids in ([5, 6, 7], [9]):
        expected, found = (model.project(model.forward(causal_batch(ids))).copy() for model in (streamed, mapped))
        np.testing.assert_array_equal(found, expected)
    streamed.close()
    mapped.close()


def test_no_more_layers_stay_than_may(pack: Path) -> None:
    size = (pack / "layer.0.0.bin").stat().st_size
    with closing(open_mapped(pack, 2)) as weights:
        for _ in range(2):
            weights.begin_pass()
            for index in range(MODEL.n_layers):
                with weights.layer(index) as address:
                    ctypes.string_at(address, size)
                assert mapped_resident_bytes(pack) <= 2 * (size + 65536)
    assert mapped_resident_bytes(pack) == 0


def test_what_was_evicted_is_read_from_the_disk_again(pack: Path) -> None:
    size = (pack / "layer.0.0.bin").stat().st_size
    passes = []
    with closing(open_mapped(pack, 2)) as weights:
        for _ in range(2):
            before = weights.read_bytes
            for index in range(MODEL.n_layers):
                with weights.layer(index) as address:
                    ctypes.string_at(address, size)
            passes.append(weights.read_bytes - before)
    if passes[0] == 0:
        pytest.skip("this filesystem does not count reads")
    assert passes[1] == pytest.approx(6 * size, rel=0.05)


def test_an_extent_of_many_chunks_is_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.models.packer.WHOLE_CHUNK_LIMIT", 65536)
    monkeypatch.setattr("orchestrator.models.packer.CHUNK", 65536)
    pack = write_pack(tmp_path, MODEL)
    with closing(open_mapped(pack, 6)) as weights:
        extent = next(extent for extent in weights.manifest.extents if extent.name == "layer.1")
        assert len(extent.chunks) > 10
        content = b"".join((pack / chunk.file).read_bytes() for chunk in extent.chunks)
        with weights.layer(1) as address:
            assert ctypes.string_at(address, len(content)) == content


def test_a_file_that_goes_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = write_pack(tmp_path, MODEL)
    (pack / "layer.3.0.bin").unlink()
    with pytest.raises(AgentFailure, match=r"layer\.3\.0\.bin") as caught:
        open_mapped(pack, 2)
    assert caught.value.kind == "pack_corrupt"
