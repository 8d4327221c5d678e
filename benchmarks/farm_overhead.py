"""Median of attempt wall minus agent wall, on a real virtual phone.

The pair is a tiny random one whose layers are streamed slowly, so that a trial takes some ten seconds: long enough for
the farm to look at it as seldom as at any trial.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from orchestrator.farm import virtual_phones
from tests.fakes.live_farm import PAIR, STREAMED, LiveFarm

PHONE, NAME, TOKENS = "oneplus12", "overhead", 100
TIMEOUT_S = 900.0


def measure(quick: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="lever-bench-", ignore_cleanup_errors=True) as folder:
        farm = LiveFarm(Path(folder))
        farm.prepare(PHONE)
        try:
            farm.lever(*_sweep(3 if quick else 12), timeout_s=TIMEOUT_S)
        finally:
            virtual_phones.stop(farm.settings, PHONE)
        with farm.registry() as registry:
            trials = registry.trials(registry.sweep(NAME).sweep_id)
    agents = [(trial.result or {})["metrics"]["agent_wall_s"] for trial in trials]
    overheads = [(trial.attempt_wall_s or 0.0) - agent for trial, agent in zip(trials, agents, strict=True)]
    return {
        "trial_overhead_s": round(statistics.median(overheads), 3),
        "trial_overhead_max_s": round(max(overheads), 3),
        "trial_overhead_trials": len(trials),
        "trial_overhead_agent_s": round(statistics.median(agents), 1),
    }


def _sweep(repeats: int) -> tuple[str, ...]:
    size = ("workload=demo", "workload.limit=1", f"workload.max_new_tokens={TOKENS}", f"schedule.repeats={repeats}")
    what = ("sweep", "-m", f"pair={PAIR}", "engine=autoregressive", "runtime=inline", f"sweep={NAME}")
    return *what, *size, *STREAMED
