"""The loop while a disk is full."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from orchestrator.controller import disk
from orchestrator.controller import loop as controller_loop
from orchestrator.entities import (
    FarmEvent,
)
from orchestrator.errors import RegistryError
from orchestrator.registry.sql import SqlRegistry, open_registry
from tests.fakes import farm
from tests.fakes.controllers import ControllerBench


def test_nothing_is_started_without_room_on_the_disk_and_it_is_said_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    free = [5_000_000]
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(10**12, 0, free[0]))  # type: ignore[attr-defined]
    bench = ControllerBench()
    bench.submit([farm.trial("t1")])

    def refill() -> None:
        assert bench.executor.orders == []
        free[0] = 10**12

    bench.during(
        lambda: "has 5 MB free and 200 MB are needed" in bench.registry.trial("t1").reason,
        refill,
        lambda: bench.states() == ["done"],
        controller=bench.controller(pause=lambda: disk.shortage(tmp_path)),
    )
    kinds = [e.kind for e in bench.registry.events() if e.kind.startswith("farm_")]
    assert kinds == ["farm_paused", "farm_resumed"]


def test_a_registry_on_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = ControllerBench()
    with closing(open_registry(f"sqlite:///{tmp_path / 'registry.db'}")) as registry:
        assert isinstance(registry, SqlRegistry)
        bench.registry = registry  # type: ignore[assignment]  # a file instead of memory
        registry.put_device(farm.phone())
        bench.submit([farm.trial(f"t{i}") for i in range(3)])
        full = True

        def limit(connection: Any, _record: object, _proxy: object) -> None:
            pages = connection.execute("PRAGMA page_count").fetchone()[0] if full else 2**30
            connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own answer to a full disk

        event.listen(registry._db.engine, "checkout", limit)
        for size in (2000, 0):  # until not even a small event fits
            with pytest.raises(RegistryError, match="is full") as error:
                fill(registry, "x" * size)
        assert "Free some disk space" in error.value.remedy
        refused = Refused()
        monkeypatch.setattr(controller_loop, "log", refused)

        def make_room() -> bool:
            nonlocal full
            full = not refused.warned
            return not full

        bench.during(make_room, lambda: bench.states() == ["done"] * 3)
        assert "database or disk is full" in str(refused.warned)
        assert all(t.attempts == 1 for t in registry.trials("id-s"))


def fill(registry: SqlRegistry, text: str) -> None:
    while True:
        registry.add_event(FarmEvent("progress", data={"filler": text}))


class Refused:
    """A log that keeps the warnings."""

    def __init__(self) -> None:
        self.warned: list[str] = []

    def warning(self, text: str, *values: object) -> None:
        self.warned.append(text % values)

    def info(self, *_ignored: object) -> None:
        """Not kept."""
