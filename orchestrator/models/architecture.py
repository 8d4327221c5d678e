"""What a supported GGUF must contain: hyper-parameters and, tensor by tensor, names, shapes and types."""

from __future__ import annotations

from device_agent.protocol import HyperParams
from orchestrator.errors import ModelError
from orchestrator.models.gguf_file import GgufFile, GgufTensor, sound_metadata

ARCHITECTURES = ("llama", "qwen2", "qwen3")
FLOATS = {"F32", "F16", "BF16"}
QUANTS = {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "TQ1_0", "TQ2_0", "MXFP4"}
IQUANTS = {"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS"}
MATRIX_TYPES = FLOATS | QUANTS | IQUANTS
GLOBALS = ("output_norm.weight",)
# In the order that a pass uses them, which is the order that they lie in a layer's extent.
LAYER_TENSORS = (
    "attn_norm.weight",
    "attn_q.weight",
    "attn_q.bias",
    "attn_q_norm.weight",
    "attn_k.weight",
    "attn_k.bias",
    "attn_k_norm.weight",
    "attn_v.weight",
    "attn_v.bias",
    "attn_output.weight",
    "ffn_norm.weight",
    "ffn_gate.weight",
    "ffn_up.weight",
    "ffn_down.weight",
)


def checked_params(gguf: GgufFile) -> HyperParams:
    """The model's dimensions, after checking that the kernels compute it. Raises ModelError saying what they don't."""
    with sound_metadata(gguf.path):
        hyper = _hyper_params(gguf)
    _check_tensors(gguf, hyper)
    return hyper


def _hyper_params(gguf: GgufFile) -> HyperParams:
    arch = str(gguf.require("general.architecture"))
    if arch not in ARCHITECTURES:
        raise ModelError(
            f"{gguf.path}: architecture {arch!r} is not supported", f"Supported: {', '.join(ARCHITECTURES)}."
        )
    _refuse_variants(gguf, arch)
    d_model, n_heads = int(gguf.require(f"{arch}.embedding_length")), int(gguf.require(f"{arch}.attention.head_count"))
    head_dim = int(gguf.get(f"{arch}.attention.key_length", d_model // n_heads))
    return HyperParams(
        architecture=arch,
        n_layers=_layers(gguf, arch),
        d_model=d_model,
        d_ff=int(gguf.require(f"{arch}.feed_forward_length")),
        n_heads=n_heads,
        n_kv_heads=int(gguf.get(f"{arch}.attention.head_count_kv", n_heads)),
        head_dim=head_dim,
        n_vocab=_tensor(gguf, "token_embd.weight").shape[1],
        rms_eps=float(gguf.require(f"{arch}.attention.layer_norm_rms_epsilon")),
        rope_theta=float(gguf.get(f"{arch}.rope.freq_base", 10_000.0)),
        rope_dims=int(gguf.get(f"{arch}.rope.dimension_count", head_dim)),
        n_ctx_train=int(gguf.require(f"{arch}.context_length")),
    )


def _refuse_variants(gguf: GgufFile, arch: str) -> None:
    scaling = gguf.get(f"{arch}.rope.scaling.type", "none")
    if scaling != "none":
        raise ModelError(f"{gguf.path}: rope scaling {scaling!r} is not supported", "Use a model without it.")
    if gguf.get(f"{arch}.expert_count", 0):
        raise ModelError(f"{gguf.path}: mixture-of-experts models are not supported", "Use a dense model.")


def _layers(gguf: GgufFile, arch: str) -> int:
    stated = int(gguf.require(f"{arch}.block_count"))
    found = len({name.split(".")[1] for name in gguf.tensors if name.startswith("blk.")})
    if stated != found:
        raise ModelError(f"{gguf.path}: {stated} layers are announced, {found} are there", "Get the file again.")
    return stated


def _check_tensors(gguf: GgufFile, hyper: HyperParams) -> None:
    """Every tensor that the kernels need is there with the right shape and a type that they multiply, and no other."""
    wanted = expected_shapes(hyper)
    if "output.weight" in gguf.tensors:
        wanted["output.weight"] = (hyper.d_model, hyper.n_vocab)
    if unknown := sorted(set(gguf.tensors) - set(wanted)):
        raise ModelError(
            f"{gguf.path}: tensor {unknown[0]!r} is not part of a {hyper.architecture} model that is supported",
            "Leaving it out would change the model's answers; use another file.",
        )
    for name, shape in wanted.items():
        _check(gguf, _tensor(gguf, name), shape)


def expected_shapes(hyper: HyperParams) -> dict[str, tuple[int, ...]]:
    """Tensor name → shape in ggml's order, `output.weight` (absent when tied) left out."""
    d, ff, q, kv = hyper.d_model, hyper.d_ff, hyper.n_heads * hyper.head_dim, hyper.n_kv_heads * hyper.head_dim
    layer: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (d,),
        "attn_q.weight": (d, q),
        "attn_k.weight": (d, kv),
        "attn_v.weight": (d, kv),
        "attn_output.weight": (q, d),
        "ffn_norm.weight": (d,),
        "ffn_gate.weight": (d, ff),
        "ffn_up.weight": (d, ff),
        "ffn_down.weight": (ff, d),
    }
    if hyper.architecture == "qwen2":
        layer |= {"attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)}
    if hyper.architecture == "qwen3":
        layer |= {"attn_q_norm.weight": (hyper.head_dim,), "attn_k_norm.weight": (hyper.head_dim,)}
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (d, hyper.n_vocab), "output_norm.weight": (d,)}
    return shapes | {f"blk.{n}.{name}": shape for n in range(hyper.n_layers) for name, shape in layer.items()}


def _tensor(gguf: GgufFile, name: str) -> GgufTensor:
    if name not in gguf.tensors:
        raise ModelError(f"{gguf.path}: tensor {name!r} is missing", "Get the file again, or use another one.")
    return gguf.tensors[name]


def _check(gguf: GgufFile, tensor: GgufTensor, shape: tuple[int, ...]) -> None:
    if tensor.shape != shape:
        raise ModelError(
            f"{gguf.path}: tensor {tensor.name!r} has shape {tensor.shape}, expected {shape}",
            "The metadata and the tensors disagree; get the file again.",
        )
    if len(shape) == 1 and tensor.ggml_type != "F32":
        raise ModelError(
            f"{gguf.path}: tensor {tensor.name!r} has type {tensor.ggml_type}; norms and biases must be F32",
            "Convert the model again with F32 norms (the usual converters do so).",
        )
    if tensor.ggml_type not in MATRIX_TYPES:
        raise ModelError(
            f"{gguf.path}: tensor {tensor.name!r} has type {tensor.ggml_type}, which no kernel multiplies",
            "Use a file with another quantisation, for example Q4_K_M or Q8_0.",
        )
