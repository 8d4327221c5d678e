import ctypes
import errno
import os
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader
from gguf.quants import dequantize

from device_agent.failure import AgentFailure
from device_agent.model.weights import PackWeights, open_resident, open_streamed
from orchestrator.models.store import ModelStore
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

MODEL = TinyModel("qwen2", n_layers=5, tied=False)


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pack(tmp_path_factory.mktemp("pack"), MODEL)


def a_pass(weights: PackWeights) -> list[bytes]:
    """The layers' bytes, as a pass sees them."""
    weights.begin_pass()
    seen = []
    for index in range(MODEL.n_layers):
        with weights.layer(index) as address:
            nbytes = next(e.nbytes for e in weights.manifest.extents if e.name == f"layer.{index}")
            seen.append(ctypes.string_at(address, nbytes))
    return seen


def on_disk(pack: Path) -> list[bytes]:
    return [(pack / f"layer.{index}.0.bin").read_bytes() for index in range(MODEL.n_layers)]


def opened(pack: Path, mode: str) -> PackWeights:
    return open_resident(pack) if mode == "resident" else open_streamed(pack, 2, 4, None)


@pytest.mark.parametrize("mode", ["resident", "flash"])
def test_every_pass_sees_every_layer(pack: Path, mode: str) -> None:
    weights = opened(pack, mode)
    for _ in range(4):
        assert a_pass(weights) == on_disk(pack)
    size = sum(map(len, on_disk(pack)))
    assert weights.resident is (mode == "resident")
    assert weights.read_bytes == (0 if mode == "resident" else 4 * size)
    weights.close()
    weights.close()


def test_no_speed_is_told_before_a_piece_was_timed(pack: Path) -> None:
    weights = open_streamed(pack, 2, 4, None)
    a_pass(weights)
    assert weights.measured_mb_s is not None
    weights.close()
    weights._streamer.busy_s = 0.0  # as between the first piece's bytes and its time
    assert weights.measured_mb_s is None


def test_some_layers_pinned_and_the_rest_streamed(pack: Path) -> None:
    from device_agent.model.pack import open_pack

    weights = PackWeights(open_pack(pack), pinned={0, 3}, ring_slots=2, chunk_kib=4, pacer=None)
    for _ in range(2):
        assert a_pass(weights) == on_disk(pack)
    streamed = [len(data) for index, data in enumerate(on_disk(pack)) if index not in (0, 3)]
    assert weights.read_bytes == 2 * sum(streamed)
    weights.close()


def test_addresses_are_page_aligned_and_extents_hold_their_bytes(pack: Path) -> None:
    weights = open_streamed(pack, 2, 4, None)
    assert weights.extent("output") % 4096 == 0
    data = (pack / "output.0.bin").read_bytes()
    assert ctypes.string_at(weights.extent("output"), len(data)) == data
    weights.begin_pass()
    with weights.layer(0) as address:
        assert address % 4096 == 0
    weights.close()


@pytest.mark.parametrize("quantisation", ["F32", "F16", "Q8_0", "Q4_1", "Q6_K"])
@pytest.mark.parametrize("tied", [True, False])
def test_embedding_rows_are_the_gguf_s(tmp_path: Path, quantisation: str, tied: bool) -> None:
    model = TinyModel(quantisation=quantisation, d_model=256, d_ff=256, tied=tied)
    weights = open_streamed(write_pack(tmp_path, model), 2, 4, None)
    table = next(t for t in GGUFReader(tmp_path / "tiny.gguf").tensors if t.name == "token_embd.weight")
    ids = np.array([5, 0, 271, 5], np.int32)
    np.testing.assert_array_equal(weights.embed(ids), dequantize(table.data, table.tensor_type)[ids])
    with pytest.raises(AgentFailure, match=r"outside 0\.\.271"):
        weights.embed(np.array([272], np.int32))
    weights.close()


def test_a_row_that_straddles_two_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = open_streamed(write_pack(tmp_path / "whole", TinyModel(tied=False)), 2, 4, None)
    monkeypatch.setattr("orchestrator.models.packer.WHOLE_CHUNK_LIMIT", 4096)
    monkeypatch.setattr("orchestrator.models.packer.CHUNK", 4096)
    cut = open_streamed(write_pack(tmp_path / "cut", TinyModel(tied=False)), 2, 4, None)
    ids = np.arange(272, dtype=np.int32)
    np.testing.assert_array_equal(cut.embed(ids), whole.embed(ids))
    assert a_pass_of(cut, 2) == a_pass_of(whole, 2)
    for weights in (cut, whole):
        weights.close()


def a_pass_of(weights: PackWeights, layers: int) -> list[bytes]:
    weights.begin_pass()
    seen = []
    for index in range(layers):
        with weights.layer(index) as address:
            seen.append(ctypes.string_at(address, 4096 * 4))
    return seen


def test_a_file_that_ends_early_while_streaming_is_named(tmp_path: Path) -> None:
    pack = write_pack(tmp_path, MODEL)
    weights = open_streamed(pack, 2, 4, None)
    assert a_pass(weights) == on_disk(pack)
    os.truncate(pack / "layer.3.0.bin", 5000)
    with pytest.raises(AgentFailure, match=r"layer\.3\.0\.bin ends at byte 5000 of \d+") as caught:
        a_pass(weights)
    assert caught.value.kind == "pack_corrupt"
    weights.close()


