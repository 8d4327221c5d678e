"""How sure a mean is that was measured on several prompts in several sessions. Pure numpy; scipy for Student's t.

A figure x of session s and prompt p is taken as m + a_s + b_p + e_sp: a session (one run of the agent: its heat, its
neighbours) shifts all its prompts, a prompt shifts all its sessions. The variances come from the two-way analysis of
variance without repeats (Searle, Casella, McCulloch: Variance Components, 1992, ch. 4); the interval is a symmetric
bootstrap-t (Hall 1988) in which sessions, prompts and residuals are drawn each for themselves, rescaled to those
variances (Carpenter, Goldstein, Rasbash 2003). Fewer than five sessions are too few to draw from: Student's t with
Satterthwaite's (1946) degrees of freedom then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

LEVEL = 0.95
RESAMPLES = 999
FEW = 5  # sessions
TIED = 1e-9  # mean squares that differ by less than this share are equal
ROUNDING = 1e-12  # of a figure's size: what varies less does not vary


@dataclass(frozen=True)
class Spread:
    """Of a matrix (sessions × prompts). `within` is the standard deviation of one figure inside its session once its
    prompt is accounted for, `between` that of sessions; None, and an unbounded interval, where one cannot tell."""

    mean: float
    low: float
    high: float
    within: float | None
    between: float | None
    sessions: int
    prompts: int


@dataclass(frozen=True)
class _Parts:
    """Variances of sessions, prompts and residuals, the mean's variance and its degrees of freedom. Arrays over
    leading axes."""

    mean: Matrix
    session: Matrix
    prompt: Matrix
    residual: Matrix
    of_mean: Matrix
    freedom: Matrix


def spread(figures: Matrix, seed: int = 0, resamples: int = RESAMPLES) -> Spread:
    """Mean, 95 % interval and spreads of `figures` (sessions × prompts, complete). The same seed gives the same."""
    sessions, prompts = figures.shape
    mean = float(figures.mean())
    if sessions < 2 or prompts < 2:
        return _of_one_row(figures)
    parts = _parts(figures)
    error = float(np.sqrt(parts.of_mean))
    varies = error > ROUNDING * float(np.abs(figures).max())
    width = error * _quantile(figures, parts, seed, resamples) if varies else 0.0
    return Spread(mean, mean - width, mean + width, *deviations(figures), sessions, prompts)


def _of_one_row(figures: Matrix) -> Spread:
    """One prompt: sessions are all that varies. One session: nothing tells how another would come out."""
    sessions, prompts = figures.shape
    mean = float(figures.mean())
    if sessions < 2:
        return Spread(mean, -np.inf, np.inf, None, None, sessions, prompts)
    within, between = deviations(figures)
    width = _student(sessions - 1) * float(figures.std(ddof=1)) / np.sqrt(sessions)
    return Spread(mean, mean - width, mean + width, within, between, sessions, prompts)


def deviations(figures: Matrix) -> tuple[float | None, float | None]:
    """`within` and `between` of a Spread, for whoever needs no interval."""
    sessions, prompts = figures.shape
    if sessions < 2 or prompts < 2:
        return None, float(figures.std(ddof=1)) if sessions > 1 else None
    parts = _parts(figures)
    return float(np.sqrt(parts.residual)), float(np.sqrt(parts.session))


def _parts(x: Matrix) -> _Parts:
    n, k = x.shape[-2:]
    mean = x.mean((-1, -2))
    rows, columns = x.mean(-1) - mean[..., None], x.mean(-2) - mean[..., None]
    rest = x - mean[..., None, None] - rows[..., :, None] - columns[..., None, :]
    squares = k * (rows**2).sum(-1) / (n - 1), n * (columns**2).sum(-1) / (k - 1)
    error = (rest**2).sum((-1, -2)) / ((n - 1) * (k - 1))
    session, prompt = np.maximum(0, (squares[0] - error) / k), np.maximum(0, (squares[1] - error) / n)
    of_mean = session / n + prompt / k + error / (n * k)
    return _Parts(mean, session, prompt, error, of_mean, _freedom(squares, error, of_mean, n, k))


def _freedom(squares: tuple[Matrix, Matrix], error: Matrix, of_mean: Matrix, n: int, k: int) -> Matrix:
    """Satterthwaite's, of the mean squares that the variance of the mean is made of."""
    at_least = (1 + TIED) * error  # where they are equal, rounding must not say which it is
    has_session, has_prompt = squares[0] > at_least, squares[1] > at_least
    terms = (
        (has_session * squares[0]) ** 2 / (n - 1)
        + (has_prompt * squares[1]) ** 2 / (k - 1)
        + ((1.0 - has_session - has_prompt) * error) ** 2 / ((n - 1) * (k - 1))
    )
    found: Matrix = (of_mean * n * k) ** 2 / np.maximum(terms, 1e-300)
    return found


def _quantile(figures: Matrix, parts: _Parts, seed: int, resamples: int) -> float:
    """How many standard errors the interval reaches to either side."""
    n, k = figures.shape
    if n < FEW:
        return _student(float(parts.freedom))
    dice = np.random.default_rng(seed)
    rows = figures.mean(1) - parts.mean
    columns = figures.mean(0) - parts.mean
    rest = figures - parts.mean - rows[:, None] - columns[None, :]
    drawn = (
        _scaled(rows, parts.session)[dice.integers(0, n, (resamples, n))][:, :, None]
        + _scaled(columns, parts.prompt)[dice.integers(0, k, (resamples, k))][:, None, :]
        + _scaled(rest.ravel(), parts.residual)[dice.integers(0, n * k, (resamples, n, k))]
    )
    again = _parts(drawn)
    errors = np.sqrt(np.maximum(again.of_mean, 1e-300))
    found = float(np.quantile(np.abs(again.mean) / errors, LEVEL))
    return min(found, _student(1))  # sessions of which all but one agree: drawn without it they never vary


def _scaled(deviations: Matrix, variance: Matrix) -> Matrix:
    square = float((deviations**2).mean())
    scaled: Matrix = deviations * np.sqrt(float(variance) / square) if square > 0 else deviations
    return scaled


def _student(freedom: float) -> float:
    from scipy.stats import t  # takes half a second to import

    return float(t.ppf((1 + LEVEL) / 2, max(1.0, freedom)))
