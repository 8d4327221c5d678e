"""What the controller asks again and again walks over no table that grows with the trials that finished."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from orchestrator.entities import FarmEvent, Sweep, TrialState
from orchestrator.registry.sql import SqlRegistry, open_registry
from tests.fakes import farm
from tests.fakes.farm import PHONE

GROWING = ("trials", "attempts", "results", "events", "sweep_trials", "tracking_runs")
FINISHED = 4000

# As many finished trials as make a planner prefer its indexes; copies of one that really ran.
COPIES = (
    "INSERT INTO trials (trial_id, state, device, repeat, reference_key, baseline_key, strategy, streamed, "
    "last_device, attempts, earlier_attempts, charged_failures, reason, derived, labels, config, job) "
    "SELECT 'old' || n, state, device, n, reference_key, 'old' || n, strategy, streamed, last_device, 1, 0, 0, "
    "'', derived, labels, config, job FROM trials, numbers WHERE trial_id = 't0'",
    "INSERT INTO sweep_trials SELECT 'id-old', 'old' || n, n FROM numbers",
    "INSERT INTO attempts SELECT 'old' || n, 'old' || n, 1, device, token, owner, state, started_at, ended_at - 9, "
    "failure_kind, failure_message, log_tail, charged, cancel_requested, wall_s, connection_losses "
    "FROM attempts, numbers WHERE trial_id = 't0'",
    "INSERT INTO results SELECT 'old' || n, result, rounds, nodes FROM results, numbers WHERE trial_id = 't0'",
    "INSERT INTO events (at, kind, trial_id, data) SELECT 0, 'trial_done', 'old' || n, '{}' FROM numbers",
)
NUMBERS = {
    "sqlite": f"CREATE TEMPORARY TABLE numbers AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c "
    f"LIMIT {FINISHED}) SELECT n FROM c",
    "postgresql": f"CREATE TEMPORARY TABLE numbers AS SELECT generate_series(1, {FINISHED}) AS n",
}


@pytest.fixture(params=["sqlite", "postgresql"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlRegistry]:
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'registry.db'}" if sqlite else request.getfixturevalue("postgres_url")
    with closing(open_registry(url)) as made:
        assert isinstance(made, SqlRegistry)
        made.put_device(farm.phone())
        baseline = farm.variant("t0", "b0", strategy="autoregressive", repeat=FINISHED + 1)
        made.submit(Sweep("id-s", "s"), [baseline, *(farm.trial(f"t{i}") for i in range(1, 9))])
        farm.finish(made, "t0")
        made.submit(Sweep("id-old", "old"), [])
        _age(made)
        yield made


def _age(registry: SqlRegistry) -> None:
    with registry._db.write() as session:
        connection = session.connection()
        for statement in (NUMBERS[connection.dialect.name], *COPIES, "DROP TABLE numbers", "ANALYZE"):
            connection.exec_driver_sql(statement)


def test_the_hot_path_never_walks_over_finished_trials(registry: SqlRegistry) -> None:
    attempt = farm.run(registry, "t1")
    last = registry.last_event_id()
    hot: dict[str, Callable[[], object]] = {
        "queue": registry.queue,
        "queued again": lambda: registry.queue(["t3"]),
        "queue's length": registry.queue_length,
        "running": registry.running,
        "renew": lambda: registry.renew([attempt], 60),
        "trial": lambda: registry.trial("t1"),
        "attempts": lambda: registry.attempts("t1"),
        "finish": lambda: registry.finish_attempt(attempt, farm.done(attempt), TrialState.DONE, False),
        "start": lambda: farm.run(registry, "t2"),
        "adopt": lambda: registry.adopt(registry.running()[0].attempt_id, "me", 60),
        "underived": lambda: registry.underived(5),
        "baselines": lambda: registry.baselines(registry.trial("t0")),
        "compare again": lambda: registry.compare_again(registry.trial("t0")),
        "derived": lambda: registry.set_derived("t1", {"m": 1.0}, {}),
        "recent": lambda: registry.recent_attempts(PHONE, 5),
        "news": lambda: registry.events(last),
        "sweep's news": lambda: registry.events(last, "id-s"),
        "last": registry.last_event_id,
        "event": lambda: registry.add_event(FarmEvent("progress")),
        "reasons": lambda: registry.set_waiting_reason({"t3": "why"}),
        "sweeps of": lambda: registry.sweeps_of("t1"),
        "unfinished": registry.unfinished,
        "outbox": lambda: registry.outbox(5),
        "delivered": lambda: registry.outbox_done([1]),
    }
    assert {name: walks for name, ask in hot.items() if (walks := walked(registry, ask))} == {}


def test_a_trial_has_few_baselines_however_many_there_are(registry: SqlRegistry) -> None:
    trial = registry.trial("t0")
    assert [t.spec.trial_id for t in registry.baselines(trial)] == ["t0", "old1"]
    assert registry.compare_again(trial) == 0
    assert steps(registry, lambda: registry.baselines(trial)) == []
    assert steps(registry, lambda: registry.compare_again(trial)) == []


def test_renewing_asks_as_little_for_many_phones_as_for_one(registry: SqlRegistry) -> None:
    for name in ("second", "third"):
        registry.put_device(farm.phone(name))
    registry.submit(Sweep("id-s", "s"), [farm.trial("on-second", "second"), farm.trial("on-third", "third")])
    held = [
        farm.run(registry, "t1"),
        farm.run(registry, "on-second", "second"),
        farm.run(registry, "on-third", "third"),
    ]
    asked: list[str] = []
    event.listen(registry._db.engine, "before_cursor_execute", lambda *of: asked.append(of[2]))
    assert registry.renew(held[:1], 60.0) == []
    few = len(asked)
    assert registry.renew(held, 60.0) == []
    assert len(asked) == 2 * few


def test_a_question_that_does_walk_is_seen(registry: SqlRegistry) -> None:
    def ask() -> None:
        with registry._db.read() as session:
            session.connection().exec_driver_sql("SELECT count(*) FROM results WHERE rounds = 'x'")
            session.connection().exec_driver_sql("SELECT trial_id FROM results ORDER BY rounds")

    assert walked(registry, ask) == ["results", "results"]
    assert "sort" in steps(registry, ask)


def walked(registry: SqlRegistry, ask: Callable[[], object]) -> list[str]:
    """Growing tables that the statements behind one call read from end to end."""
    return [step for step in steps(registry, ask) if step in GROWING]


def steps(registry: SqlRegistry, ask: Callable[[], object]) -> list[str]:
    """What grows with what is there, of the statements behind one call: tables read from end to end, and sorts."""
    statements: list[tuple[str, Any]] = []
    engine = registry._db.engine

    def note(_c: object, _cursor: object, statement: str, parameters: object, *_more: object) -> None:
        statements.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    ask()
    event.remove(engine, "before_cursor_execute", note)
    planned = [(s, p) for s, p in statements if s.startswith(("SELECT", "UPDATE", "DELETE")) and "advisory" not in s]
    with registry._db.read() as session:
        connection = session.connection()
        explain = _sqlite_steps if connection.dialect.name == "sqlite" else _postgresql_steps
        return [step for s, p in planned for step in explain(connection, s, p)]


def _sqlite_steps(connection: Any, statement: str, parameters: Any) -> Iterator[str]:
    for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters):
        if row[3].startswith("SCAN "):  # of an index, too
            yield row[3].split()[1]
        if row[3].startswith("USE TEMP B-TREE"):
            yield "sort"


def _postgresql_steps(connection: Any, statement: str, parameters: Any) -> Iterator[str]:
    plan = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters).scalar()
    nodes = [(json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]]
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        if node["Node Type"] == "Seq Scan":
            yield node["Relation Name"]
        if node["Node Type"] == "Sort":
            yield "sort"
