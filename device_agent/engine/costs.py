"""What passes and rounds cost on the device that runs: piecewise-linear curves, measured first and refined online."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from device_agent.engine.growth import Array
from device_agent.protocol import CostTable, EnergySpec

OWN = 0.3  # weight of a new observation at its own batch size
OTHERS = 0.1  # and at all others: a device that slows down does so for every size
OUTLIER = 3.0  # an observation counts as at most this many times the expectation, or as little


class CostCurve:
    """Seconds of a pass by its number of tokens, plus what each attended KV slot adds to each token.

    `static`: a pass is padded to the next of the sizes given.
    """

    def __init__(self, seconds: Mapping[int, float], per_slot_s: float = 0.0, static: bool = False) -> None:
        self._sizes: Array = np.array(sorted(seconds), np.float64)
        self._seconds: Array = np.array([seconds[size] for size in sorted(seconds)])
        self._per_slot_s = per_slot_s
        self._static = static

    @classmethod
    def of(cls, table: CostTable) -> CostCurve:
        return cls(dict(table.seconds), table.per_slot_s, table.static)

    def calibrated(self) -> CostTable:
        """The curve as it is now; `of` takes it back."""
        sizes = self._sizes.astype(int).tolist()
        return CostTable(tuple(zip(sizes, self._seconds.tolist(), strict=True)), self._per_slot_s, self._static)

    def seconds(self, tokens: Array, n_kv: int = 0) -> Array:
        """Of passes over `tokens` (k,), each attending to `n_kv` slots."""
        rising = np.maximum.accumulate(self._seconds)
        tokens = self._padded(tokens)
        inside = np.interp(tokens, self._sizes, rising)
        beyond = np.maximum(0, tokens - self._sizes[-1]) * rising[-1] / self._sizes[-1]
        found: Array = inside + beyond + tokens * n_kv * self._per_slot_s
        return found

    def of_one(self, tokens: float, n_kv: int = 0) -> float:
        """Of one such pass."""
        return float(self.seconds(np.array([float(tokens)]), n_kv)[0])

    def observe(self, tokens: int, n_kv: int, seconds: float) -> None:
        """A pass took `seconds`."""
        expected = self.of_one(tokens, n_kv)
        surprise = np.clip(seconds / expected, 1 / OUTLIER, OUTLIER) - 1
        self._seconds *= 1 + surprise * (OTHERS + (OWN - OTHERS) * self._nearness(tokens))

    def plus(self, other: CostCurve) -> CostCurve:
        """Of passes that do both."""
        seconds = self._seconds + other.seconds(self._sizes)
        table = dict(zip(self._sizes.astype(int).tolist(), seconds.tolist(), strict=True))
        return CostCurve(table, self._per_slot_s, self._static)

    def table(self) -> dict[str, float]:
        """Seconds by size, for the record."""
        return {
            f"{size:.0f}": round(float(seconds), 6) for size, seconds in zip(self._sizes, self._seconds, strict=True)
        }

    def _nearness(self, tokens: int) -> Array:
        """(sizes,): 1 at a measured size, shared between the two around one that was not."""
        unit, size = np.eye(len(self._sizes)), self._padded(np.array([float(tokens)]))[0]
        return np.array([np.interp(size, self._sizes, row) for row in unit])

    def _padded(self, tokens: Array) -> Array:
        """Tokens that passes over `tokens` compute."""
        if not self._static:
            return tokens
        next_size = np.minimum(np.searchsorted(self._sizes, tokens), len(self._sizes) - 1)
        return np.maximum(tokens, self._sizes[next_size])


@dataclass(frozen=True)
class FlashLoad:
    """What a round reads."""

    nbytes: int = 0  # streamed layers, bytes; 0: resident
    layers: int = 1  # that they are
    ahead: int = 0  # layers that the ring takes while nothing is verified; 0: reading stops between rounds

    def seconds(self, bytes_per_s: float | None) -> float:
        return self.nbytes / bytes_per_s if bytes_per_s else 0.0


@dataclass(frozen=True)
class RoundModel:
    """C of one round: reading hides behind drafting as far as the ring goes, and verification behind reading."""

    draft: CostCurve
    verify: CostCurve
    project: CostCurve
    load: FlashLoad
    bandwidth: Callable[[], float | None]  # bytes/s in force; None: not known yet
    energy: EnergySpec
    cores: int

    def read_s(self) -> float:
        """Seconds that a round's layers take to read."""
        return self.load.seconds(self.bandwidth())

    def seconds(self, between_s: Array, computed_s: Array, read_s: float) -> Array:
        """Of rounds that draft and project for `between_s` and run the layers for `computed_s`.

        The closed form of pipeline_model.round_seconds for equal layers.
        """
        if not read_s:
            return between_s + computed_s
        computing_s, reading_s = self._phases(between_s, computed_s, read_s)
        found: Array = between_s + np.maximum(computing_s, reading_s)
        return found

    def hidden(self, between_s: Array, computed_s: Array, read_s: float) -> bool:
        """Whether reading takes longer than computing in a round (1,) of these seconds, as `seconds` has them."""
        if not read_s:
            return False
        computing_s, reading_s = self._phases(between_s, computed_s, read_s)
        return bool(reading_s[0] >= computing_s[0])

    def _phases(self, between_s: Array, computed_s: Array, read_s: float) -> tuple[Array, Array]:
        """Seconds after drafting and projecting: the layers one after another; reading them and computing the last."""
        layers = self.load.layers
        layer_s = read_s / layers
        waited_s = np.where(between_s >= layer_s, 0.0, layer_s) if self.load.ahead else layer_s
        left_s = read_s - np.minimum(between_s, self.load.ahead * layer_s)
        return computed_s + waited_s, left_s + computed_s / layers

    def joules(self, busy_s: Array, seconds: Array) -> Array:
        """By the phone's stated power model, of rounds that last `seconds` and compute for `busy_s` of them."""
        power = self.energy
        found: Array = power.idle_w * seconds + power.cpu_w_per_core * self.cores * busy_s
        return found + power.flash_j_per_gb * self.load.nbytes / 1e9
