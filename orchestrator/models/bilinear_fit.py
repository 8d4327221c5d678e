"""A low-rank bilinear form between a target's intermediate states and the output rows of drafted tokens.

It begins as the best low-rank part of a ridge map from intermediate to final states (a "logit lens" with a learnt
translation: Belrose et al. 2023, arXiv 2303.08112), which all places teach, whatever was drafted there. Supervision on
the edges themselves then bends it, by Adam (Kingma & Ba 2015, arXiv 1412.6980) on the logistic loss, with a penalty
towards where it began.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]
Indices = np.ndarray[Any, np.dtype[np.int64]]
Hits = np.ndarray[Any, np.dtype[np.bool_]]

RIDGE = 0.03  # of the mean variance of a state's numbers
FLOOR = 1e-3  # of the rows' mean variance, where they do not vary
EPOCHS = 6
BATCH = 256  # places
STEP = 1e-3  # of Adam, relative to the maps' size
PULL = 1e-2  # of the penalty, towards where the maps began


@dataclass(frozen=True)
class Places:
    """Where the target chose a token: its states there, and the tokens that were drafted."""

    states: Floats  # (places, d_model), after the layer in question, each of mean square 1
    final: Floats  # the same after the last layer
    rows: Floats  # (tokens, d_model), of the output projection
    drafted: Indices  # (places, children): which of `rows` each drafted token has

    def only(self, chosen: Hits | Indices) -> Places:
        return Places(self.states[chosen], self.final[chosen], self.rows, self.drafted[chosen])


@dataclass(frozen=True)
class Bilinear:
    of_state: Floats  # (d_model, rank)
    of_row: Floats  # (d_model, rank)
    level: Floats  # (d_model,): what a state says of all its children alike

    def scores(self, places: Places) -> tuple[Floats, Floats]:
        """Score (places, children) and level (places,)."""
        rows = (places.rows @ self.of_row)[places.drafted]
        score: Floats = np.einsum("pr,pcr->pc", places.states @ self.of_state, rows)
        level: Floats = places.states @ self.level
        return score, level

    def packed(self) -> Floats:
        """(2·rank + 1, d_model), as protocol.LayerPredictor.maps has it."""
        return np.vstack((self.of_state.T, self.of_row.T, self.level[None]))


def fit_bilinear(places: Places, known: Floats, hits: Hits, rank: int) -> Bilinear:
    """`known` (places, children): log odds before the target has seen anything; `hits`: which child it chose."""
    start = lens(places, rank)
    return _bent(start, places, known, hits)


def lens(places: Places, rank: int) -> Bilinear:
    """The low-rank form whose scores are closest to those of the ridge map's final states."""
    x, rows = places.states, places.rows[np.unique(places.drafted)]
    gram = x.T @ x
    ridge = np.float32(RIDGE * np.trace(gram) / len(gram)) * np.eye(len(gram), dtype=np.float32)
    mapped = np.linalg.solve(gram + ridge, x.T @ places.final)
    centred = rows - rows.mean(axis=0)
    spread = centred.T @ centred / len(rows)
    ridge = np.float32(FLOOR * np.trace(spread) / len(spread)) * np.eye(len(spread), dtype=np.float32)
    root = np.linalg.cholesky(spread + ridge)
    basis = _leading((x @ mapped) @ root, rank)  # of the scores of rows that vary as these do
    return _balanced(mapped @ root @ basis, np.linalg.solve(root.T, basis), x, rows)


def _leading(seen: Floats, rank: int) -> Floats:
    """(d, rank): an orthonormal basis of the leading right singular space, by subspace iteration."""
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((seen.shape[1], min(rank, seen.shape[1]))).astype(np.float32)
    for _ in range(6):
        basis = np.linalg.qr(seen.T @ (seen @ basis))[0].astype(np.float32)
    return basis


def _balanced(of_state: Floats, of_row: Floats, x: Floats, rows: Floats) -> Bilinear:
    """Scaled so that scores are of the order of log odds, and both maps' outputs alike in size."""
    left, right = float((x @ of_state).std()), float((rows @ of_row).std())
    size = (1.0 / np.sqrt(of_state.shape[1])) ** 0.5
    level = np.zeros(x.shape[1], np.float32)
    return Bilinear(of_state * np.float32(size / left), of_row * np.float32(size / right), level)


def _bent(start: Bilinear, places: Places, known: Floats, hits: Hits) -> Bilinear:
    parts = [_Adam(part) for part in (start.of_state, start.of_row, start.level)]
    for batch in _batches(len(hits)):
        form = Bilinear(*(part.value for part in parts))
        gradients = _gradients(form, places.only(batch), known[batch], hits[batch])
        for part, gradient in zip(parts, gradients, strict=True):
            part.step(gradient)
    return Bilinear(*(part.value for part in parts))


class _Adam:
    """One array on its way from where it began."""

    def __init__(self, begun: Floats) -> None:
        self.value = begun.copy()
        self._begun = begun
        self._size = np.float32(float(np.sqrt(np.mean(begun * begun))) or 1.0 / len(begun))
        self._mean, self._square = np.zeros_like(begun), np.zeros_like(begun)
        self._steps = 0

    def step(self, gradient: Floats) -> None:
        pulled = gradient + np.float32(PULL / self._size**2 / self.value.size) * (self.value - self._begun)
        self._steps += 1
        self._mean += np.float32(0.1) * (pulled - self._mean)
        self._square += np.float32(0.01) * (pulled * pulled - self._square)
        mean, square = self._mean / (1 - 0.9**self._steps), self._square / (1 - 0.99**self._steps)
        self.value -= (STEP * self._size * mean / (np.sqrt(square) + 1e-12)).astype(np.float32)


def _gradients(form: Bilinear, places: Places, known: Floats, hits: Hits) -> list[Floats]:
    """Of the mean logistic loss, of an edge."""
    score, level = form.scores(places)
    wrong = ((1 / (1 + np.exp(-np.clip(known + score + level[:, None], -30, 30)))) - hits).astype(
        np.float32
    ) / hits.size
    rows = places.rows[places.drafted]
    pulled = np.einsum("pc,pcd->pd", wrong, rows)  # towards the rows of what was chosen
    left = places.states @ form.of_state
    return [
        places.states.T @ (pulled @ form.of_row),
        pulled.T @ left,
        places.states.T @ wrong.sum(axis=1),
    ]


def _batches(places: int) -> Iterator[Indices]:
    rng = np.random.default_rng(0)
    for _ in range(EPOCHS):
        order = rng.permutation(places)
        for start in range(0, places, BATCH):
            yield order[start : start + BATCH]