def failing(error: int, on: str, when: int = 0) -> Any:
    """os.preadv that fails with `error` for files whose name has `on`, after `when` good reads of them."""
    real, good = os.preadv, [when]

    def preadv(file: int, buffers: list[memoryview], offset: int) -> int:
        if on in os.readlink(f"/proc/self/fd/{file}"):
            good[0] -= 1
            if good[0] < 0:
                raise OSError(error, os.strerror(error))
        return real(file, buffers, offset)

    return preadv


def test_a_device_error_reaches_the_consumer(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = open_streamed(pack, 2, 4, None)
    monkeypatch.setattr(os, "preadv", failing(errno.EIO, "layer.2"))
    with pytest.raises(AgentFailure, match=r"layer\.2\.0\.bin: reading at byte 0: .*Input/output error") as caught:
        a_pass(weights)
    assert caught.value.kind == "io_error"
    with pytest.raises(AgentFailure):  # and again: nobody waits for a dead reader
        a_pass(weights)
    weights.close()


def test_a_reader_that_dies_of_anything_is_heard_of(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = open_streamed(pack, 2, 4, None)
    monkeypatch.setattr(os, "preadv", lambda *_: 1 // 0)
    with pytest.raises(AgentFailure, match="the flash reader died: ZeroDivisionError"):
        a_pass(weights)
    weights.close()


@pytest.mark.parametrize("when", [0, 2])
def test_buffered_where_direct_is_refused(pack: Path, monkeypatch: pytest.MonkeyPatch, when: int) -> None:
    """At the first read, as some filesystems do, or only later."""
    weights = open_streamed(pack, 2, 4, None)
    assert weights.io_mode == "direct"
    refuse, real = failing(errno.EINVAL, "layer.1", when), os.preadv

    def preadv(file: int, buffers: list[memoryview], offset: int) -> int:
        import fcntl

        direct = fcntl.fcntl(file, fcntl.F_GETFL) & os.O_DIRECT
        return int((refuse if direct else real)(file, buffers, offset))

    monkeypatch.setattr(os, "preadv", preadv)
    assert a_pass(weights) == on_disk(pack)
    assert weights.io_mode == "buffered"
    assert a_pass(weights) == on_disk(pack)
    weights.close()


def test_buffered_where_opening_direct_is_refused(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refusing(path: Any, flags: int, *rest: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", refusing)
    weights = open_streamed(pack, 2, 4, None)
    assert a_pass(weights) == on_disk(pack)
    assert weights.io_mode == "buffered"
    weights.close()


def test_a_pass_that_was_left_early_is_refused(pack: Path) -> None:
    weights = open_streamed(pack, 2, 4, None)
    weights.begin_pass()
    with pytest.raises(AgentFailure, match="had taken all its layers"):
        weights.begin_pass()
    weights.close()
    with pytest.raises(AgentFailure), weights.layer(1):
        pass


def test_layers_come_in_order(pack: Path) -> None:
    weights = open_streamed(pack, 2, 4, None)
    weights.begin_pass()
    with pytest.raises(AgentFailure, match="layer 2 was asked, layer 0 is next"), weights.layer(2):
        pass
    weights.close()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda pack: (pack / "layer.1.0.bin").unlink(), r"layer\.1\.0\.bin: is missing"),
        (lambda pack: os.truncate(pack / "globals.0.bin", 10), r"globals\.0\.bin: has 10 bytes, expected 4096"),
        (lambda pack: (pack / "model.json").write_text("{"), r"model\.json: not a manifest"),
        (lambda pack: (pack / "model.json").unlink(), r"model\.json: no such file"),
    ],
)
def test_a_damaged_pack_is_named(tmp_path: Path, damage: Any, said: str) -> None:
    pack = write_pack(tmp_path, MODEL)
    damage(pack)
    with pytest.raises(AgentFailure, match=said) as caught:
        open_resident(pack)
    assert caught.value.kind == "pack_corrupt"


def disk_bytes() -> int:
    return int(
        next(ln for ln in Path("/proc/self/io").read_text().splitlines() if ln.startswith("read_bytes")).split()[1]
    )


def test_the_cap_holds_and_the_kernel_counts_the_same_bytes(smollm2: ModelStore) -> None:
    """60 MB of layers at 200 MB/s: no faster than the cap, and not much slower, however busy the machine."""
    weights = open_streamed(smollm2.pack_dir(smollm2.pair("smollm2").target_pack), 3, 1024, 200.0)
    if weights.io_mode != "direct":
        pytest.skip("no O_DIRECT here")
    before, started = disk_bytes(), perf_counter()
    weights.begin_pass()
    for index in range(weights.manifest.hyper.n_layers):
        with weights.layer(index):
            pass
    seconds, counted = perf_counter() - started, disk_bytes() - before
    weights.close()
    assert weights.read_bytes / 1e6 / seconds <= 200 * 1.03
    assert counted == pytest.approx(weights.read_bytes, rel=0.05)
