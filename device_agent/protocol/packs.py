"""A pack: `packs/<pack_hash>/` holds `model.json` (PackManifest) and its chunk files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ChunkSpec:
    """One file of a pack; its length is a multiple of 4096 so that O_DIRECT can read all of it."""

    file: str
    nbytes: int
    sha256: str


@dataclass(frozen=True)
class ExtentSpec:
    """Bytes that are read together, in order: `layer.N`, `embedding`, `output`, `globals` (norms, rope factors)."""

    name: str
    nbytes: int  # sum of its chunks
    chunks: tuple[ChunkSpec, ...]  # one for a layer up to 64 MiB; larger extents are cut at 32 MiB


@dataclass(frozen=True)
class TensorSpec:
    name: str  # as in the GGUF
    ggml_type: str  # F32, F16, Q4_K, …
    shape: tuple[int, ...]  # ggml order: shape[0] is contiguous
    extent: str
    offset: int  # bytes from the extent's start, a multiple of 64
    nbytes: int


@dataclass(frozen=True)
class HyperParams:
    architecture: str  # llama | qwen2 | qwen3
    n_layers: int
    d_model: int
    d_ff: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    n_vocab: int  # rows of the output projection
    rms_eps: float
    rope_theta: float
    rope_dims: int
    n_ctx_train: int


@dataclass(frozen=True)
class PackManifest:
    """model.json of a pack. The pack's hash is the sha256 of this file's bytes."""

    version: int
    model_name: str
    source_sha256: str  # of the GGUF
    hyper: HyperParams
    extents: tuple[ExtentSpec, ...]  # layers in the order that they are read
    tensors: tuple[TensorSpec, ...]  # tied embeddings: output.weight is absent, token_embd.weight is both

    @property
    def output(self) -> TensorSpec:
        """The output projection's tensor; with tied embeddings the embedding."""
        named = {spec.name: spec for spec in self.tensors}
        return named.get("output.weight") or named["token_embd.weight"]
