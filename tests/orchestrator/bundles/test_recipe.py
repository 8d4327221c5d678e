from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.bundles.on_phone.sitecustomize import DOT_PRODUCTS, FP16, I8MM, NEEDS, variant
from orchestrator.bundles.recipe import GGML, NUMPY, TYPING, VARIANTS, Package

LOCK = Path(__file__).parents[3] / "requirements.lock"


@pytest.mark.parametrize("package", [NUMPY, TYPING, GGML], ids=lambda package: package.name)
def test_a_phone_gets_what_the_host_is_locked_to(package: Package) -> None:
    _, found, rest = LOCK.read_text().partition(f"\n{package.name}=={package.version} ")
    assert found, f"{package.name} {package.version} is not in requirements.lock"
    assert package.sha256 in rest.split("# via")[0]


def test_each_variant_that_is_built_can_be_chosen() -> None:
    assert list(NEEDS) == list(VARIANTS), "best first, in both"


@pytest.mark.parametrize(
    ("hwcap", "hwcap2", "chosen"),
    [
        (0x887, 0, "armv8"),  # Cortex-A53, A73
        (0x887 | FP16, 0, "fp16"),  # Snapdragon 845
        (0x887 | FP16 | DOT_PRODUCTS, 0, "dotprod"),
        (0x887 | FP16 | DOT_PRODUCTS, I8MM, "i8mm"),  # Cortex-X2 and later
        (0x887 | DOT_PRODUCTS, I8MM, "armv8"),  # not seen, and still nothing that it cannot execute
    ],
)
def test_kernels_are_chosen_by_what_the_processor_has(hwcap: int, hwcap2: int, chosen: str) -> None:
    assert variant(hwcap, hwcap2, list(VARIANTS)) == chosen


def test_only_what_was_built_is_chosen() -> None:
    best = (FP16 | DOT_PRODUCTS, I8MM)
    assert variant(*best, ["armv8", "fp16"]) == "fp16"
    assert variant(0, 0, ["i8mm"]) is None
