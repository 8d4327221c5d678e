"""One decoder layer of the llama family as a graph: RMS norm, grouped attention over cached keys, SwiGLU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from device_agent.kernels.ggml import Graph, Tensor
from device_agent.protocol import HyperParams


@dataclass(frozen=True)
class Inputs:
    """Leaves that all layers of a graph share."""

    positions: Tensor
    slots: Tensor
    mask: Tensor
    rope_factors: Tensor | None  # llama 3


@dataclass(frozen=True)
class Layer:
    """One layer's weights, by their name within it, and its caches."""

    weights: Mapping[str, Tensor]
    keys: Tensor
    values: Tensor


def block(g: Graph, hyper: HyperParams, layer: Layer, inputs: Inputs, x: Tensor) -> Tensor:
    """States after the layer."""
    h = g.rms_norm(x, layer.weights["attn_norm.weight"], hyper.rms_eps)
    x = g.add(_linear(g, layer, "attn_output", _attention(g, hyper, layer, inputs, h)), x)
    h = g.rms_norm(x, layer.weights["ffn_norm.weight"], hyper.rms_eps)
    h = g.swiglu(_linear(g, layer, "ffn_gate", h), _linear(g, layer, "ffn_up", h))
    return g.add(_linear(g, layer, "ffn_down", h), x)


def _attention(g: Graph, hyper: HyperParams, layer: Layer, inputs: Inputs, h: Tensor) -> Tensor:
    n, n_kv = int(inputs.positions.contents.ne[0]), int(inputs.mask.contents.ne[0])
    dim, heads, kv_heads = hyper.head_dim, hyper.n_heads, hyper.n_kv_heads
    q = g.reshape(_linear(g, layer, "attn_q", h), dim, heads, n)
    k = g.reshape(_linear(g, layer, "attn_k", h), dim, kv_heads, n)
    q, k = (_head_norm(g, hyper, layer, name, y) for name, y in (("attn_q_norm", q), ("attn_k_norm", k)))
    q, k = (g.rope(y, inputs.positions, inputs.rope_factors, hyper) for y in (q, k))
    keys = g.store(layer.keys, g.reshape(k, dim * kv_heads, n), inputs.slots)
    values = g.store(layer.values, _linear(g, layer, "attn_v", h), inputs.slots)
    k, v = (g.heads(cache, dim, n_kv, kv_heads) for cache in (keys, values))
    return g.reshape(g.attention(q, k, v, inputs.mask, dim**-0.5), dim * heads, n)


def _head_norm(g: Graph, hyper: HyperParams, layer: Layer, name: str, x: Tensor) -> Tensor:
    """Each head of x (head_dim, heads, n) normed by itself, where the model does so (qwen3)."""
    weight = layer.weights.get(f"{name}.weight")
    return x if weight is None else g.rms_norm(x, weight, hyper.rms_eps)


def _linear(g: Graph, layer: Layer, name: str, x: Tensor) -> Tensor:
    y = g.matmul(layer.weights[f"{name}.weight"], x)
    bias = layer.weights.get(f"{name}.bias")
    return y if bias is None else g.add(y, bias)
