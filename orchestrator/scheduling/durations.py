"""How long an attempt will take, learned from those that ended. Pure: the same observations give the same estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FORGET = 0.1  # weight of a new observation once there are ten: phones warm up, code gets faster


@dataclass(frozen=True)
class Kind:
    """What a trial's duration depends on, from its labels; `tokens` is how many it may put out at most."""

    config: str = ""
    pair: str = ""
    strategy: str = ""
    storage: str = ""
    tokens: float = 1.0

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Kind:
        tokens = max(1.0, float(labels.get("output_tokens") or 1.0))
        pair, strategy, storage = (labels.get(name, "") for name in ("pair", "strategy", "storage"))
        return cls(labels.get("config_key", ""), pair, strategy, storage, tokens)


REMEMBERED = 2000  # trials that ended, to estimate durations from


class Durations:
    """Means of attempts' wall seconds: of the very configuration on the phone, then on any phone, then seconds per
    token of what is alike: less and less alike until something is known."""

    def __init__(self) -> None:
        self._means: dict[tuple[str, ...], tuple[float, int]] = {}

    def observe(self, kind: Kind, phone: str, wall_s: float) -> None:
        for key, per_token in _levels(kind, phone):
            value = wall_s / kind.tokens if per_token else wall_s
            mean, count = self._means.get(key, (0.0, 0))
            self._means[key] = (mean + (value - mean) * max(FORGET, 1 / (count + 1)), count + 1)

    def estimate_s(self, kind: Kind, phone: str = "") -> float | None:
        """None when nothing ever ended that could tell."""
        for key, per_token in _levels(kind, phone):
            if found := self._means.get(key):
                return found[0] * (kind.tokens if per_token else 1.0)
        return None


def _levels(kind: Kind, phone: str) -> tuple[tuple[tuple[str, ...], bool], ...]:
    """(key, whether seconds per token), from the most alike to anything at all."""
    return (
        (("config", kind.config, phone), False),
        (("config", kind.config), False),
        (("like", kind.pair, kind.strategy, kind.storage, phone), True),
        (("like", kind.pair, kind.strategy, kind.storage), True),
        (("pair", kind.pair), True),
        (("any",), True),
    )
