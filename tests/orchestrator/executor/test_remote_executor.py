import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from orchestrator.entities import AttemptOrder, AttemptOutcome, Device, DeviceState, FailureKind, Progress
from orchestrator.executor import remote
from orchestrator.executor.remote import HostLost, RemoteExecutor, decode, encode

PHONE = Device("p1", "tcp:127.0.0.1:1", "virtual", "desk", "S1", "/data/local/tmp/lever", DeviceState.BUSY, tags=("a",))
ORDER = AttemptOrder("a1", PHONE, {"attempt_id": "a1"}, 60.0)
STARTED = Progress("a1", "agent_event", {"kind": "started"})
DONE = AttemptOutcome("a1", result={"ok": True}, rounds_jsonl="{}\n")


class ScriptedHost:
    """Each call of `run` plays the next script: items, or HostLost to die at that point."""

    def __init__(self, *scripts: list[Progress | AttemptOutcome | HostLost]) -> None:
        self.scripts = list(scripts)
        self.orders: list[dict[str, Any]] = []
        self.stopped: list[dict[str, Any]] = []

    async def run(self, order: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        self.orders.append(order)
        for item in self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]:
            if isinstance(item, HostLost):
                raise item
            yield json.loads(json.dumps(encode(item)))

    async def stop(self, order: dict[str, Any]) -> None:
        self.stopped.append(order)
        raise HostLost("gone")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "FIRST_WAIT_S", 0.0)


def everything(host: ScriptedHost, patience_s: float = 60.0) -> list[Progress | AttemptOutcome]:
    async def collect() -> list[Progress | AttemptOutcome]:
        executor = RemoteExecutor(lambda _name: host, patience_s)
        return [item async for item in executor.run(ORDER)]

    return asyncio.run(collect())


def test_order_and_items_cross_as_json() -> None:
    host = ScriptedHost([STARTED, DONE])
    assert everything(host) == [STARTED, DONE]
    assert json.loads(json.dumps(host.orders))[0]["device"]["state"] == "busy"
    failed = AttemptOutcome("a1", failure_kind=FailureKind.AGENT_VANISHED, failure_message="gone")
    assert decode(json.loads(json.dumps(encode(failed)))) == failed


def test_a_worker_that_dies_is_asked_again_for_the_same_attempt() -> None:
    host = ScriptedHost([STARTED, HostLost("the worker died")], [DONE])
    items = everything(host)
    assert [type(item).__name__ for item in items] == ["Progress", "Progress", "AttemptOutcome"]
    assert items[1] == Progress("a1", "connection_lost", {"host": "desk", "reason": "the worker died"})
    assert items[-1] == DONE
    assert host.orders[0] == host.orders[1]


def test_a_stream_that_ends_early_is_asked_again() -> None:
    assert everything(ScriptedHost([STARTED], [DONE]))[-1] == DONE


def test_a_host_that_stays_away_is_an_outcome() -> None:
    (outcome,) = everything(ScriptedHost([HostLost("no farm host 'desk' has joined")]), patience_s=-1.0)
    assert isinstance(outcome, AttemptOutcome)
    assert outcome.failure_kind == FailureKind.HOST_LOST
    assert "desk" in outcome.failure_message
    assert "p1" in outcome.failure_message


def test_stopping_on_a_lost_host_is_no_error() -> None:
    host = ScriptedHost([])
    asyncio.run(RemoteExecutor(lambda _name: host).stop(ORDER))
    assert host.stopped[0]["attempt_id"] == "a1"
