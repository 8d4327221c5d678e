from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_agent.kernels.layout_check import product, working_layouts
from device_agent.kernels.layouts import GROUP, ROWS, converted, layout_bytes, layouts_for
from device_agent.kernels.quantize import quantized

COLUMNS = 256
KINDS = ("Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
WORKING = working_layouts((kind, COLUMNS) for kind in KINDS)
RNG = np.random.default_rng(0)
WEIGHTS = RNG.standard_normal((2 * GROUP, COLUMNS)).astype(np.float32)
STATES = RNG.standard_normal((63, COLUMNS)).astype(np.float32)


def test_this_cpu_has_a_layout_for_4_bits() -> None:
    """All that ggml's own kernels are written for: AVX2, AVX-512, AMX, NEON with dot products."""
    assert ("Q4_0", COLUMNS) in WORKING


@given(st.sampled_from(sorted(WORKING)), st.integers(1, 63))
def test_products_are_those_by_rows(shape: tuple[str, int], n: int) -> None:
    kind, _ = shape
    raw = quantized(kind, WEIGHTS)
    native = converted(WORKING[shape], kind, COLUMNS, raw)
    right = product(kind, raw, STATES[:n], ROWS, raw)
    np.testing.assert_allclose(
        product(kind, raw, STATES[:n], WORKING[shape], native), right, atol=1e-4 * np.abs(right).max()
    )


@given(st.sampled_from(sorted(WORKING)), st.integers(1, 63))
def test_a_batch_has_the_products_of_its_rows_alone(shape: tuple[str, int], n: int) -> None:
    kind, layout = shape[0], WORKING[shape]
    raw = quantized(kind, WEIGHTS)
    native = converted(layout, kind, COLUMNS, raw)
    alone = [product(kind, raw, STATES[i : i + 1], layout, native) for i in (0, n - 1)]
    batch = product(kind, raw, STATES[:n], layout, native)
    np.testing.assert_array_equal(np.concatenate(alone), batch[[0, n - 1]])


@pytest.mark.parametrize("shape", sorted(WORKING))
def test_groups_of_rows_are_laid_out_by_themselves(shape: tuple[str, int]) -> None:
    kind, layout = shape[0], WORKING[shape]
    raw = quantized(kind, WEIGHTS)
    parts = [converted(layout, kind, COLUMNS, part) for part in np.split(raw, 2)]
    np.testing.assert_array_equal(np.concatenate(parts), converted(layout, kind, COLUMNS, raw))
    assert sum(map(len, parts)) == layout_bytes(layout, kind, COLUMNS, len(raw))


@pytest.mark.parametrize(("kind", "rows"), [("F32", GROUP), ("F16", GROUP), ("Q8_0", GROUP + 1), ("Q9_Z", GROUP)])
def test_some_matrices_have_no_layout(kind: str, rows: int) -> None:
    assert not layouts_for(kind, COLUMNS, rows)


def test_a_layout_that_dies_makes_room_for_the_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    best, *others = layouts_for("Q4_0", COLUMNS, GROUP)
    crash = tmp_path / "python"
    crash.write_text(f'#!/bin/sh\ncase "$*" in *" {best} "*) kill -ILL $$;; esac\nexec {sys.executable} "$@"\n')
    crash.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(crash))
    assert working_layouts([("Q4_0", COLUMNS)]) == dict.fromkeys(
        [("Q4_0", COLUMNS)] * len(others), next(iter(others), "")
    )


def test_a_check_that_dies_leaves_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    crash = tmp_path / "python"
    crash.write_text("#!/bin/sh\nkill -ILL $$\n")
    crash.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(crash))
    assert working_layouts([("Q4_0", COLUMNS)]) == {}
