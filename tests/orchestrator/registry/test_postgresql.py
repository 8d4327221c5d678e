"""What only a server can do: go away in the middle, be of another version, be shared by hosts."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from orchestrator.cli.main import run
from orchestrator.controller import Controller, Timing
from orchestrator.entities import AttemptState, FarmEvent, TrialState
from orchestrator.errors import RegistryError
from orchestrator.registry.contract import Registry
from orchestrator.registry.migrations import VERSION_TABLE
from orchestrator.registry.sql import SqlRegistry, open_registry
from tests.fakes import farm
from tests.fakes.cut_proxy import CutProxy
from tests.fakes.executor import OutboxTracker, ScriptedExecutor
from tests.fakes.farm import PHONE
from tests.fakes.live_farm import until
from tests.fakes.postgres import Postgres

QUICK = Timing(poll=0.01, reconcile=0.1, trouble=0.01, tracker=0.01)


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[CutProxy]:
    made = CutProxy(postgres_url)
    yield made
    made.close()


@pytest.fixture
def registry(proxy: CutProxy) -> Iterator[Registry]:
    """Through the proxy."""
    with closing(open_registry(proxy.url)) as made:
        made.put_device(farm.phone())
        farm.submit(made, "t1", "t2")
        yield made


@pytest.mark.parametrize(("cut", "claimed"), [("before", False), ("after", True)])
def test_a_connection_lost_in_mid_claim_is_an_error_and_the_claim_whole_or_not_at_all(
    registry: Registry, proxy: CutProxy, cut: str, claimed: bool
) -> None:
    proxy.cut = cut
    with pytest.raises(RegistryError, match="failed") as error:
        farm.run(registry, "t1")
    assert "lever@127.0.0.1" in error.value.message
    wanted = TrialState.RUNNING if claimed else TrialState.WAITING
    until(lambda: registry.trial("t1").state is wanted, f"the trial is {wanted}")
    assert [a.trial_id for a in registry.running()] == (["t1"] if claimed else [])
    assert [e.kind for e in registry.events()].count("attempt_started") == claimed


async def drive(registry: Registry, proxy: CutProxy, cuts: list[str], done: Callable[[], bool]) -> None:
    """A controller until all is done; as soon as one connection was cut the next one is going to be."""
    stop, controller = (
        asyncio.Event(),
        Controller(registry, ScriptedExecutor(), OutboxTracker(), "there/1/1", "here", QUICK),
    )
    running = asyncio.create_task(controller.run(stop))
    while not done():
        assert not running.done(), running.exception()
        if cuts and not proxy.cut:
            proxy.cut = cuts.pop()
        await asyncio.sleep(0.005)
    proxy.cut = ""
    stop.set()
    await running


def test_a_controller_survives_connections_cut_at_its_commits(
    registry: Registry, proxy: CutProxy, postgres_url: str
) -> None:
    with closing(open_registry(postgres_url)) as direct:
        done = lambda: direct.counts("id-s") == {TrialState.DONE: 2}  # noqa: E731
        asyncio.run(asyncio.wait_for(drive(registry, proxy, ["before", "after"] * 10, done), 60))
        assert proxy.cuts >= 4
        for trial in direct.trials("id-s"):
            assert [a.state for a in direct.attempts(trial.spec.trial_id)] == [AttemptState.DONE]
        assert [e.kind for e in direct.events(limit=9999)].count("trial_done") == 2


def test_a_server_that_is_killed_and_comes_back_is_used_again() -> None:
    with tempfile.TemporaryDirectory(prefix="lever-pg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        server = Postgres(Path(folder), settings="-c fsync=off")
        server.start()
        with closing(open_registry(server.create())) as registry:
            registry.put_device(farm.phone())
            farm.submit(registry, "t1")
            attempt = farm.run(registry, "t1")
            server.kill()
            with pytest.raises(RegistryError, match="failed"):
                registry.add_event(FarmEvent("progress"))
            server.start()
            registry.finish_attempt(attempt, farm.done(attempt), TrialState.DONE, charged=False)
            assert registry.trial("t1").result is not None
        server.stop()


def test_a_follower_misses_no_event_of_writers_that_overtake_each_other(registry: Registry) -> None:
    """Ids are given before they are committed: without order among writers a follower would skip the slower one's."""

    def write() -> None:
        for _ in range(20):
            registry.add_event(FarmEvent("progress"))

    writers = [threading.Thread(target=write) for _ in range(6)]
    after, seen = registry.last_event_id(), list[int]()
    for writer in writers:
        writer.start()
    while len(seen) < 120:
        new = registry.events(after)
        seen += [e.event_id for e in new]
        after = max([after, *seen])
        assert any(w.is_alive() for w in writers) or new or len(seen) == 120
    assert seen == sorted(set(seen))


def test_the_command_line_refuses_a_newer_registry(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with closing(open_registry(postgres_url)) as registry:
        assert isinstance(registry, SqlRegistry)
        with registry._db.write() as session:
            session.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    monkeypatch.setenv("LEVER_HOME", str(tmp_path))
    monkeypatch.setenv("LEVER_REGISTRY_URL", postgres_url)
    for command in (["status"], ["results"], ["cancel", "x"], ["sweep", "pair=smollm2"]):
        assert run(command) == 1
        assert "was written by a newer Lever Farm: schema 9999" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("LEVER_HOME", str(tmp_path))
    monkeypatch.setenv("LEVER_REGISTRY_URL", f"postgresql://lever:secret@127.0.0.1:1/{PHONE}")
    assert run(["status"]) == 1
    said = capsys.readouterr().err
    assert "127.0.0.1" in said
    assert "secret" not in said
