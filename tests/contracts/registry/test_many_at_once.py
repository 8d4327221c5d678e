"""What the registry promises to many at once, held against every backend."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any

from orchestrator.entities import (
    Sweep,
    TrialState,
)
from orchestrator.errors import ClaimLost
from orchestrator.registry.contract import Registry
from tests.fakes import farm


def test_many_threads_run_every_trial_exactly_once(registry: Registry) -> None:
    phones = [f"p{i}" for i in range(4)]
    for name in phones:
        registry.put_device(farm.phone(name))
    registry.submit(Sweep("id-s", "s"), [farm.trial(f"t{i}", device=None) for i in range(40)])
    with ThreadPoolExecutor(8) as pool:
        finished = list(chain.from_iterable(pool.map(partial(_work, registry), phones * 2)))
    assert sorted(finished) == sorted(f"t{i}" for i in range(40))
    assert registry.counts("id-s") == {TrialState.DONE: 40}
    assert all(t.attempts == 1 for t in registry.trials("id-s"))
    assert farm.kinds(registry).count("sweep_finished") == 1


def _work(registry: Registry, phone: str) -> list[str]:
    """Two workers share each phone: what one leases the other does not get."""
    mine = []
    while queue := registry.queue()[:3]:
        for trial in [one.trial for one in queue]:
            try:
                attempt = farm.run(registry, trial.spec.trial_id, phone)
            except ClaimLost:
                continue
            registry.finish_attempt(attempt, farm.done(attempt), TrialState.DONE, charged=False)
            mine.append(trial.spec.trial_id)
    return mine


def test_one_of_many_claimers_wins(registry: Registry) -> None:
    phones = [f"p{i}" for i in range(8)]
    for name in phones:
        registry.put_device(farm.phone(name))
    registry.submit(Sweep("id-s", "s"), [farm.trial("t1", device=None)])
    start = threading.Barrier(len(phones))

    def claim(phone: str) -> bool:
        start.wait(30)
        try:
            farm.run(registry, "t1", phone)
        except ClaimLost:
            return False
        return True

    with ThreadPoolExecutor(len(phones)) as pool:
        assert sum(pool.map(claim, phones)) == 1
    assert len(registry.running()) == 1


def test_many_claimers_put_one_timed_run_on_a_host(registry: Registry) -> None:
    phones = [f"p{i}" for i in range(6)]
    for name in phones:
        registry.put_device(farm.phone(name))
    alone: dict[str, Any] = {"schedule": {"exclusive_host": True}}
    registry.submit(Sweep("id-s", "s"), [farm.trial(name, device=name, **alone) for name in phones])
    start = threading.Barrier(len(phones))

    def claim(phone: str) -> bool:
        start.wait(30)
        try:
            farm.run(registry, phone, phone)
        except ClaimLost:
            return False
        return True

    with ThreadPoolExecutor(len(phones)) as pool:
        assert sum(pool.map(claim, phones)) == 1


def test_merging_from_many_threads_loses_nothing(registry: Registry) -> None:
    farm.submit(registry, "t1")
    farm.finish(registry, "t1")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: registry.set_derived("t1", {f"m{i}": float(i)}, {}), range(40)))
    result = registry.trial("t1").result
    assert result is not None
    assert len(result["metrics"]) == 41
