"""Two builds of the arm64 bundle: minutes of compiling, so it is run by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.farm.bundle import arm64_bundle
from tests.fakes.arm64 import build

pytestmark = [pytest.mark.by_hand, pytest.mark.timeout(3000)]


def test_two_builds_are_equal(arm64_home: Path, tmp_path: Path) -> None:
    build(tmp_path)
    first, second = arm64_bundle(arm64_home), arm64_bundle(tmp_path)
    assert first is not None
    assert second is not None
    assert first.hash == second.hash
