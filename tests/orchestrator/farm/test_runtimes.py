from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import PhoneUnsuitable
from orchestrator.farm.runtimes import runtime_for
from tests.fakes.stub_bundle import stub_base

ARM64 = {"runtime": "none", "abi": "arm64-v8a", "abis": ["arm64-v8a", "armeabi-v7a", "armeabi"]}


def test_what_was_built_is_what_an_arm64_phone_gets(tmp_path: Path) -> None:
    with pytest.raises(PhoneUnsuitable, match="no runtime bundle for this phone's arm64-v8a or armeabi-v7a") as refused:
        runtime_for(ARM64, tmp_path)
    assert refused.value.remedy.endswith("lever bundle build arm64")
    stub_base(tmp_path)
    assert runtime_for(ARM64, tmp_path).files[0].name == "base.tar.gz"
    assert runtime_for({**ARM64, "runtime": "bundle"}, tmp_path) == runtime_for(ARM64, tmp_path), "when it has one"


@pytest.mark.parametrize(("abis", "runs"), [("armeabi-v7a armeabi", "32-bit"), ("x86_64 x86", "other")])
def test_no_bundle_can_be_built_for_other_processors(abis: str, runs: str, tmp_path: Path) -> None:
    stub_base(tmp_path)
    with pytest.raises(PhoneUnsuitable, match=abis.replace(" ", " or ")) as refused:
        runtime_for({"runtime": "none", "abi": abis.split(maxsplit=1)[0], "abis": abis.split()}, tmp_path)
    assert f"runs {runs} programs only" in refused.value.remedy
    assert "use another phone" in refused.value.remedy
