"""Run by the bundle's Python whenever it starts: chooses ggml's kernels by what this processor has."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Collection
from pathlib import Path

AT_HWCAP, AT_HWCAP2 = 16, 26
# Linux's names for what each of ggml's variants (recipe.VARIANTS) needs: (bit of HWCAP, bit of HWCAP2), best first
FP16, DOT_PRODUCTS, I8MM = 1 << 10, 1 << 20, 1 << 13  # asimdhp, asimddp; i8mm
NEEDS = {"i8mm": (FP16 | DOT_PRODUCTS, I8MM), "dotprod": (FP16 | DOT_PRODUCTS, 0), "fp16": (FP16, 0), "armv8": (0, 0)}


def variant(hwcap: int, hwcap2: int, built: Collection[str]) -> str | None:
    """The best of those that were built that a processor with these capabilities can run. Pure."""
    able = (name for name, (one, two) in NEEDS.items() if hwcap & one == one and hwcap2 & two == two)
    return next((name for name in able if name in built), None)


def use(folder: Path) -> None:
    """Have `import ggml` find the one of `folder` to use; where there is none it fails as ever."""
    value = ctypes.CDLL(None).getauxval
    value.argtypes, value.restype = [ctypes.c_ulong], ctypes.c_ulong
    if name := variant(value(AT_HWCAP), value(AT_HWCAP2), os.listdir(folder)):
        os.environ["LEVER_GGML"] = name
        sys.path.append(str(folder / name))


if (_folder := Path(__file__).parent.parent / "ggml").is_dir():
    use(_folder)
