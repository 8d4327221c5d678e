"""A farm to measure the controller on: phones that are names, attempts that are timers, a registry that is real."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, insert, select

from device_agent.protocol import ENGINE_VERSION, PROTOCOL_VERSION, JobResult, RequestResult, to_json
from orchestrator.controller import Controller
from orchestrator.entities import AttemptOrder, AttemptOutcome, Device, Progress, Sweep, TrialSpec
from orchestrator.executor.contract import Executor
from orchestrator.registry.contract import Registry
from orchestrator.registry.models import Base
from orchestrator.registry.sql import open_registry

SWEEP = Sweep("bench", "bench")
TOKENS = 32
FILE = "r.db"
REAL = 100
COPIED = ("trials", "sweep_trials", "attempts", "results", "events")
NUMBERED = ("seq", "event_id")  # by the database
RENAMED = ("trial_id", "attempt_id", "reference_key", "baseline_key")


class TimerExecutor:
    """An attempt takes `seconds` and tells of its progress once a second."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def run(self, order: AttemptOrder) -> AsyncIterator[Progress | AttemptOutcome]:
        end = time.monotonic() + self._seconds
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(1.0, left))
            yield progress(order, self._seconds - left)
        await asyncio.sleep(0)
        yield outcome(order, self._seconds)

    async def stop(self, order: AttemptOrder) -> None:
        """It ends by itself."""


def progress(order: AttemptOrder, time_s: float) -> Progress:
    """As an agent tells it."""
    data = {"request": "p", "tokens": 1, "max_new_tokens": TOKENS, "rounds": 1, "output_ids": [1, 2, 3]}
    return Progress(order.attempt_id, "agent_event", {"kind": "progress", "time_s": time_s, "data": data})


def outcome(order: AttemptOrder, wall_s: float) -> AttemptOutcome:
    return AttemptOutcome(order.attempt_id, result=_result(order), attempt_wall_s=wall_s)


class Ledger:
    """A tracker that is told everything and writes nothing: MLflow's own costs are measured apart."""

    def drain(self, registry: Registry, limit: int = 100) -> int:
        items = registry.outbox(limit)
        registry.outbox_done([item.item_id for item in items])
        return len(items)

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True)
class Cost:
    trials: int
    wall_s: float
    cpu_s: float  # of this process: controller, registry, timers

    @property
    def per_trial_s(self) -> float:
        return self.cpu_s / self.trials


@contextmanager
def world(phones: int) -> Iterator[Registry]:
    """A registry in a folder of its own, with so many phones."""
    with tempfile.TemporaryDirectory() as folder, closing(_registry(folder, phones)) as made:
        yield made


@contextmanager
def grown(phones: int, finished: int) -> Iterator[Registry]:
    """A world with so many finished trials: the controller ran up to a hundred, the others are copies of those, for
    what is asked later depends on how many there are."""
    with tempfile.TemporaryDirectory() as folder, closing(_registry(folder, phones)) as made:
        run(made, trials(0, min(finished, REAL), phones), TimerExecutor(0.0))
        _multiply(_url(folder), -(-finished // REAL))
        yield made


def _multiply(url: str, times: int) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        for table in (Base.metadata.tables[name] for name in COPIED):
            found = [dict(row) for row in connection.execute(select(table)).mappings()]
            for number in range(1, times):
                connection.execute(insert(table), [_copy(row, number, number * len(found)) for row in found])
    engine.dispose()


def _copy(row: dict[str, Any], number: int, before: int) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if name not in NUMBERED}
    renamed = {name: f"{kept[name]}-{number}" for name in RENAMED if kept.get(name)}
    return kept | renamed | ({"position": kept["position"] + before} if "position" in kept else {})


def _registry(folder: str, phones: int) -> Registry:
    made = open_registry(_url(folder))
    for number in range(phones):
        made.put_device(phone(number))
    return made


def _url(folder: str) -> str:
    return f"sqlite:///{Path(folder) / FILE}"


def phone(number: int) -> Device:
    name = f"p{number:03}"
    facts = {"soc": "SM8650", "ram_mb": 16_000}
    return Device(name, f"tcp:127.0.0.1:{number + 1}", "usb", "bench", name, "/", facts=facts)


def trials(first: int, count: int, phones: int) -> list[TrialSpec]:
    return [_trial(number, f"p{number % phones:03}") for number in range(first, first + count)]


def run(registry: Registry, specs: Sequence[TrialSpec], executor: Executor) -> Cost:
    """Submit these and work until they are done."""
    registry.submit(SWEEP, specs)
    return asyncio.run(_work(registry, specs, executor))


async def _work(registry: Registry, specs: Sequence[TrialSpec], executor: Executor) -> Cost:
    controller = Controller(registry, executor, Ledger(), "bench", "bench")
    stop, began, cpu = asyncio.Event(), time.monotonic(), time.process_time()
    working = asyncio.create_task(controller.run(stop))
    while registry.queue_length() or registry.running() or registry.underived(1):
        await asyncio.sleep(1.0)
    found = Cost(len(specs), time.monotonic() - began, time.process_time() - cpu)
    stop.set()
    await working
    return found


def _trial(number: int, device: str) -> TrialSpec:
    """Every twentieth is plain decoding, which the nineteen after it are compared with."""
    group, strategy = number // 2000, "autoregressive" if (number // 100) % 20 == 0 else "chain"
    key = f"{device}-{group}"
    labels = {"pair": "bench", "strategy": strategy, "storage": "flash", "reference_key": key, "baseline_key": key}
    labels |= {"config_key": f"c{number // 100}", "output_tokens": str(TOKENS)}
    config = {"phones": "each", "schedule": {"exclusive_host": False}}
    return TrialSpec(f"t{number}", device, 0, config, {"trial_id": f"t{number}"}, labels)


def _result(order: AttemptOrder) -> dict[str, object]:
    request = RequestResult(
        id="p",
        prompt_tokens=8,
        output_ids=tuple(range(TOKENS)),
        margins=(1.0,) * TOKENS,
        stop_reason="max_new_tokens",
        ttft_s=0.1,
        tpot_s=0.1,
        round_s_p50=None,
        round_s_p95=None,
        top5_after_prompt=(),
        exactness=None,
    )
    trial_id = str(order.job["trial_id"])
    metrics = {"tpot_s": 0.1, "agent_wall_s": 1.0}
    result = JobResult(
        PROTOCOL_VERSION, order.attempt_id, trial_id, ENGINE_VERSION, True, None, (request,), metrics, {}, {}
    )
    return dict(to_json(result))
