"""A sweep over two phones as it looks when it has run: baselines, chains, one diverged, one failed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from device_agent.protocol import EngineSpec, RequestResult, StorageSpec, to_json
from orchestrator.comparison import compare
from orchestrator.entities import Sweep, TrialSpec
from orchestrator.registry.memory import MemoryRegistry
from orchestrator.tracking.delivery import Delivery
from orchestrator.tracking.mlflow_writer import MlflowSink
from tests.fakes import farms
from tests.fakes import trials as fake

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"


def ran(name: str = "two-phones") -> tuple[MemoryRegistry, Sweep]:
    registry = farms.farm()
    specs = [
        fake.spec(f"{p}-{s}", device=p, strategy=s)
        for s in ("chain", "autoregressive")
        for p in ("oneplus12", "pixel8")
    ]
    diverged, failed = chain("diverged", 12), chain("failed", 7)
    sweep = farms.submit(registry, name, [*specs, diverged, failed])
    for i, spec in enumerate(specs):
        accepted = 4.0 if spec.labels["strategy"] == "chain" else 1.0
        farms.finish(registry, spec, metrics(1.75 / accepted**0.6 + i * 0.01, accepted), [request(range(32))])
    farms.finish(registry, diverged, metrics(0.6, 5.2), [request([*range(17), *range(50, 65)])])
    farms.fail(registry, failed, "no space left on /data")
    for trial in registry.trials(sweep.sweep_id):
        if trial.result:
            derived = compare(trial, registry.baselines(trial))
            registry.set_derived(trial.spec.trial_id, *derived)
    return registry, sweep


def repeated(name: str = "repeated") -> tuple[MemoryRegistry, Sweep]:
    """Plain decoding and chain, three repeats of one prompt: 2.0, 2.1 and 2.2 times as fast."""
    registry = farms.farm()
    both = [(strategy, repeat) for repeat in range(3) for strategy in ("autoregressive", "chain")]
    specs = [_repeat(strategy, repeat) for strategy, repeat in both]
    sweep = farms.submit(registry, name, specs)
    for spec in specs:
        tpot_s = 2.0 + spec.repeat / 10 if spec.labels["strategy"] == "autoregressive" else 1.0
        farms.finish(registry, spec, metrics(tpot_s, 2.0), [fake.request([1, 2], tpot_s=tpot_s)])
    return registry, sweep


def _repeat(strategy: str, repeat: int) -> TrialSpec:
    labels = fake.spec("x", strategy=strategy).labels | {"config_key": strategy, "baseline_key": f"b{repeat}"}
    return fake.spec(f"{strategy}{repeat}", strategy=strategy, repeat=repeat, labels=labels)


def hostile(registry: MemoryRegistry) -> Sweep:
    """A sweep whose every name is markup."""
    labels = {**fake.spec("x").labels, "pair": HOSTILE, "strategy": HOSTILE, "workload": "{{ 7 * 7 }}"}
    spec = fake.spec("hostile", labels=labels)
    sweep = farms.submit(registry, f"evil{HOSTILE}", [spec])
    found = {**metrics(1.0, 2.0), "speedup_over_autoregressive": 1.5}
    farms.finish(registry, spec, found, tags={"exactness": HOSTILE, "energy_method": HOSTILE})
    return sweep


def log(registry: MemoryRegistry, uri: str, artifacts: Path) -> None:
    delivery = Delivery(MlflowSink(uri, artifacts))
    delivery.drain(registry, limit=1000)
    delivery.close()
    assert registry.outbox(1) == []


def chain(name: str, k: int) -> TrialSpec:
    spec = fake.spec(name)
    engine = EngineSpec("chain", k, storage=StorageSpec(flash_bandwidth_mb_s=500.0))
    return fake.spec(name, job={**spec.job, "engine": to_json(engine)})


def metrics(tpot_s: float, accepted: float) -> dict[str, float]:
    return {
        "ttft_s": 3.1,
        "tpot_s": tpot_s,
        "tokens_per_s": 1 / tpot_s,
        "acceptance_length": accepted,
        "block_efficiency": accepted,
        "energy_j_per_token": 1.2 * tpot_s,
    }


def request(ids: Sequence[int]) -> RequestResult:
    return fake.request(ids, None, fake.exact(len(ids)))
