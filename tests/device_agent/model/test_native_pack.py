from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from device_agent.failure import AgentFailure
from device_agent.kernels.layouts import batch_step
from device_agent.model import native_pack as module
from device_agent.model.contents import unchanged
from device_agent.model.native_pack import native_pack
from device_agent.model.pack import open_pack
from device_agent.model.transformer import Transformer, causal_batch, open_transformer
from device_agent.model.trimmed_output import TrimmedOutput
from device_agent.model.weights import open_resident, open_streamed
from tests.fakes.packs import write_pack
from tests.fakes.tiny_gguf import TinyModel

TEXT = causal_batch([5, 200, 9, 17, 31, 8])


@pytest.fixture(params=[("Q4_K", True), ("Q4_0", True), ("Q4_K", False)], ids=str)  # what every CPU has a layout for
def pushed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    kind, tied = request.param
    return write_pack(tmp_path, TinyModel("qwen2", quantisation=kind, d_model=256, d_ff=256, tied=tied))


@contextmanager
def opened(folder: Path, projects: bool = True) -> Iterator[Transformer]:
    with closing(open_transformer(open_resident(folder, projects), n_ctx=64, threads=1)) as model:
        yield model


def test_it_computes_the_same_model(pushed: Path) -> None:
    native = native_pack(pushed)
    assert open_pack(native).layouts
    with opened(pushed) as plain, opened(native) as fast:
        right = plain.project(plain.forward(TEXT)).copy()
        found = fast.project(fast.forward(TEXT))
    assert np.abs(found - right).max() < 0.05 * np.abs(right).max()


def test_a_batch_has_the_logits_of_one_pass_streamed_or_not(pushed: Path) -> None:
    native = native_pack(pushed)
    with opened(native) as model:
        right = model.project(model.forward(TEXT)).copy()
    source = open_streamed(native, ring_slots=2, chunk_kib=4, cap_mb_s=None)
    with closing(open_transformer(source, n_ctx=64, threads=1)) as streamed:
        np.testing.assert_array_equal(streamed.project(streamed.forward(TEXT)), right)


def test_a_batch_has_the_logits_of_its_tokens_alone(pushed: Path) -> None:
    with opened(native_pack(pushed)) as model:
        batch = model.project(model.forward(TEXT)).copy()
    with opened(native_pack(pushed)) as model:
        alone = [model.project(model.forward(TEXT.only([row]))).copy() for row in range(len(TEXT.ids))]
    np.testing.assert_array_equal(np.concatenate(alone), batch)


def test_without_filling_up_batches_come_as_they_are(pushed: Path) -> None:
    native = native_pack(pushed, filling=False)
    assert all(batch_step(layout) == 1 for layout in open_pack(native).layouts.values())
    assert native == native_pack(pushed, filling=False) == (native_pack(pushed) if native != pushed else pushed)


def test_a_draft_need_not_have_the_products_of_single_tokens(pushed: Path) -> None:
    with closing(open_resident(native_pack(pushed), alike=False)) as weights:
        assert weights.layouts
        assert all(batch_step(layout) == 1 for layout in weights.layouts.values())


def test_trimmed_rows_are_laid_out_as_they_change(pushed: Path) -> None:
    with opened(native_pack(pushed)) as model:
        trimmed = TrimmedOutput(model.source, 64)
        trimmed.keep([200, 201, 7, 200])
        states = model.forward(TEXT)
        full = model.project(states)[:, trimmed.tokens]
        np.testing.assert_array_equal(model.project_onto(states, trimmed), full)


def test_a_trimmed_vocabulary_needs_no_whole_projection(pushed: Path) -> None:
    with opened(native_pack(pushed)) as whole, opened(native_pack(pushed), projects=False) as model:
        trimmed = TrimmedOutput(model.source, 64)
        right = whole.project(whole.forward(TEXT))[:, :64]
        np.testing.assert_array_equal(model.project_onto(model.forward(TEXT), trimmed), right)


def test_it_is_made_once_and_holds_what_its_manifest_says(pushed: Path) -> None:
    native = native_pack(pushed)
    stamps = {file.name: file.stat().st_mtime_ns for file in native.glob("*.bin")}
    assert native_pack(pushed) == native
    assert {file.name: file.stat().st_mtime_ns for file in native.glob("*.bin")} == stamps
    with unchanged(open_pack(native)), unchanged(open_pack(pushed)):
        pass


def test_another_cpu_makes_its_own_and_drops_the_other(pushed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = native_pack(pushed)
    monkeypatch.setattr(module, "fingerprint", lambda: "another")
    after = native_pack(pushed)
    assert after.parent.name.startswith("another-")
    assert after.name == before.name
    assert not before.exists()


def test_a_maker_that_was_killed_leaves_nothing_in_the_way(pushed: Path) -> None:
    left = pushed / "native" / "part" / "unnamed"
    left.mkdir(parents=True)
    (left / "native.layer.0.bin").write_bytes(b"half")
    assert open_pack(native_pack(pushed)).layouts
    assert not left.exists()


def test_a_pack_that_was_changed_is_not_laid_out(pushed: Path) -> None:
    with (pushed / "layer.0.0.bin").open("r+b") as file:
        file.write(b"\x00\xff\x00\xff")
    with pytest.raises(AgentFailure, match=r"layer\.0\.0\.bin was changed"):
        native_pack(pushed)
    assert not (pushed / "native").exists()


def test_a_full_flash_is_named_and_left_clean(pushed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "write_native", full)
    with pytest.raises(AgentFailure, match=r"engine\.repack=false") as failure:
        native_pack(pushed)
    assert failure.value.kind == "disk_full"
    assert not list((pushed / "native").iterdir())


def test_layers_without_a_layout_can_be_requantised(tmp_path: Path) -> None:
    pushed = write_pack(tmp_path, TinyModel(quantisation="Q5_0", d_model=256, d_ff=256, tied=False))
    exact, cheap = open_pack(native_pack(pushed)), open_pack(native_pack(pushed, "Q4_0"))
    assert not exact.layouts
    assert {spec.ggml_type for spec in cheap.manifest.tensors if spec.name in cheap.layouts} == {"Q4_0"}
    assert cheap.tensors["output.weight"].ggml_type == "Q5_0"
    with opened(pushed) as plain, opened(cheap.folder) as fast:
        right, found = (model.project(model.forward(TEXT)).copy() for model in (plain, fast))
    assert np.corrcoef(right.ravel(), found.ravel())[0, 1] > 0.95


def test_what_was_damaged_is_made_again(pushed: Path) -> None:
    native = native_pack(pushed)
    (native / "native.layer.1.bin").write_bytes(b"other")
    with unchanged(open_pack(native_pack(pushed))):
        pass


def test_removing_the_pushed_pack_removes_what_was_made_of_it(pushed: Path) -> None:
    native = native_pack(pushed)
    shutil.rmtree(pushed)
    assert not native.exists()
