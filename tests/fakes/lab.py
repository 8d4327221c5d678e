"""A bench on which attempts of an agent run, and a test acts upon their progress."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from device_agent.protocol import PackManifest
from orchestrator.entities import AttemptOrder, AttemptOutcome, Device, Progress
from orchestrator.errors import ModelError
from orchestrator.farm import runtimes
from orchestrator.farm.adb.contract import Transport
from orchestrator.farm.agent_client import run_attempt
from orchestrator.farm.attempt_watch import Limits
from orchestrator.settings import Settings
from tests.fakes.bench import Bench
from tests.fakes.shell_agent import job, shell_agent

QUICK = Limits(poll=0.02, first_contact=2, unreachable=3, longest_backoff=0.2, birth=3, farewell=3)
ATTEMPT = "t1.1"
HANDS_OUT = 'cd "$2"; echo start >>starts; cp "$here/canned.json" result.json'


class NoPacks:
    """A store for jobs without packs."""

    def pack_dir(self, pack_hash: str) -> Path:
        raise ModelError(f"no pack {pack_hash}")

    def manifest(self, pack_hash: str) -> PackManifest:
        raise ModelError(f"no pack {pack_hash}")


class Lab:
    """Runs attempts of a shell agent and lets a test act upon their progress."""

    def __init__(self, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bench, self.tmp_path, self._patch = bench, tmp_path, monkeypatch
        self.settings = Settings(tmp_path / "home", "", "", "here")
        self.cancelled = threading.Event()
        self.progress: list[Progress] = []
        self.on: dict[str, Callable[[], object]] = {}  # progress kind → what to do the first time
        self.connect: Callable[[Device], Transport] = bench.connect

    def agent(self, script: str, canned: bytes = b"") -> None:
        parcel = shell_agent(self.tmp_path / "bundle", script, canned)
        self._patch.setattr(runtimes, "host_python_bundle", lambda home: parcel)

    def order(self, deadline_s: float = 30.0, attempt_id: str = ATTEMPT) -> AttemptOrder:
        return AttemptOrder(attempt_id, self.bench.device, job(attempt_id), deadline_s)

    def run(self, order: AttemptOrder | None = None, limits: Limits = QUICK) -> AttemptOutcome:
        order = order or self.order()
        return run_attempt(order, self.connect, NoPacks(), self.settings, self.report, self.cancelled, limits)

    def file(self, name: str, attempt_id: str = ATTEMPT) -> Path:
        return self.bench.file(f"jobs/{attempt_id}/{name}")

    def let_go(self) -> None:
        self.file("go").touch()

    def pid(self) -> int:
        return int(self.file("pid").read_text())

    def kinds(self) -> list[str]:
        return [progress.kind for progress in self.progress if progress.kind != "provisioning"]

    def report(self, progress: Progress) -> None:
        self.progress.append(progress)
        if action := self.on.pop(progress.kind, None):
            action()


@pytest.fixture
def lab(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(bench, tmp_path, monkeypatch)


def gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def wait_until(condition: Callable[[], bool], deadline_s: float = 10) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
