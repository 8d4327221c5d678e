"""Sweeps as the registry has them, to be taken up again without composing anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from device_agent.protocol import JobSpec, WireError, from_json
from orchestrator.entities import Sweep, Trial, TrialState
from orchestrator.errors import ConfigError, ModelError
from orchestrator.registry.contract import Registry, Submission
from orchestrator.schema import LeverConf
from orchestrator.sweeps.describe import trial_text
from orchestrator.sweeps.expand import Models

AGAIN = "What it measured stays: lever results. Run the sweep's own `lever sweep` command again: it composes anew."


def resume(registry: Registry, sweep: Sweep, models: Models) -> Submission:
    """What failed, was cancelled or still waits runs again as it was submitted. Raises ConfigError or ModelError, and
    then queues nothing, when a trial would not be accepted any more."""
    trials = registry.trials(sweep.sweep_id)
    check([t for t in trials if t.state is not TrialState.DONE], models)
    return registry.submit(sweep, [t.spec for t in trials])


def check(trials: Sequence[Trial], models: Models) -> None:
    """Raises ConfigError naming the first trial that this version would not accept, ModelError for a pack that is not
    here any more."""
    valid: set[str] = set()  # configurations: many trials share one
    packs: set[str] = set()
    for trial in trials:
        try:
            job = from_json(JobSpec, trial.spec.job)
            if (key := json.dumps(trial.spec.config, sort_keys=True)) not in valid:
                _validate(trial.spec.config)
                valid.add(key)
        except (WireError, ConfigError, OmegaConfBaseException) as error:
            why = str(error).strip().splitlines()[0]
            raise ConfigError(
                f"trial {trial.spec.trial_id} ({trial_text(trial)}) is not valid any more: {why}", AGAIN
            ) from error
        packs |= {pack for pack in (job.target_pack, job.draft_pack) if pack}
    for pack in sorted(packs):
        _find(pack, models)


def _validate(config: dict[str, Any]) -> None:
    typed = OmegaConf.structured(LeverConf)
    typed.merge_with(OmegaConf.create(config))
    OmegaConf.to_object(typed)


def _find(pack: str, models: Models) -> None:
    try:
        models.manifest(pack)
    except ModelError as error:
        raise ModelError(f"the sweep's model pack {pack[:12]}… is not here any more: {error.message}", AGAIN) from error
