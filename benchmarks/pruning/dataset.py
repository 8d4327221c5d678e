"""Recorded places of a real pair, and what several drafters would have drafted there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from device_agent.engine.edges import edge_features
from device_agent.engine.predictor import known_features
from orchestrator.models import bilinear_fit
from orchestrator.models.edge_fit import PRIOR, Array, Hits, fit_logistic, sigmoid
from orchestrator.models.predictor_fit import Recorded

Text = dict[str, np.ndarray[Any, np.dtype[Any]]]
Rows = Callable[[Sequence[int]], bilinear_fit.Floats]

RUN = 8  # draft tokens of a round, as far as depths go
LONGEST = 3  # n-gram that is looked up


@dataclass(frozen=True)
class Drafted:
    """By a drafter at every place: what, and how likely it was to be chosen, as known beforehand."""

    tokens: np.ndarray[Any, np.dtype[np.int64]]  # (places, children)
    known: Array  # (places, children, 4)
    hits: Hits  # (places, children)


def load(folder: Path) -> list[Text]:
    """One for each file, by name. All tokens that the target chose but the first of a text are places.

    `output` is what it chose; where people wrote the text, `text` is what came instead.
    """
    return [dict(np.load(file)) for file in sorted(folder.glob("*.npz"))]


def text_numbers(texts: Sequence[Text]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.repeat(np.arange(len(texts)), [len(text["output"]) - 1 for text in texts])


def by_model(texts: Sequence[Text], name: str) -> Drafted:
    """`full`, or `first20`: the draft model's first layers alone."""
    tokens, features, hits = [], [], []
    for text in texts:
        drafted, probs, chosen = text[f"{name}_tokens"][1:], text[f"{name}_probs"][1:], text["output"][1:]
        right = drafted == chosen[:, None]
        for row, depth in zip(probs, _depths(right[:, 0]), strict=True):
            features.append(edge_features(row.tolist(), depth))
        tokens.append(drafted)
        hits.append(right)
    x, found = np.array(features), np.concatenate(hits)
    edges = sigmoid(x @ fit_logistic(x.reshape(-1, x.shape[-1]), found.ravel(), PRIOR))
    return _drafted(np.concatenate(tokens), edges, np.expm1(x[..., 3]), found)


def by_lookup(texts: Sequence[Text]) -> Drafted:
    """What followed the last few tokens when they came before: at most one token a place."""
    tokens, features, hits = [], [], []
    for text in texts:
        found = _looked_up(text["prompt"].tolist(), text.get("text", text["output"]).tolist())[1:]
        right = np.array(
            [token == chosen for (token, _), chosen in zip(found, text["output"][1:].tolist(), strict=True)]
        )
        run = _depths(right)
        tokens += [max(0, token) for token, _ in found]
        features += [
            (1.0, length == 2, length == 3, np.log1p(r), length == 0) for (_, length), r in zip(found, run, strict=True)
        ]
        hits.append(right)
    x, chosen = np.array(features, np.float64), np.concatenate(hits)
    edges = sigmoid(x @ fit_logistic(x, chosen, np.zeros(x.shape[1])))
    edges[x[:, 4] > 0] = 0.0  # nothing to look up
    return _drafted(np.array(tokens)[:, None], edges[:, None], np.expm1(x[:, 3:4]), chosen[:, None])


def recorded(texts: Sequence[Text], drafted: Drafted, layer: int | None, rows: Rows) -> Recorded:
    """`layer`: whose states are wanted; None: the final ones."""
    unique, at = np.unique(drafted.tokens, return_inverse=True)
    name = "final" if layer is None else f"layer_{layer}"
    maps = bilinear_fit.Places(
        states=np.concatenate([text[name][1:] for text in texts]).astype(np.float32),
        final=np.concatenate([text["final"][1:] for text in texts]).astype(np.float32),
        rows=rows(unique.tolist()),
        drafted=at.reshape(drafted.tokens.shape),
    )
    return Recorded(maps, drafted.known, drafted.hits, text_numbers(texts), _begins(texts))


def _begins(texts: Sequence[Text]) -> Hits:
    """A text's first place, and wherever people went on otherwise than the target would."""
    found = [text["output"] != text.get("text", text["output"]) for text in texts]
    return np.concatenate([np.append(True, other[1:-1]) for other in found])


def _drafted(tokens: Array, edges: Array, depths: Array, hits: Hits) -> Drafted:
    ranks = np.broadcast_to(np.arange(1.0, edges.shape[1] + 1), edges.shape)
    known = known_features(edges.ravel(), ranks.ravel(), depths.ravel()).reshape(*edges.shape, 4)
    return Drafted(tokens.astype(np.int64), known, hits)


def _depths(right: Hits) -> list[int]:
    """Of each place in its round, were rounds chains of RUN."""
    found, depth = [], 1
    for hit in right.tolist():
        found.append(depth)
        depth = depth + 1 if hit and depth < RUN else 1
    return found


def _looked_up(prompt: list[int], answer: list[int]) -> list[tuple[int, int]]:
    """Token and length of the n-gram that it followed, for each of `answer`; (-1, 0) where nothing came before."""
    text, followed, found = list(prompt), {}, []
    for end in range(1, len(text)):
        for length in range(1, min(LONGEST, end) + 1):
            followed[tuple(text[end - length : end])] = end
    for token in answer:
        lengths = range(min(LONGEST, len(text)), 0, -1)
        length = next((n for n in lengths if tuple(text[-n:]) in followed), 0)
        found.append((text[followed[tuple(text[-length:])]], length) if length else (-1, 0))
        for n in range(1, min(LONGEST, len(text)) + 1):
            followed[tuple(text[-n:])] = len(text)
        text.append(token)
    return found
