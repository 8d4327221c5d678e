"""What rounds cost on this device and what they are worth: measured costs and running rates make a price in tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from device_agent.engine.costs import RoundModel
from device_agent.engine.growth import SIZES, Array, Price
from device_agent.engine.objective import Rates, price
from device_agent.engine.shrinkage import Shrinkage
from device_agent.engine.tree_pruner import Passed
from device_agent.protocol import RoundTrace

FIRST_ROWS = 1.5  # rows projected for each token emitted, before any round was seen
MANY = 8.0  # tokens of a round up to which projecting is taken to grow as a line
FOLLOWED = 0.1  # weight of a round in that ratio


class Economy:
    """Of one trial. `text`: tokens of prompt and output so far, which passes attend to. `shrinkage`: how trees are
    expected to shrink while they are verified, if they are pruned."""

    def __init__(self, model: RoundModel, objective: str, shrinkage: Shrinkage | None = None) -> None:
        self._model = model
        self._objective = objective
        self._shrinkage = shrinkage
        self._rows_per_token = FIRST_ROWS
        self.rates = self._plain_rates()

    def price(self, text: int) -> Price:
        """Of rounds of growth.SIZES or the first of them, at the rates so far."""
        model, rates, read_s = self._model, self.rates, self._model.read_s()
        curve, shrinkage = model.verify, self._shrinkage
        verify_s = shrinkage.seconds(curve, SIZES, text) if shrinkage else curve.seconds(SIZES, text)
        few_s, many_s = model.project.seconds(self._rows_per_token * np.array([1.0, MANY])).tolist()
        per_token_s = (many_s - few_s) / (MANY - 1)

        def of(draft_s: float, sizes: Array, gains: Array) -> Array:
            computed_s = verify_s[: len(sizes)]
            between_s = gains * per_token_s + (draft_s + few_s - per_token_s)
            seconds = model.seconds(between_s, computed_s, read_s)
            if self._objective == "latency":
                return rates.per_second * seconds
            return price(self._objective, rates, seconds, model.joules(between_s + computed_s, seconds))

        return of

    def hidden(self, text: int, draft_s: float, gain: float, tokens: int) -> bool:
        """Whether a round over `tokens` lasts as long as its reading, and nothing but its time counts."""
        if self._objective != "latency":
            return False
        between_s = draft_s + self._model.project.seconds(np.array([self._rows_per_token * gain]))
        computed_s = self._model.verify.seconds(np.array([float(tokens)]), text)
        return self._model.hidden(between_s, computed_s, self._model.read_s())

    def finishing(self, text: int, draft_s: float, gain: float, before: int, done: float) -> Callable[[Array], Array]:
        """What a round costs, in tokens, by the tokens (k,) that go on after a share `done` of the layers ran over
        `before`."""
        model, read_s = self._model, self._model.read_s()
        ran_s = done * model.verify.seconds(np.array([float(before)]), text)
        between_s = draft_s + model.project.seconds(np.array([self._rows_per_token * gain]))

        def of(tokens: Array) -> Array:
            computed_s = ran_s + (1 - done) * model.verify.seconds(tokens, text)
            seconds = model.seconds(between_s, computed_s, read_s)
            return price(self._objective, self.rates, seconds, model.joules(between_s + computed_s, seconds))

        return of

    def pass_s(self, text: int, waiting: int, widest: int) -> Callable[[int, int], float]:
        """Outlook.pass_s of up to `widest` leaves: the next pass also reads `waiting` tokens."""
        known = self._model.draft.seconds(np.arange(waiting + widest + 1.0), text)
        return lambda ahead, leaves: float(known[leaves if ahead else leaves + waiting])

    def drafted(self, tokens: int, text: int, seconds: float) -> None:
        """A draft pass over `tokens` took `seconds`."""
        self._model.draft.observe(tokens, text, seconds)

    def observe(self, trace: RoundTrace, passed: Sequence[Passed] = ()) -> None:
        """`passed`: what layers let through, if the round was pruned."""
        model, computed_s = self._model, trace.verify_compute_s
        if self._shrinkage:
            computed_s = self._shrinkage.whole_s(model.verify, computed_s, trace.nodes_verified, passed)
        model.verify.observe(trace.nodes_verified, trace.n_kv, computed_s)
        model.project.observe(trace.rows_projected, 0, trace.projection_s)
        self._rows_per_token += FOLLOWED * (trace.rows_projected / trace.acceptance_length - self._rows_per_token)
        busy_s = np.array([trace.draft_s + trace.verify_compute_s + trace.projection_s])
        joules = float(model.joules(busy_s, np.array([trace.round_s]))[0])
        self.rates.observe(trace.acceptance_length, trace.round_s, joules)

    def report(self) -> dict[str, Any]:
        """For JobResult.plan: the curves as they are now, and λ."""
        curves = {"draft": self._model.draft, "verify": self._model.verify, "project": self._model.project}
        found: dict[str, Any] = {f"{name}_s_by_tokens": curve.table() for name, curve in curves.items()}
        return found | {"read_s": round(self._model.read_s(), 4), "lambda_tokens_per_s": self.rates.per_second}

    def _plain_rates(self) -> Rates:
        """Those of verifying the root alone."""
        one, model = np.ones(1), self._model
        computed_s, between_s = model.verify.seconds(one), model.project.seconds(one)
        seconds = model.seconds(between_s, computed_s, model.read_s())
        return Rates(float(seconds[0]), float(model.joules(between_s + computed_s, seconds)[0]))
