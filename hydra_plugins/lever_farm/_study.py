"""An optuna study over Hydra's swept overrides: `choice`, `range` and `interval` become its distributions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep, Transformer

from orchestrator.entities import Trial, TrialState
from orchestrator.errors import ConfigError
from orchestrator.sweeps.jobs import SweepJob
from orchestrator.sweeps.optimise import Asked, objective

DIRECTIONS = ("minimize", "maximize")
SAMPLERS = ("tpe", "nsgaii", "random")
STARTUP = 8  # configurations at random before the sampler starts to learn

Compose = Callable[[int, Sequence[str], Sequence[str]], SweepJob]
"""(number, all overrides, those that the study chose) → the job."""


class OptunaStudy:
    """Study (sweeps/optimise.py). One objective or several: then the best are those that none beats in all."""

    def __init__(
        self,
        overrides: Sequence[Override],
        objectives: Sequence[str],
        n_trials: int,
        sampler: str,
        seed: int,
        compose: Compose,
    ) -> None:
        import optuna

        self.objectives = _directions(objectives)
        _check(n_trials, sampler)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._n_trials, self._compose = n_trials, compose
        self.fixed = [str(o.input_line) for o in overrides if not o.is_sweep_override()]
        self._space = {o.key_or_group: distribution(o) for o in overrides if o.is_sweep_override()}
        if not self._space:
            raise ConfigError("nothing is left to optimise", "Sweep something: engine.drafting.k='range(1,9)'")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # optuna's own experimental features
            self._study = optuna.create_study(directions=_for_optuna(self.objectives), sampler=_sampler(sampler, seed))
        self._asked: dict[int, Any] = {}
        self.failures: list[str] = []

    @property
    def swept(self) -> frozenset[str]:
        return frozenset(self._space)

    def restore(self, trials: Sequence[Trial]) -> int:
        """Learn from what an earlier start of the same sweep measured; returns how many configurations that were."""
        import optuna

        groups: dict[str, list[Trial]] = {}
        for trial in trials:
            if trial.state is TrialState.DONE:
                groups.setdefault(trial.spec.labels.get("overrides", ""), []).append(trial)
        for label, group in groups.items():
            params = self._params(label)
            found = [objective(group, metric)[0] for metric in self.objectives]
            values = [value for value in found if value is not None]
            if params is not None and len(values) == len(found):
                made = optuna.trial.create_trial(params=params, distributions=self._space, values=values)
                self._study.add_trial(made)
        return len(self._study.trials)

    def ask(self) -> Asked | None:
        while len(self._study.trials) < self._n_trials:
            trial = self._study.ask(self._space)
            chosen = [f"{key}={_text(value)}" for key, value in trial.params.items()]
            self._asked[trial.number] = trial
            try:
                return Asked(trial.number, self._compose(trial.number, [*self.fixed, *chosen], chosen))
            except ConfigError as error:
                self.refuse(trial.number, error.message)
        return None

    def refuse(self, number: int, why: str) -> None:
        import optuna

        self._study.tell(self._asked.pop(number), state=optuna.trial.TrialState.FAIL)
        self.failures.append(why)

    def tell(self, number: int, trials: Sequence[Trial]) -> None:
        found = [objective(trials, metric) for metric in self.objectives]
        values = [value for value, _ in found if value is not None]
        if len(values) == len(found):
            self._study.tell(self._asked.pop(number), values)
        else:
            self.refuse(number, next(why for value, why in found if value is None))

    def best(self) -> list[dict[str, Any]]:
        """[{"params": {…}, "values": {…}}], the best or the Pareto front; what was tried twice is there once."""
        found = {str(t.params): t for t in self._study.best_trials}
        return [
            {"params": dict(t.params), "values": dict(zip(self.objectives, t.values, strict=True))}
            for t in found.values()
        ]

    def _params(self, label: str) -> dict[str, Any] | None:
        """What the study had chosen, read back from a trial's label."""
        given = dict(part.partition("=")[::2] for part in label.split(" "))
        found = {}
        for key, space in self._space.items():
            choices = getattr(space, "choices", None)
            try:
                found[key] = {_text(c): c for c in choices}[given[key]] if choices else _number(given[key], space)
            except (KeyError, ValueError):
                return None
        return found


def distribution(override: Override) -> Any:
    """optuna's for a swept override. Raises ConfigError for a sweep that it cannot search."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    value = override.value()
    if isinstance(value, ChoiceSweep):
        return CategoricalDistribution([_plain(v) for v in override.sweep_iterator(Transformer.identity)])
    if isinstance(value, RangeSweep) and all(isinstance(v, int) for v in (value.start, value.stop, value.step)):
        start, stop, step = int(value.start or 0), int(value.stop or 0), int(value.step)
        last = start + (stop - 1 - start) // step * step
        return IntDistribution(start, last, step=step, log="log" in value.tags)
    if isinstance(value, IntervalSweep):
        return FloatDistribution(float(value.start or 0), float(value.end or 0), log="log" in value.tags)
    raise ConfigError(
        f"{override.input_line} cannot be searched", "Use choice(a,b), range(1,9) of whole numbers or interval(0.1,1)."
    )


def parse(arguments: Sequence[str], loader: Any) -> list[Override]:
    return OverridesParser.create(config_loader=loader).parse_overrides(list(arguments))


def _directions(objectives: Sequence[str]) -> dict[str, str]:
    """Metric → direction. Raises ConfigError."""
    found = dict(one.partition(":")[::2] for one in objectives)
    for metric, direction in found.items():
        if direction not in DIRECTIONS:
            raise ConfigError(
                f"hydra.sweeper.objectives: {metric}:{direction} has no direction that is known",
                f"Write {metric}:{DIRECTIONS[0]} or {metric}:{DIRECTIONS[1]}.",
            )
    if not found:
        raise ConfigError(
            "hydra.sweeper.objectives is empty", "For example: hydra.sweeper.objectives=[tpot_s:minimize]"
        )
    return found


def _for_optuna(objectives: Mapping[str, str]) -> list[Any]:
    from optuna.study import StudyDirection

    return [StudyDirection[direction.upper()] for direction in objectives.values()]


def _check(n_trials: int, sampler: str) -> None:
    if sampler not in SAMPLERS:
        raise ConfigError(f"hydra.sweeper.sampler={sampler!r} is not known", f"Use one of: {', '.join(SAMPLERS)}.")
    if n_trials < 1:
        raise ConfigError(f"hydra.sweeper.n_trials={n_trials} is out of range", "Use 1 or more.")


def _sampler(name: str, seed: int) -> Any:
    from optuna.samplers import NSGAIISampler, RandomSampler, TPESampler

    if name == "tpe":  # the liar: what runs counts as bad, so that phones do not all try the same
        return TPESampler(seed=seed, n_startup_trials=STARTUP, constant_liar=True)
    return NSGAIISampler(seed=seed, population_size=STARTUP) if name == "nsgaii" else RandomSampler(seed=seed)


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)


def _number(text: str, space: Any) -> float | int:
    from optuna.distributions import IntDistribution

    return int(text) if isinstance(space, IntDistribution) else float(text)


def _text(value: Any) -> str:
    """As Hydra's grammar reads it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value) if isinstance(value, float) else str(value)
