"""What a round costs in tokens: λ, the running rate of tokens per second or joule, times seconds or joules."""

from __future__ import annotations

from dataclasses import dataclass

from device_agent.engine.growth import Array

MEMORY = 0.95  # weight of the past after each round: some 20 rounds count
SHARES = {"latency": (1.0, 0.0), "energy": (0.0, 1.0), "edp": (0.5, 0.5)}  # of seconds and of joules
"""To raise ΣG² ÷ (ΣJ·ΣS), the inverse energy-delay product per token, is to raise 2·log ΣG − log ΣJ − log ΣS; a round
changes that by 2G/ΣG − J/ΣJ − S/ΣS, so it should maximise G − ½·(ΣG/ΣS)·S − ½·(ΣG/ΣJ)·J."""


@dataclass
class Rates:
    """Exponentially weighted sums over the rounds of one trial, after a first one that stands for plain decoding."""

    plain_s: float  # seconds of a round that verifies the root alone
    plain_j: float

    def __post_init__(self) -> None:
        self._tokens, self._seconds, self._joules = 1.0, self.plain_s, self.plain_j

    def observe(self, tokens: float, seconds: float, joules: float) -> None:
        """A round that emitted `tokens`."""
        self._tokens = MEMORY * self._tokens + tokens
        self._seconds = MEMORY * self._seconds + seconds
        self._joules = MEMORY * self._joules + joules

    @property
    def per_second(self) -> float:
        """Plain decoding can always be had, so a rate below its own would be too modest a λ."""
        return max(self._tokens / self._seconds, 1 / self.plain_s)

    @property
    def per_joule(self) -> float:
        return max(self._tokens / self._joules, 1 / self.plain_j) if self.plain_j else 0.0


def price(objective: str, rates: Rates, seconds: Array, joules: Array) -> Array:
    """What rounds of these seconds and joules cost, in tokens."""
    time_share, energy_share = SHARES[objective]
    return time_share * rates.per_second * seconds + energy_share * rates.per_joule * joules
