"""The llama, qwen2 and qwen3 forward pass in plain numpy, float32 throughout: what the tests hold the kernels against.

Slow and simple on purpose: no cache, no batching, no tricks. Llama: Touvron et al. 2023 (arXiv 2302.13971);
rotary embedding: Su et al. 2021 (arXiv 2104.09864).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gguf
import numpy as np

from device_agent.kernels.base import Floats, Positions, Visible
from device_agent.protocol import HyperParams, TensorSpec


def unpack(spec: TensorSpec, raw: np.ndarray[Any, np.dtype[np.uint8]]) -> Floats:
    """Tensor bytes as float32, in numpy's order (rows, columns)."""
    kind = gguf.GGMLQuantizationType[spec.ggml_type]
    values = gguf.quants.dequantize(raw.reshape(spec.shape[-1] if len(spec.shape) > 1 else 1, -1), kind)
    return np.asarray(values, np.float32).reshape(spec.shape[::-1])


@dataclass(frozen=True)
class Tokens:
    """Token i sees token j where `visible[i, j]`."""

    ids: Positions  # (n,)
    positions: Positions  # (n,)
    visible: Visible  # (n, n)


def forward(hyper: HyperParams, tensors: Mapping[str, Floats], tokens: Tokens) -> Floats:
    """Logits (n, n_vocab)."""
    x = tensors["token_embd.weight"][tokens.ids]
    for index in range(hyper.n_layers):
        prefix = f"blk.{index}."
        layer = {name.removeprefix(prefix): w for name, w in tensors.items() if name.startswith(prefix)}
        if "rope_freqs.weight" in tensors:
            layer["rope_freqs"] = tensors["rope_freqs.weight"]
        x = _layer(hyper, layer, tokens, x)
    output = tensors.get("output.weight", tensors["token_embd.weight"])
    logits: Floats = _rms_norm(x, tensors["output_norm.weight"], hyper.rms_eps) @ output.T
    return logits


def _layer(hyper: HyperParams, w: Mapping[str, Floats], tokens: Tokens, x: Floats) -> Floats:
    h = _rms_norm(x, w["attn_norm.weight"], hyper.rms_eps)
    q, k, v = (_linear(w, f"attn_{name}", h).reshape(len(x), -1, hyper.head_dim) for name in "qkv")
    if "attn_q_norm.weight" in w:  # qwen3
        q, k = (_rms_norm(y, w[f"attn_{name}_norm.weight"], hyper.rms_eps) for y, name in ((q, "q"), (k, "k")))
    q, k = (_rope(hyper, w.get("rope_freqs"), y, tokens.positions) for y in (q, k))
    x = x + _linear(w, "attn_output", _attention(q, k, v, tokens.visible))
    h = _rms_norm(x, w["ffn_norm.weight"], hyper.rms_eps)
    gate = _linear(w, "ffn_gate", h)
    return x + _linear(w, "ffn_down", gate / (1 + np.exp(-gate)) * _linear(w, "ffn_up", h))


def _attention(q: Floats, k: Floats, v: Floats, visible: Visible) -> Floats:
    """Each group of query heads shares one key and value head."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.einsum("ihd,jhd->hij", q, k) / np.float32(np.sqrt(q.shape[2]))
    scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    attended: Floats = np.einsum("hij,jhd->ihd", weights, v).reshape(len(q), -1)
    return attended


def _rope(hyper: HyperParams, factors: Floats | None, x: Floats, positions: Positions) -> Floats:
    """Rotate pairs of dimensions: llama's GGUFs keep a pair adjacent, others half a head apart."""
    half = hyper.rope_dims // 2
    frequencies = hyper.rope_theta ** (-np.arange(half) / half) / (1 if factors is None else factors)
    angles = positions[:, None] * frequencies
    cos, sin = (f(angles)[:, None, :].astype(np.float32) for f in (np.cos, np.sin))
    adjacent = hyper.architecture == "llama"
    first = slice(0, 2 * half, 2) if adjacent else slice(0, half)
    second = slice(1, 2 * half, 2) if adjacent else slice(half, 2 * half)
    out = x.copy()
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out


def _rms_norm(x: Floats, weight: Floats, eps: float) -> Floats:
    normed: Floats = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(eps)) * weight
    return normed


def _linear(w: Mapping[str, Floats], name: str, x: Floats) -> Floats:
    y: Floats = x @ w[f"{name}.weight"].T
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y
