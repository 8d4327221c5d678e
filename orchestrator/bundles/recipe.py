"""What a bundle is made of. Debian's packages are whatever its mirror serves today, and the manifest names their
versions; all else is pinned, as in requirements.lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ABI = "arm64-v8a"
LEAST_KERNEL = "3.7"  # of Debian's glibc for arm64
SUITE = "bookworm"  # its Python is PYTHON, and its glibc older than numpy's wheel asks for
PYTHON = "3.11"
DEBIAN = (
    "libc6",
    "libgcc-s1",
    "libstdc++6",
    "gcc-12-base",  # the licences of the two before
    "python3.11-minimal",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libexpat1",
    "zlib1g",
    "libssl3",  # sha256 by the processor's own instructions
    "libffi8",
)


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    sha256: str
    kind: Literal["wheel", "sdist"] = "wheel"

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


NUMPY = Package("numpy", "2.4.6", "0ab0a9c4ffb1a6d95ef519fe4247dba8eb6b18ad93999f76b7f657039acabd47")
TYPING = Package("typing-extensions", "4.16.0", "481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8")
GGML = Package("ggml-python", "0.0.45", "10aac52075cf3c7ef2b00d6c35b1c23f7b018dbeff8ae8df67339b4be1166f05", "sdist")

# ggml's CPU kernels, by what the processor has: built so many times, and the best is chosen when Python starts
# (on_phone/sitecustomize.py). Half of today's phones have i8mm; a Snapdragon 845 has fp16 without dot products.
VARIANTS = {
    "i8mm": "armv8.2-a+fp16+dotprod+i8mm",
    "dotprod": "armv8.2-a+fp16+dotprod",
    "fp16": "armv8.2-a+fp16",
    "armv8": "armv8-a",
}
