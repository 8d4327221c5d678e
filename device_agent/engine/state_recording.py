"""The target's states between layers along emitted texts, where it chose a token: what predictors are learnt from.

A prompt costs one more pass over its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from device_agent.engine.outcome import RequestOutcome
from device_agent.engine.predictor import normed
from device_agent.failure import AgentFailure
from device_agent.kernels.base import Floats
from device_agent.model.output_rows import OutputTable
from device_agent.model.transformer import Transformer, causal_batch
from device_agent.protocol import EdgeTrace, PromptSpec


class StateTap:
    """A model.transformer.Gate that lets everything through and keeps what it saw."""

    def __init__(self, layers: Sequence[int]) -> None:
        self.layers = frozenset(layers)
        self.states: dict[int, Floats] = {}

    def keep(self, layer: int, states: Floats) -> range:
        self.states[layer] = states.copy()
        return range(len(states))


class StateRecording:
    """Places in the order of the edge traces given with them; nothing at all without `layers`."""

    def __init__(self, target: Transformer, layers: Sequence[int]) -> None:
        """Raises AgentFailure bad_spec for layers that the target does not have."""
        n_layers = target.source.manifest.hyper.n_layers
        if strange := [layer for layer in layers if not 0 < layer < n_layers]:
            raise AgentFailure(
                "bad_spec", f"states after layer {strange[0]}, but there are layers 1 to {n_layers - 1} before the last"
            )
        self._target, self._layers = target, tuple(layers)
        self._found: dict[str, list[np.ndarray]] = {}

    def add(self, prompt: PromptSpec, outcome: RequestOutcome, traces: Sequence[EdgeTrace]) -> None:
        """`traces` of the request's output tokens from the second on. Overwrites the target's KV cache."""
        if not self._layers or not traces:
            return
        tap, text = StateTap(self._layers), [*prompt.token_ids, *outcome.result.output_ids[:-1]]
        final = self._target.forward(causal_batch(text), tap)
        places = slice(len(prompt.token_ids), len(prompt.token_ids) + len(traces))
        seen = {f"layer_{layer}": states for layer, states in tap.states.items()} | {"final": final}
        for name, states in seen.items():
            self._found.setdefault(name, []).append(normed(states[places]).astype(np.float16))
        self._found.setdefault("tokens", []).append(np.array([trace.tokens for trace in traces], np.int32))

    def write(self, file: Path) -> None:
        """layer_N, final (places, d_model), scaled to a mean square of 1; tokens (places, children) that were drafted;
        row_tokens (m,), each of them once, and rows (m, d_model) of the output projection."""
        if not self._found:
            return
        arrays = {name: np.concatenate(parts) for name, parts in self._found.items()}
        tokens = np.unique(arrays["tokens"])
        rows = OutputTable(self._target.source).rows(tokens.tolist()).astype(np.float16)
        np.savez(file, **arrays, row_tokens=tokens, rows=rows)  # type: ignore[arg-type]  # numpy's stub of savez
