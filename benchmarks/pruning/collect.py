"""Collects places of a real pair: `python -m benchmarks.pruning.collect PAIR FOLDER`.

The target decodes several prompts in one batch, each in KV slots of its own, greedily; its states after some layers are
kept where it chose a token. Then the draft reads the text. A file a text, so an interrupted collection goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.pruning.prompts import study_prompts
from device_agent.engine.predictor import normed
from device_agent.engine.sampling import likely_tokens
from device_agent.engine.state_recording import StateTap
from device_agent.kernels.base import Floats
from device_agent.model.native_pack import native_pack
from device_agent.model.transformer import TokenBatch, Transformer, causal_batch, open_transformer
from device_agent.model.weights import open_resident
from device_agent.protocol import PromptSpec
from orchestrator.cli.calibrate import calibration_prompts
from orchestrator.models.store import ModelStore, Pair
from orchestrator.settings import load
from orchestrator.sweeps.workload import encode_prompts

LAYERS = (7, 14, 18, 21, 24, 25, 26)
DRAFT_LAYERS = (20,)  # weaker drafters: the draft's first layers, projected by its own output
CHILDREN = 6
LANES = 8  # texts at a time
PROMPT, OUTPUT = 360, 240  # tokens at most
ROOM = PROMPT + OUTPUT + 1


@dataclass
class Text:
    """In the KV slots from `base` on."""

    prompt: PromptSpec
    base: int
    output: list[int] = field(default_factory=list)
    states: dict[str, list[Floats]] = field(default_factory=dict)

    @property
    def cached(self) -> int:
        return len(self.prompt.token_ids) + len(self.output) - 1

    def note(self, states: dict[str, Floats], token: int) -> None:
        for name, row in states.items():
            self.states.setdefault(name, []).append(row)
        self.output.append(token)

    def over(self, stops: Sequence[int]) -> bool:
        return len(self.output) >= OUTPUT or self.output[-1] in stops


def collect(store: ModelStore, pair: Pair, folder: Path, threads: int) -> Iterator[str]:
    """Names of the texts as they are written to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    target = open_transformer(open_resident(native_pack(store.packs / pair.target_pack)), LANES * ROOM, threads)
    draft = open_transformer(open_resident(store.packs / pair.draft_pack), ROOM, threads)
    waiting = [prompt for prompt in _prompts(store, pair) if not (folder / f"{prompt.id}.npz").exists()]
    texts: list[Text] = []
    while waiting or texts:
        free = set(range(LANES)) - {text.base // ROOM for text in texts}
        texts += [_begun(target, waiting.pop(0), lane * ROOM) for lane in sorted(free)[: len(waiting)]]
        for text in [text for text in texts if text.over(pair.stop_token_ids)]:
            texts.remove(text)
            _write(draft, text, folder)
            yield text.prompt.id
        if texts:
            _step(target, texts)


def _prompts(store: ModelStore, pair: Pair) -> list[PromptSpec]:
    own = encode_prompts(study_prompts(), store.tokenizer(pair.name), chat=True)
    return [one for one in (*calibration_prompts(store, pair), *own) if len(one.token_ids) <= PROMPT]


def _begun(target: Transformer, prompt: PromptSpec, base: int) -> Text:
    text, n = Text(prompt, base), len(prompt.token_ids)
    visible = np.zeros((n, base + n), np.bool_)
    visible[:, base:] = np.tri(n, dtype=np.bool_)
    ids, order = np.array(prompt.token_ids, np.int32), np.arange(n, dtype=np.int64)
    _run(target, [text], TokenBatch(ids, order.astype(np.int32), base + order, visible))
    return text


def _step(target: Transformer, texts: Sequence[Text]) -> None:
    """One token for each of `texts`."""
    visible = np.zeros((len(texts), max(text.base + text.cached for text in texts) + 1), np.bool_)
    for row, text in enumerate(texts):
        visible[row, text.base : text.base + text.cached + 1] = True
    positions = np.array([text.cached for text in texts], np.int32)
    slots = np.array([text.base + text.cached for text in texts], np.int64)
    ids = np.array([text.output[-1] for text in texts], np.int32)
    _run(target, texts, TokenBatch(ids, positions, slots, visible))


def _run(target: Transformer, texts: Sequence[Text], batch: TokenBatch) -> None:
    """The last of the batch's tokens are those of `texts`, one each."""
    tap = StateTap(LAYERS)
    final = target.forward(batch, tap)[-len(texts) :]
    chosen = target.project(final).argmax(axis=1).tolist()
    seen = {f"layer_{layer}": states[-len(texts) :] for layer, states in tap.states.items()} | {"final": final}
    for row, text in enumerate(texts):
        text.note({name: states[row] for name, states in seen.items()}, chosen[row])


def _write(draft: Transformer, text: Text, folder: Path) -> None:
    """Whole or not at all."""
    ids, first = [*text.prompt.token_ids, *text.output[:-1]], len(text.prompt.token_ids) - 1
    tap = StateTap(DRAFT_LAYERS)
    drafting = {"full": draft.forward(causal_batch(ids), tap)[first:]}
    drafting |= {f"first{layer}": states[first:] for layer, states in tap.states.items()}
    arrays = {name: normed(np.array(rows)).astype(np.float16) for name, rows in text.states.items()}
    for name, states in drafting.items():
        rows = [
            likely_tokens(row, CHILDREN, True, draft.name) for state in states for row in draft.project(state[None])
        ]
        arrays[f"{name}_tokens"] = np.array([[token for token, _ in row] for row in rows], np.int32)
        arrays[f"{name}_probs"] = np.array([[prob for _, prob in row] for row in rows], np.float32)
    arrays |= {"prompt": np.array(text.prompt.token_ids, np.int32), "output": np.array(text.output, np.int32)}
    part = folder / f"{text.prompt.id}.part"
    with part.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # numpy's stub
    part.replace(folder / f"{text.prompt.id}.npz")


if __name__ == "__main__":
    models = ModelStore(load().models)
    for name in collect(models, models.pair(sys.argv[1]), Path(sys.argv[2]), threads=1):
        print(name, flush=True)
