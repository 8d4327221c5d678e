"""A model of a few hundred kilobytes, made on the fly: a phone that computes its logits as this host does, works.

Its matrices are of the types that real packs have (Q4_K, Q6_K). Their blocks (ggml's block_q4_K and block_q6_K) are
random bytes but for what keeps the weights small and around zero: the logits then depend on every token before. The
vocabulary has five tokens, so that the five best logits, which every result holds, are all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

from orchestrator.models.architecture import ARCHITECTURES
from orchestrator.models.gguf_file import open_gguf
from orchestrator.models.packer import pack

VOCABULARY = 5
LAYERS, WIDTH, HEADS, KV_HEADS, CONTEXT = 2, 256, 4, 2, 64
BLOCK = 256  # weights
MATRIX_SCALE, EMBEDDING_SCALE = 2.0**-11, 2.0**-12
NORMS = ("attn", "ffn")
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def write_tiny_pack(folder: Path) -> str:
    """Write the pack under `folder`, always the same bytes; returns its hash."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tiny.gguf"
    writer = GGUFWriter(path, ARCHITECTURES[0])
    _describe(writer)
    rng = np.random.default_rng(0)
    for name, shape in _matrices().items():
        kind = GGMLQuantizationType.Q6_K if name == "token_embd.weight" else GGMLQuantizationType.Q4_K
        writer.add_tensor(name, _blocks(rng, shape, kind), raw_dtype=kind)
    for name in ("output_norm.weight", *(f"blk.{n}.{norm}_norm.weight" for n in range(LAYERS) for norm in NORMS)):
        writer.add_tensor(name, (1 + 0.1 * rng.standard_normal(WIDTH)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return pack(open_gguf(path), "0" * 64, folder)


def _describe(writer: GGUFWriter) -> None:
    writer.add_name("self-test")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)


def _matrices() -> dict[str, tuple[int, int]]:
    """Rows and columns."""
    kv = WIDTH * KV_HEADS // HEADS
    layer = {"attn_q": WIDTH, "attn_k": kv, "attn_v": kv, "attn_output": WIDTH}
    layer |= {"ffn_gate": WIDTH, "ffn_up": WIDTH, "ffn_down": WIDTH}
    shapes = {f"blk.{n}.{name}.weight": (rows, WIDTH) for n in range(LAYERS) for name, rows in layer.items()}
    return {"token_embd.weight": (VOCABULARY, WIDTH), **shapes}


def _blocks(rng: np.random.Generator, shape: tuple[int, int], kind: GGMLQuantizationType) -> Bytes:
    rows, blocks = shape[0], shape[1] // BLOCK
    if kind is GGMLQuantizationType.Q4_K:  # d, dmin, eight 6-bit scales and minima in 12 bytes, 256 4-bit weights
        data = rng.integers(0, 256, (rows, blocks, 144), np.uint8)
        data[..., 0:4] = _halves(MATRIX_SCALE, 7.5 * MATRIX_SCALE)  # weights 0 to 15: their middle becomes zero
        data[..., 8:12] = data[..., 4:8]  # minima as the scales are; the last four hold the nibbles of both
        data[..., 12:16] = (data[..., 12:16] & 15) * 17
    else:  # Q6_K: 256 6-bit weights (their middle is zero) in 192 bytes, 16 signed 8-bit scales, d
        data = rng.integers(0, 256, (rows, blocks, 210), np.uint8)
        data[..., -2:] = _halves(EMBEDDING_SCALE)
    return data.reshape(rows, -1)


def _halves(*values: float) -> Bytes:
    return np.frombuffer(np.array(values, np.float16).tobytes(), np.uint8)
