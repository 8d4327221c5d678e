"""Sweeps over virtual phones that are broken at random, for so long: nothing lost, nothing twice, every reason true."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from orchestrator.farm import virtual_phones
from orchestrator.registry.contract import Registry
from tests.fakes.live_farm import PAIR, LiveFarm
from tests.soak import verdict
from tests.soak.doctor import Doctor
from tests.soak.faulter import Faulter
from tests.soak.ledger import Ledger

PROFILES = ("oneplus12", "pixel8", "midrange")
SWEEP_S = 1800.0  # longest time of one command
ROUNDS = 5  # of the same command, until nothing of its sweep has failed
TRIALS = ("engine=autoregressive,chain", "workload=demo", "workload.max_new_tokens=12")
SHARED = "schedule.exclusive_host=false"
TOGETHER = 4  # registrations
REGISTER_S = 600.0


def soak(home: Path, seconds: float, seed: int, n_phones: int, repeats: int) -> dict[str, Any]:
    """Figures as JSON has them; `violations` is empty when all is as it has to be."""
    farm = LiveFarm(home)
    phones = [f"{PROFILES[i % len(PROFILES)]}-{i}" for i in range(n_phones)]
    farm.prepare()
    try:
        with ThreadPoolExecutor(TOGETHER) as threads:
            list(threads.map(lambda phone: _register(farm, phone), phones))
        with farm.registry() as registry:
            return _soaked(farm, registry, phones, seconds, seed, repeats)
    finally:
        for phone in phones:
            virtual_phones.stop(farm.settings, phone)


def _soaked(
    farm: LiveFarm, registry: Registry, phones: list[str], seconds: float, seed: int, repeats: int
) -> dict[str, Any]:
    ledger = Ledger()
    faulter = Faulter(farm.settings, phones, seed, ledger)
    doctor = Doctor(registry, faulter)
    began = time.monotonic()
    faulter.start()
    doctor.start()
    sweeps, notes = list[str](), list[str]()
    try:
        while not sweeps or time.monotonic() - began < seconds:
            sweeps.append(f"soak-{seed}-{len(sweeps)}")
            notes += _run(farm, sweeps[-1], len(sweeps), repeats)
    finally:
        faulter.stop()
    sweeps.append(f"soak-{seed}-calm")  # every phone works once more
    notes += _run(farm, sweeps[-1], len(sweeps), 1)
    doctor.stop()
    figures = _figures(farm, registry, sweeps, ledger, doctor)
    took = {"seconds": round(time.monotonic() - began, 1), "seed": seed, "phones": len(phones), "sweeps": len(sweeps)}
    return {**took, **figures, "violations": notes + figures["violations"]}


def _register(farm: LiveFarm, phone: str) -> None:
    farm.lever("phones", "register", f"virtual:{phone.rpartition('-')[0]}", "--name", phone, timeout_s=REGISTER_S)


def _run(farm: LiveFarm, sweep: str, number: int, repeats: int) -> list[str]:
    """As a person does: the same command again until nothing has failed. What cannot be is returned."""
    own = f"engine.storage.flash_bandwidth_mb_s={1 + number / 1000}"  # sweeps have no trial in common
    words = ["sweep", "-m", f"pair={PAIR}", *TRIALS, SHARED, own, f"schedule.repeats={repeats}", f"sweep={sweep}"]
    said = ""
    for _ in range(ROUNDS):
        process = farm.start(*words, "runtime=inline")
        try:
            said, _ = process.communicate(timeout=SWEEP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
            return [f"{sweep} did not end within {SWEEP_S:g} s: {said[-2000:]}"]
        if process.returncode == 0:
            return []
        if "Traceback" in said:
            return [f"{sweep} ended with a traceback: {said[-2000:]}"]
    return [f"{sweep} still fails after {ROUNDS} rounds: {said[-2000:]}"]


def _figures(farm: LiveFarm, registry: Registry, sweeps: list[str], ledger: Ledger, doctor: Doctor) -> dict[str, Any]:
    by_sweep = {sweep: registry.trials(registry.sweep(sweep).sweep_id) for sweep in sweeps}
    trials = [trial for found in by_sweep.values() for trial in found]
    violations = [
        *verdict.trial_violations(trials, registry, ledger),
        *verdict.twice_in_events(registry),
        *(text for sweep, found in by_sweep.items() for text in verdict.mlflow_violations(farm.settings, sweep, found)),
        *verdict.untrue_quarantines(doctor.seen, registry, ledger),
        *verdict.sick_phones(farm.settings, registry),
    ]
    quarantines = [f"{seen.phone}: {seen.reason}" for seen in doctor.seen]
    return {**verdict.counts(registry, trials, ledger), "quarantines": quarantines, "violations": violations}
