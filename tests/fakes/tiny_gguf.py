"""Tiny random GGUF files for tests: both architectures, any quantisation that ggml can write, a working tokenizer."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ggml
import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, TokenType
from gguf.constants import GGML_QUANT_SIZES

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")  # ids 0, 1, 2
MERGES = ("h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld", "t he", "Ġ the", "i n", "o n")
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class TinyModel:
    """What to write. K-quants need `d_model` and `d_ff` to be multiples of 256, the others of 32."""

    architecture: str = "llama"  # llama | qwen2 (q, k, v biases) | qwen3 (q, k norms); others are not supported
    quantisation: str = "Q8_0"  # of the matrices; norms and biases are F32
    n_layers: int = 2
    d_model: int = 64
    d_ff: int = 96
    n_heads: int = 4
    n_kv_heads: int = 2
    head_dim: int | None = None  # if not d_model ÷ n_heads
    n_ctx_train: int = 512
    tied: bool = True  # no output.weight
    padding: int = 0  # unused tokens at the vocabulary's end
    extra_token: str | None = None  # one more real token, to make vocabularies differ
    seed: int = 0
    noise: float = 0.0  # share of other random weights mixed in: a draft that agrees with its target only sometimes


def write_tiny_gguf(path: Path, model: TinyModel = TinyModel()) -> Path:
    """Write `model` to `path` and return it. The same TinyModel gives the same bytes."""
    tokens, types = _vocabulary(model)
    writer = GGUFWriter(path, model.architecture)
    _write_metadata(writer, model, tokens, types)
    for name, shape in _shapes(model, len(tokens)).items():
        _add(writer, name, _weights(name, shape, model), model.quantisation)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def vocabulary_size(model: TinyModel = TinyModel()) -> int:
    """Rows of the embedding, padding included."""
    return len(_vocabulary(model)[0])


def _vocabulary(model: TinyModel) -> tuple[list[str], list[int]]:
    real = [*sorted(_byte_alphabet()), *("".join(pair.split()) for pair in MERGES)]
    if model.extra_token:
        real.append(model.extra_token)
    tokens = [*SPECIALS, *real, *(f"[PAD{i}]" for i in range(model.padding))]
    types = [TokenType.CONTROL] * len(SPECIALS) + [TokenType.NORMAL] * len(real) + [TokenType.UNUSED] * model.padding
    return tokens, [int(kind) for kind in types]


def _byte_alphabet() -> list[str]:
    """The 256 printable characters that byte-level BPE writes bytes as (GPT-2)."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = [byte for byte in range(256) if byte not in kept]
    return [chr(byte) for byte in kept] + [chr(256 + index) for index in range(len(moved))]


def _write_metadata(writer: GGUFWriter, model: TinyModel, tokens: list[str], types: list[int]) -> None:
    writer.add_name(f"tiny {model.architecture} {model.quantisation} {model.seed}")
    writer.add_block_count(model.n_layers)
    writer.add_context_length(model.n_ctx_train)
    writer.add_embedding_length(model.d_model)
    writer.add_feed_forward_length(model.d_ff)
    writer.add_head_count(model.n_heads)
    writer.add_head_count_kv(model.n_kv_heads)
    if model.head_dim is not None:
        writer.add_key_length(model.head_dim)
        writer.add_value_length(model.head_dim)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2" if model.architecture.startswith("qwen") else "smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(list(MERGES))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)


def _shapes(model: TinyModel, n_vocab: int) -> dict[str, tuple[int, ...]]:
    """Tensor name → numpy shape (rows, columns); ggml's order is the reverse."""
    d, ff, head = model.d_model, model.d_ff, model.head_dim or model.d_model // model.n_heads
    q, kv = head * model.n_heads, head * model.n_kv_heads
    layer: dict[str, tuple[int, ...]] = {"attn_norm.weight": (d,), "ffn_norm.weight": (d,)}
    layer |= {"attn_q.weight": (q, d), "attn_k.weight": (kv, d), "attn_v.weight": (kv, d), "attn_output.weight": (d, q)}
    layer |= {"ffn_gate.weight": (ff, d), "ffn_up.weight": (ff, d), "ffn_down.weight": (d, ff)}
    if model.architecture == "qwen2":
        layer |= {"attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)}
    if model.architecture == "qwen3":
        layer |= {"attn_q_norm.weight": (head,), "attn_k_norm.weight": (head,)}
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (n_vocab, d), "output_norm.weight": (d,)}
    if not model.tied:
        shapes["output.weight"] = (n_vocab, d)
    return shapes | {f"blk.{index}.{name}": shape for index in range(model.n_layers) for name, shape in layer.items()}


def _weights(name: str, shape: tuple[int, ...], model: TinyModel) -> np.ndarray[Any, np.dtype[np.float32]]:
    values = _random(name, shape, model.seed)
    if model.noise:
        values += model.noise * (_random(name, shape, model.seed + 1_000_003) - (1.0 if "norm" in name else 0.0))
    return values.astype(np.float32)


def _random(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    rng = np.random.default_rng([seed, *name.encode()])
    if "norm" in name:
        return 1.0 + 0.1 * rng.standard_normal(shape)
    if len(shape) == 1:
        return 0.1 * rng.standard_normal(shape)
    return rng.standard_normal(shape) * (1.0 if "embd" in name else 1.5 / np.sqrt(shape[1]))


def _add(writer: GGUFWriter, name: str, values: np.ndarray[Any, np.dtype[np.float32]], quantisation: str) -> None:
    kind = GGMLQuantizationType[quantisation] if values.ndim == 2 else GGMLQuantizationType.F32
    writer.add_tensor(name, _quantise(values, kind), raw_dtype=kind)


def _quantise(values: np.ndarray[Any, np.dtype[np.float32]], kind: GGMLQuantizationType) -> np.ndarray[Any, Any]:
    plain: dict[GGMLQuantizationType, type[np.floating[Any]]]
    plain = {GGMLQuantizationType.F32: np.float32, GGMLQuantizationType.F16: np.float16}
    plain[GGMLQuantizationType.F64] = np.float64  # a type that no kernel multiplies
    if kind in plain:
        return values.astype(plain[kind])
    block, block_bytes = GGML_QUANT_SIZES[kind]
    rows, columns = values.shape
    out = np.empty((rows, columns // block * block_bytes), np.uint8)
    source = np.ascontiguousarray(values).ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    ggml.ggml_quantize_chunk(int(kind), source, out.ctypes.data, 0, rows, columns, None)
    return out
